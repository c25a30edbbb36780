# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes clusters.

``compare``     Compares one Kubernetes cluster with the model
``reconciler``  Each cluster of a source is one scope; ``vnf`` installs a subclass, which syncs VNF instances, too
"""
