# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes clusters and of the VNF instances in them.

``reconciler`` The reconciler of Kubernetes: each cluster that a source of ours follows is one scope
``reports``    What people are told about a VNF instance that is not as its pods are. Pure functions
``vnf_sync``   One VNF instance, brought in step with the pods that the model knows
"""
