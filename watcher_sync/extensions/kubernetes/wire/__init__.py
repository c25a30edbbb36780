# SPDX-License-Identifier: Apache-2.0
"""What the API of Kubernetes writes.

``custom_kinds``  which kinds of Kubernetes become custom objects, and the paths of their values
``kubernetes``    partial structs of Kubernetes objects
"""
