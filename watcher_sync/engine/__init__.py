# SPDX-License-Identifier: Apache-2.0
"""The engine: sources -> batches -> dispatch -> model -> commit -> ack, and who supervises what.

===============  =================================================================================
``intake``       where the sources' threads hand events to the engine's one thread, with back-pressure
``cycle``        one batch through dispatch, model and commit; conflicts, refused rows, parked events
``supervision``  sources that are started, watched and started again, for ever
``leadership``   the thread that keeps the lease alive
``companion``    what else starts and stops with a leading engine, such as reconciliation
``housekeeping`` retention, signs of life, expired parked events
``engine``       the loop that drives all of them
===============  =================================================================================

One thread, the engine's own, writes to the model and commits. Everything else only hands things to it.
"""
