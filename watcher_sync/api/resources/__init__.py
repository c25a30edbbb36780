# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, one module each.

``cloud_events``            ``POST /v1/events``: CloudEvents 1.0 over HTTP
``compute_model``           ``GET /v1/compute_model``: hosts and servers of one generation, for optimisers
``entities``                List, item and history of every kind
``entity_collection``       What the resources of one kind share
``events``                  ``GET /v1/events``: the journal as a page, a long poll, or a stream
``host_usage``              The fields ``used_*`` and ``free_*`` of compute nodes
``instance_status``         ``/v1/instance/{id}/status``: an instance and its resources, in ONAP's dialect
``lease_proof``             The headers with which a caller proves that it holds an operation lease
``quarantine``              ``/v1/quarantine``: list, show, replay and drop quarantined events
``quotas``                  The maximum number of entities of a kind in one project
``service_type_instances``  The writable fields of ``/v1/service_type_instances``
``sol003``                  A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``sol013``                  Attribute filters and attribute selectors of ETSI GS NFV-SOL 013
``sources``                 ``/v1/sources``: the state of the sources; ``/v1/drifts``: the drifts
``subscription_bodies``     The documents of subscriptions and of their deliveries
``subscription_requests``   Checks what a subscriber asks for: the callback, the filters, the secret
``subscriptions``           Subscriptions to the status of instances, in ONAP's dialect
``topology``                ``/v1/topology``: hosts and clusters with the numbers of their members
``vnf_instances``           The writable fields of ``/v1/vnf_instances``: the registration
``vnf_operations``          ``/v1/vnf_instances/{id}/operations``: the operation leases
``vnf_sync``                ``/v1/vnf_instances/{id}/sync``: compares one instance with its cluster now
``watch_bodies``            The documents of watch topics and of their events; decodes YAML
``watch_events``            ``/events/management/v1alpha1/watchtopics/{name}``: the past events of a topic
``watch_ranges``            Ranges of the journal in which a scan found no event of a topic
``watch_topics``            ``/management/v1alpha1/watchtopics``: watch topics
``writing``                 POST, PUT and DELETE for every kind of which the API owns a facet
"""
