# SPDX-License-Identifier: Apache-2.0
"""One live, ordered, persisted model of a cloud, updated by notifications.

``accounts``    Lets several threads use one account of Keystone
``api``         The REST API and the page
``assembly``    Builds the parts of a process from its configuration
``backoff``     Pauses between attempts that grow
``client``      The Python client of the REST API, and the commands
``cmd``         The executables
``commit``      The commit cycle: a batch of events becomes one database transaction
``conf``        The options
``decoding``    What the decoders of msgspec raise for a text of others
``demo``        The whole system against simulated control planes, in one process
``dispatch``    The table from event types to handler methods
``engine``      Reads events from the sources, commits them in batches, and acknowledges them
``escaping``    Text of others for a log or a terminal, without control characters
``events``      The type of events
``exceptions``  The exceptions that cross a package boundary
``extension``   What an extension may bring: routes, checks, services, commands, options
``extensions``  The capabilities beyond the core, one folder each
``handlers``    The base class of the dialects: an event and a view become changes
``model``       Declarations of entity kinds, the replica in memory, and the ordering guard
``operations``  Operation leases: one life-cycle operation or sync per entity at a time
``periodic``    One log line for each outage, and threads that work again and again
``plugins``     Loads the installed plugins of a namespace of entry points
``read``        Every reader of the model or of the journal
``reconcile``   Lists the live systems, reports drifts, and repairs the model
``sources``     The base classes of drivers, and their sessions
``storage``     The commit's side of the database: tables, transactions, leases
``tasks``       Ends tasks of an event loop
``testing``     Simulated systems for the tests of plugins
``tracing``     Makes the exporter of traces
``transports``  Connections to brokers that sources and outlets share
``wire``        Codecs of what other systems send and receive
``wsgi``        Entry points for WSGI servers
"""
