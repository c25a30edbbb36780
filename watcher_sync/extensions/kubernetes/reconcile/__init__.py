# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes clusters.

``compare``     Compares one Kubernetes cluster with the model
``reconciler``  The reconciler of Kubernetes: each cluster that a configured source follows is one scope
"""
