# SPDX-License-Identifier: Apache-2.0
"""Assembles the parts of a process from its configuration. Only executables and the demo import this package.

``api``           Makes the WSGI application: routes, resources, middlewares; and lists the rules of its policy
``engine``        An engine with its sources and background services
``probing``       Parts of checks: a probe with a time limit, and results
``process``       Start and end of every executable: threads, memory, configuration, logging, exit status
``reconcile``     The reconcilers, the background services that run them, and the sync on request
``safe_logging``  Makes log lines unforgeable
``sources``       The enabled sources: installed drivers, what each source may bring, and what makes them
``store``         The store, with the entity kinds of the installed plugins
"""
