# SPDX-License-Identifier: Apache-2.0
"""Clusters, their workloads and pods, and custom objects.

``capacity``   The provider of Kubernetes: what the nodes of a cluster can allocate
``conf``       The options of Kubernetes
``extension``  What the core asks of it
``handler``    watch events of Kubernetes become clusters, workloads and pods
``kinds``      the kinds of Kubernetes
``reconcile``  The reconciler of Kubernetes clusters
``source``     the driver ``kubernetes``: reflectors list and watch the resources of one cluster
``wire``       What the API of Kubernetes writes
"""
