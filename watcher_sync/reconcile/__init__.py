# SPDX-License-Identifier: Apache-2.0
"""Reconciliation: what notifications lost is found by listing the live systems, and repaired.

``base``         What a reconciler is
``breaker``      When something that fails is left alone, and for how long
``delete_guard`` How many deletions a listing asks us to believe. Pure
``drift``        Where the model and the live system differ. Pure functions
``kubernetes``   The reconciler of Kubernetes clusters and of the VNF instances in them
``live_view``    What a cluster has, as a view: built of listings with the handlers' own eyes
``metrics``      The metrics of reconciliation. The label ``scope`` is a name from the configuration
``notify``       Notifications about syncs and drifts, for whoever listens on the message bus
``plugins``      The installed reconcilers: entry points in ``watcher_sync.reconcilers``
``repair``       Writing what a listing found, so that whatever was told meanwhile wins
``scheduling``   What runs the reconcilers while the engine leads
``scope``        One scope: when it is due, whether it runs, what became of its runs
"""
