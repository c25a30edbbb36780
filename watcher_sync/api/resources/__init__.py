# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, one module each.

``lease_proof``     The headers with which a caller proves that it holds an operation lease
``sol003``          A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``vnf_instances``   The writable fields of ``/v1/vnf_instances``: the registration
``vnf_operations``  ``/v1/vnf_instances/{id}/operations``: the operation leases
``vnf_sync``        ``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now
"""
