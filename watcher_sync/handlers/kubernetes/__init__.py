# SPDX-License-Identifier: Apache-2.0
"""The dialect of Kubernetes: watch events become clusters, workloads and pods.

``handler``  Objects of Kubernetes, turned into changes of pods, workloads and clusters
``payloads`` What events of Kubernetes carry: an object, or what the source says of itself. Pure functions
"""
