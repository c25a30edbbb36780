# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, one module each.

``cloud_events``            ``POST /v1/events``: CloudEvents 1.0 over HTTP
``entities``                List, item and history of every kind
``events``                  ``GET /v1/events``: the journal as a page, a long poll, or a stream
``lease_proof``             The headers with which a caller proves that it holds an operation lease
``quarantine``              ``/v1/quarantine``: list, show, replay and drop quarantined events
``quotas``                  The maximum number of entities of a kind in one project
``service_type_instances``  The writable fields of ``/v1/service_type_instances``
``sol003``                  A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``sources``                 ``/v1/sources``: the state of the sources; ``/v1/drifts``: the drifts
``topology``                ``/v1/topology``: hosts and clusters with the numbers of their members
``vnf_instances``           The writable fields of ``/v1/vnf_instances``: the registration
``vnf_operations``          ``/v1/vnf_instances/{id}/operations``: the operation leases
``vnf_sync``                ``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now
``writing``                 POST, PUT and DELETE for every kind of which the API owns a facet
"""
