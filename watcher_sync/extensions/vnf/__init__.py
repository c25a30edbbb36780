# SPDX-License-Identifier: Apache-2.0
"""Registrations of VNF instances, their evaluation and their sync.

``api``            The REST resources of VNF instances, with the names of ETSI
``assembly``       The evaluation of VNF instances, made from the configuration
``drifts``         The instances whose pods match no level, as drifts
``evaluation``     Evaluates the VNF instances that a batch concerns, in the commit of the batch
``extension``      What the core asks of it
``handler``        evaluation of VNF instances: pods and workloads of a view become the facet ``observed``
``instance_sync``  The sync of one instance under its operation lease, and its report
``kinds``          The kind ``vnf_instance``
``level_drifts``   VNF instances whose pods match no level, and since when
``model``          the evaluation of VNF instances: pure functions
``notifications``  Notifications about syncs and drifts, for listeners on the message bus
``on_demand``      Syncs single VNF instances in a process without an engine
``reconcile``      The reconciler of Kubernetes clusters and of the VNF instances in them
"""
