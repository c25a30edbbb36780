# SPDX-License-Identifier: Apache-2.0
"""Assembles the parts of a process from its configuration. Only executables and the demo import this package.

``allocator``      Returns the memory of large bodies to the system
``api``            Makes the WSGI application: routes, resources, middlewares
``drivers``        The installed source drivers
``engine``         An engine with its sources and background services
``grants``         What each configured source may bring
``on_demand``      The sync of a VNF instance on request, in a process without an engine
``outlet``         The webhooks of ``watcher-sync-outlet``
``policy_sample``  Lists the rules for ``oslopolicy-sample-generator``
``process``        Start and end of every executable: threads, configuration, logging, exit status
``reconcile``      The reconcilers and the background services that run them
``safe_logging``   Makes log lines unforgeable
``sources``        The enabled sources, as functions that make their driver instances
``store``          The store, with the entity kinds of the installed plugins
``watch``          The watch stream of ``watcher-sync-outlet``
"""
