# SPDX-License-Identifier: Apache-2.0
"""The engine: sources -> batches -> dispatch -> model -> commit -> ack, and who supervises what.

``consumer``        Take a batch, have it committed, ack it: again and again, while the engine leads
``database_health`` The database's comings and goings: said once each
``engine``          The loop that drives everything: stand by, lead, take a batch, commit it, ack it
``guru_report``     The guru meditation report: what an engine is doing, in words, at the moment of a signal
``health``          Whether an engine is ready, and if not, which part of it is why
``housekeeping``    What a leading engine does beside its batches
``intake``          Where the sources' threads hand events to the engine's thread
``leadership``      The thread that keeps a leader's lease alive, whatever its commits are doing
``metrics``         The engine's figures for Prometheus, read when they are asked for
``monitoring_http`` The engine's own small HTTP port: ``/healthz``, ``/readyz``, ``/metrics``
``services``        What else works while an engine leads, and rests while it does not
``supervision``     Sources that are started, watched, and started again for ever
"""
