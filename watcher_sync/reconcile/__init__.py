# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: lists the live systems, finds what notifications lost, and repairs the model.

``base``                 The contract of a reconciler, its context and its report
``capacity``             The reconciler of the capacity of hosts, and its providers
``capacity_provider``    The interface of a capacity provider, for plugins
``drift``                What a live system has, as a view, and where the model differs from it
``entries``              The entries of one listing: odd ones, doubled ones, and what the listing lacks
``listing``              A reconciler that only lists: the base class for those of plugins
``liveness``             Whether hosts are up, by Nova's list of services and by their silence
``notify``               Sends notifications of our own to listeners on the message bus
``nova``                 The reconciler of Nova: hosts, aggregates and servers of one cloud
``openstack``            Authenticated access to the APIs of an OpenStack cloud, as raw JSON
``openstack_account``    The account that a section names, and where its cloud has each service
``openstack_errors``     The failures of requests to an OpenStack cloud
``openstack_json``       JSON as the services of OpenStack write it
``openstack_listing``    A reconciler that only lists, for the services of OpenStack clouds
``openstack_pages``      The pages of OpenStack's lists, while entries come and go
``openstack_transport``  Limits the size of the answers of OpenStack's APIs
``plugins``              The installed reconcilers: entry points
``repair``               Writes what a listing found, unless an event wrote the entity meanwhile
``scheduling``           Runs the reconcilers while the engine leads, and asks whether their inventories are complete
``scope``                One scope: when it is due, whether it runs, its breaker, its results and their metrics
"""
