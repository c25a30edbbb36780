# SPDX-License-Identifier: Apache-2.0
"""Nova's notifications and APIs, capacity and liveness of hosts.

``allocations``  what the instances use of a host, and what is free
``api``          The REST resources of OpenStack
``assembly``     The check for silent hosts, made from the configuration
``capacity``     The reconciler of the capacity of hosts, and its providers
``checks``       What the upgrade check examines of Nova
``cloud``        Authenticated access to the APIs of an OpenStack cloud
``conf``         The options of OpenStack, beside its accounts
``extension``    What the core asks of it
``extra_specs``  what a flavor asks of a host beside its sizes: NUMA and PCI devices
``findings``     Connections of its drivers without TLS
``handler``      versioned notifications of Nova become compute nodes, instances and aggregates
``kinds``        the kinds of Nova
``liveness``     Whether hosts are up, by Nova's list of services and by their silence
``read``         What the database says of hosts and their instances
``reconcile``    The reconciler of Nova: hosts, aggregates and servers of one cloud
``source``       The drivers of OpenStack's notifications
"""
