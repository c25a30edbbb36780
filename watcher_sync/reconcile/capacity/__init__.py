# SPDX-License-Identifier: Apache-2.0
"""The capacity of hosts, from capacity providers.

``base``        The interface of a capacity provider, for plugins
``kubernetes``  The provider of Kubernetes: what the nodes of a cluster can allocate
``merge``       Which provider's value counts. Pure functions
``nova``        The provider of Nova's list of hypervisors
``placement``   The provider of Placement: inventories and usages of resource providers
``plugins``     The installed providers: entry points in ``watcher_sync.capacity_providers``
``reconciler``  Writes what the providers report
``static``      The provider of a YAML file
``writer``      Writes the capacity of hosts, and finds the values that cannot be stored
"""
