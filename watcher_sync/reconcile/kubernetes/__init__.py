# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes clusters and of the VNF instances in them.

``compare``     Compares one Kubernetes cluster with the model
``reconciler``  The reconciler of Kubernetes: each cluster that a configured source follows is one scope
``vnf_sync``    The sync of one VNF instance under its operation lease, and its report
"""
