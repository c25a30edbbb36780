# SPDX-License-Identifier: Apache-2.0
"""The engine: it reads events from the sources, commits them in batches, and acknowledges them.

``consumer``         Takes batches from the intake, commits them at a limited size, and acks or nacks their events
``engine``           The engine's main loop: stand by, lead, consume, shut down
``guru_report``      The guru meditation report on SIGUSR2
``health``           Readiness of an engine, with a reason for each failed check
``intake``           The bounded queue between the sources' threads and the engine's thread
``leadership``       The threads that write the engine's lease and its own row
``metrics``          The Prometheus metrics, computed on each scrape
``monitoring_http``  The monitoring HTTP server: ``/healthz``, ``/readyz``, ``/metrics``
``retention``        The thread that purges old rows and counts stored events and drifts
``services``         The interface of background services that run while an engine leads
``source_reporter``  The thread that writes the state of the sources, and how current the model is
``standby``          What an engine does until it leads: it applies the journal and tries to take the lease
``supervision``      Starts each source, checks it, restarts it after a failure, and has it repeat lost events
``watchdog``         The thread that reports the event that holds the engine's thread for too long
"""
