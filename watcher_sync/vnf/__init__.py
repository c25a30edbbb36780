# SPDX-License-Identifier: Apache-2.0
"""VNF instances: their REST resources, with the names of ETSI, and their sync with clusters.

``drifts``         The instances whose pods match no level, as drifts
``instance_sync``  The sync of one instance under its operation lease, and its report
``instances``      The list and the items of ``/v1/vnf_instances``, and the routes of VNF instances
``notifications``  Notifications about syncs and drifts, for listeners on the message bus
``operations``     ``/v1/vnf_instances/{id}/operations`` and ``/v1/leases``: the operation leases, and the proof of one
``reconciler``     The reconciler of Kubernetes clusters and of the VNF instances in them
``registration``   The writable fields of ``/v1/vnf_instances``
``sol003``         A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``sol013``         Attribute filters and attribute selectors of ETSI GS NFV-SOL 013
``vnflcm``         ``/vnflcm/v2/vnf_instances``: the instances for clients of SOL003, read-only
``sync``           ``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now
"""
