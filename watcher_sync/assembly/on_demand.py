# SPDX-License-Identifier: Apache-2.0
"""The sync of one VNF instance for whoever asks, in a process that is no engine, such as an API worker.

The clusters are those that the process's own configuration follows. They are looked at when the first sync is asked
for: an API that may not read a kubeconfig serves everything else, and what is made is made after a fork.
"""

from __future__ import annotations

import threading

from oslo_config import cfg

from watcher_sync.assembly.reconcile import make_context
from watcher_sync.dispatch import load_handlers
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.model.vnf.reports import SyncReport
from watcher_sync.reconcile.kubernetes.reconciler import KubernetesReconciler
from watcher_sync.storage.reading import TableView
from watcher_sync.storage.store import Store


class SyncOnDemand:
    """For any thread."""

    def __init__(self, conf: cfg.ConfigOpts, store: Store) -> None:
        self._conf = conf
        self._store = store
        # Guards the making of the reconciler.
        self._lock = threading.Lock()
        self._reconciler: KubernetesReconciler | None = None

    def run(self, entity_id: str, *, dry_run: bool) -> SyncReport:
        """Read the cluster, compare, and write what differs.

        :param dry_run: write nothing, whoever holds the instance.
        :raises KeyError: there is no such instance.
        :raises OperationRunning: a life-cycle operation holds it; never in a dry run.
        :raises SourceError: its cluster is not configured in this process, or cannot be listed.
        """
        return self._made().sync_now(entity_id, dry_run=dry_run)

    def _made(self) -> KubernetesReconciler:
        with self._lock:
            if self._reconciler is None:
                store = self._store
                view = TableView(store.database, store.tables, store.kinds)
                context = make_context(self._conf, store, load_handlers(self._conf), lambda: view)
                try:
                    self._reconciler = KubernetesReconciler(self._conf, context)
                except ConfigError as exc:
                    raise SourceError(f"this server cannot reach the clusters: {exc}") from None
            return self._reconciler
