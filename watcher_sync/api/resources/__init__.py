# SPDX-License-Identifier: Apache-2.0
"""The resources of the API, one module each.

``as_of``                   The parameter ``as_of`` of lists, items, search and topology: the model as it was
``changed_states``          ``GET /v1/states``: the states of what changed after a position, for a copy of the model
``cloud_events``            ``POST /v1/events``: CloudEvents 1.0 over HTTP
``compute_model``           ``GET /v1/compute_model``: hosts and servers of one generation, for optimisers
``differences``             ``GET /v1/diff``: what changed of each entity between two moments
``drift_explanations``      Explains drifts in words: what differs, and what an operator can do
``drifts``                  ``/v1/drifts``: what differs from the live systems and from the levels of VNF instances
``engines``                 ``/v1/engines``: the engines of all groups, leading and standing by
``entities``                List, item and history of every kind
``entity_collection``       What the resources of one kind share
``entity_filters``          The filters of a list: ``field=value``, ``field=op:value``
``entity_pages``            Reads a page of a list as its query asks for it
``entity_states``           Entities with their versions: who may read them, and their schema
``events``                  ``GET /v1/events``: the journal as a page, a long poll, or a stream
``host_usage``              The fields ``used_*`` and ``free_*`` of compute nodes
``instance_status``         ``/v1/instance/{id}/status``: an instance and its resources, in ONAP's dialect
``lease_proof``             The headers with which a caller proves that it holds an operation lease
``leases``                  ``/v1/leases``: the operation leases that are held now
``login``                   ``POST /v1/login``: a token of Keystone for the name and the password of a user
``parked``                  ``/v1/parked``: the events that wait for an entity
``quarantine``              ``/v1/quarantine``: list, show, replay and drop quarantined events
``quarantine_reasons``      ``/v1/quarantine_reasons``: quarantined events counted by reason and source
``quotas``                  The maximum number of entities of a kind in one project
``search``                  ``GET /v1/search``: entities of all kinds by their names and ids
``service_type_instances``  The writable fields of ``/v1/service_type_instances``
``sol003``                  A VNF instance in the form of ETSI GS NFV-SOL 003: ``instantiatedVnfInfo``
``sol013``                  Attribute filters and attribute selectors of ETSI GS NFV-SOL 013
``sources``                 ``/v1/sources``: the state of the sources and inventories
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
