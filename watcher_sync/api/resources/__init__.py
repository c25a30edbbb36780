# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, one module each.

``cloud_events``           ``POST /v1/events``: CloudEvents 1.0 over HTTP
``entities``               The entities of every kind: list, item and history
``events``                 ``/v1/events``: the journal as a page, as a long poll
``quarantine``             ``/v1/quarantine``: events that could not be decoded or applied; to look at
``service_type_instances`` Writing ``/v1/service_type_instances``: the one kind whose spec the API owns
``sol003``                 A VNF instance as ETSI GS NFV-SOL 003 shows it: ``instantiatedVnfInfo``
``sources``                ``/v1/sources``: what the engines tell about their sources; ``/v1/drifts``
``topology``               ``/v1/topology``: what stands on what, summed up
``vnf_instances``          ``/v1/vnf_instances``: what is registered is written here
``vnf_operations``         ``/v1/vnf_instances/{id}/operations``: a life-cycle manager takes the instance
``vnf_sync``               ``/v1/vnf_instances/{id}/sync``: one instance is held against its cluster now
``writing``                What the resources that can be written have in common
"""
