# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: lists the live systems, finds what notifications lost, and repairs the model.

``base``                 The contract of a reconciler, its context and its report
``breaker``              Pauses the runs of a scope that keeps failing, and decides for how long
``capacity``             The reconciler of the capacity of hosts, and its providers
``delete_guard``         Counts the entities that a listing would delete without a replacement. Pure functions
``drift``                Where the model and the live system differ. Pure functions
``federation``           The reconciler of followed installations: deletes what a region does not have
``inventories``          Whether the inventories of the reconcilers are complete, for the readiness of the engine
``kubernetes``           The reconciler of Kubernetes clusters and of the VNF instances in them
``live_view``            The objects of a listed cluster as a view, built by the handlers
``liveness``             Whether hosts are up, by Nova's list of services and by their silence
``metrics``              The metrics of reconciliation. The label ``scope`` is a name from the configuration
``notify``               Notifications about syncs and drifts, for listeners on the message bus
``nova``                 The reconciler of Nova: hosts, aggregates and servers of one cloud
``openstack_transport``  Limits the size of the answers of OpenStack's APIs
``openstack``            Authenticated access to the APIs of an OpenStack cloud, as raw JSON
``plugins``              The installed reconcilers: entry points in ``watcher_sync.reconcilers``
``repair``               Writes what a listing found, unless an event wrote the entity meanwhile
``scheduling``           Runs the reconcilers while the engine leads
``scope``                One scope: when it is due, whether it runs, and the results of its runs
"""
