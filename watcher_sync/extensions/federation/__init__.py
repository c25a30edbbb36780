# SPDX-License-Identifier: Apache-2.0
"""Follows other installations of watcher_sync.

``extension``  What the core asks of it
``handler``    entities of another watcher_sync become entities of a site
``reconcile``  The reconciler of followed installations: deletes what a region does not have
``source``     the driver ``federation``: lists another watcher_sync, and follows its watch stream
"""
