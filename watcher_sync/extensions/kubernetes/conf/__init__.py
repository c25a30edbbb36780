# SPDX-License-Identifier: Apache-2.0
"""The options of Kubernetes.

``custom_kinds``  Kinds of Kubernetes that become custom objects
``namespaces``    Namespaces of Kubernetes that belong to projects
"""
