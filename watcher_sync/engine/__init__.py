# SPDX-License-Identifier: Apache-2.0
"""The engine: it reads events from the sources, commits them in batches, and acknowledges them.

``consumer``         Takes batches from the intake, commits them, and acks or nacks their events
``database_health``  Whether the database is available, and the back-off while it is not
``engine``           The engine's main loop: stand by, lead, consume, shut down
``guru_report``      The guru meditation report on SIGUSR2
``health``           Readiness of an engine, with a reason for each failed check
``intake``           The bounded queue between the sources' threads and the engine's thread
``leadership``       The thread that renews the engine's lease while the engine can commit
``metrics``          The Prometheus metrics, computed on each scrape
``monitoring_http``  The monitoring HTTP server: ``/healthz``, ``/readyz``, ``/metrics``
``pace``             Limits a batch to the events that the engine commits in 0.1 seconds
``presence``         The thread that writes the engine's own row to the database
``retention``        The thread that purges old rows and counts stored events and drifts
``rewinding``        Which sources have to repeat events
``services``         The interface of background services that run while an engine leads
``source_reporter``  The thread that writes the state of the sources to the database
``standby``          What an engine does until it leads: it applies the journal and tries to take the lease
``supervision``      Starts each source, checks it, and restarts it after a failure
``timeliness``       Up to which moment the model has the events of each source
``watchdog``         The thread that reports the event that holds the engine's thread for too long
"""
