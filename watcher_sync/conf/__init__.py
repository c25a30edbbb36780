# SPDX-License-Identifier: Apache-2.0
"""The options, one module per group.

``api``        ``[api]``: the REST API
``engine``     ``[engine]``: sources, batches, leadership and shutdown
``monitoring`` ``[monitoring]``: the engine's own port, and when a source is taken for stale
``operations`` ``[operations]``: the leases of life-cycle operations and of syncs
``opts``       All options of the package in one place: to register them
``paths``      ``[DEFAULT]``: where files are kept
``reconcile``  ``[reconcile]``: how often the live systems are compared, what is repaired, and what stops it
``retention``  ``[retention]``: how long history is kept
``strict``     Options that nobody knows are errors, not silence: a typing mistake must not run in production
"""
