# SPDX-License-Identifier: Apache-2.0
"""Syncs single VNF instances in a process without an engine."""

from __future__ import annotations

import threading

from oslo_config import cfg

from watcher_sync.assembly.reconcile import make_context
from watcher_sync.dispatch import load_handlers
from watcher_sync.events import Actor
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.vnf.model.evaluation import VnfSyncReport
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.storage.table_model import TableView
from watcher_sync.storage.writing.store import Store


class SyncOnDemand:
    """Syncs VNF instances on request, in a process without an engine, such as an API worker. Any thread may use it.

    The process's own configuration names the clusters. The first request reads it, not the start of the process. An API
    that may not read a kubeconfig can therefore serve everything else, and no connection is made before a fork.
    """

    def __init__(self, conf: cfg.ConfigOpts, store: Store) -> None:
        self._conf = conf
        self._store = store
        # Guards _reconciler.
        self._lock = threading.Lock()
        self._reconciler: VnfClusterReconciler | None = None

    def run(self, entity_id: str, *, dry_run: bool, actor: Actor | None = None) -> VnfSyncReport:
        """List the cluster, compare, and write the differences.

        :param dry_run: write nothing; an operation lease on the instance does not matter then.
        :param actor: recorded as the writer of the changes.
        :raises KeyError: the instance does not exist.
        :raises OperationRunning: a life-cycle operation holds the instance; never in a dry run.
        :raises SyncHeldBack: a failed operation holds its sync back; never in a dry run.
        :raises SourceError: its cluster is not configured in this process, or cannot be listed.
        """
        return self._get_reconciler().sync_now(entity_id, dry_run=dry_run, actor=actor)

    def _get_reconciler(self) -> VnfClusterReconciler:
        with self._lock:
            if self._reconciler is None:
                store = self._store
                view = TableView(store.database, store.tables, store.kinds)
                context = make_context(self._conf, store, load_handlers(self._conf), lambda: view)
                try:
                    self._reconciler = VnfClusterReconciler(self._conf, context)
                except ConfigError as exc:
                    raise SourceError(f"this server cannot reach the clusters: {exc}") from None
            return self._reconciler
