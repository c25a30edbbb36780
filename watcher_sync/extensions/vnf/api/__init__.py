# SPDX-License-Identifier: Apache-2.0
"""The REST resources of VNF instances, with the names of ETSI.

``instances``     The list and the items of ``/v1/vnf_instances``, and the routes of VNF instances
``operations``    ``/v1/vnf_instances/{id}/operations`` and ``/v1/leases``: the operation leases, and the proof of one
``registration``  The writable fields of ``/v1/vnf_instances``
``sol003``        A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``sol013``        Attribute filters and attribute selectors of ETSI GS NFV-SOL 013
``sync``          ``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now
``vnflcm``        ``/vnflcm/v2/vnf_instances``: the instances for clients of SOL003, read-only
"""
