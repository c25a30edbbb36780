# SPDX-License-Identifier: Apache-2.0
"""The dialect of Kubernetes: watch events become clusters, workloads and pods.

``custom_kinds``  the kinds that options of the sources name
``handler``       objects of Kubernetes become changes of pods, workloads and clusters
``payloads``      decoding of objects, listings and states of clusters
``pod_states``    reason and restarts of a pod, from its containers
"""
