# SPDX-License-Identifier: Apache-2.0
"""The reconcilers and the background services that run them, for an engine and for other processes."""

from __future__ import annotations

import datetime
import functools
import threading
from collections.abc import Callable, Collection

from oslo_config import cfg

from watcher_sync.assembly.sources import source_scopes
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.doubts import Doubts
from watcher_sync.commit.vnf_evaluation import VnfEvaluation
from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.services import BackgroundService
from watcher_sync.events import Actor
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.handlers.vnf import KIND, VnfHandler
from watcher_sync.model.view import View
from watcher_sync.model.vnf.evaluation import VnfSyncReport
from watcher_sync.operations import Operations
from watcher_sync.reconcile.base import Context, Reconciler, utc_now
from watcher_sync.reconcile.liveness.service import LivenessService, ServiceStates
from watcher_sync.reconcile.liveness.writer import LivenessWriter
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.reconcile.openstack import OpenStackCloud
from watcher_sync.reconcile.plugins import load_reconcilers
from watcher_sync.reconcile.scheduling import Reconciliation
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.kubernetes.source import cluster_targets
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.table_model import TableView
from watcher_sync.storage.writing.store import Store
from watcher_sync.vnf.notifications import VnfNotifications
from watcher_sync.vnf.reconciler import VnfClusterReconciler


def background_services(
    conf: cfg.ConfigOpts, dispatcher: Dispatcher, evaluation: VnfEvaluation
) -> list[Callable[[Engine], BackgroundService]]:
    """Makers of an engine's background services: evaluation of VNF instances, liveness of hosts, reconciliation."""

    @functools.cache
    def context(engine: Engine) -> Context:
        return make_context(conf, engine.store, dispatcher, engine.model.snapshot, doubts=engine.doubts)

    found: list[Callable[[Engine], BackgroundService]] = [
        lambda _engine: evaluation,
        lambda engine: make_liveness(conf, engine, context(engine)),
    ]
    if conf.reconcile.enabled:
        found.append(
            lambda engine: Reconciliation(
                conf, load_reconcilers(conf, context(engine)), last_gaps=functools.partial(last_gaps, engine)
            )
        )
    return found


def last_gaps(engine: Engine) -> dict[str, datetime.datetime]:
    """Source -> when it last found that events are missing in its transport."""
    statuses = engine.source_status()
    return {name: status.last_gap_at for name, status in statuses.items() if status.last_gap_at is not None}


def make_liveness(conf: cfg.ConfigOpts, engine: Engine, context: Context) -> LivenessService:
    """The check for silent hosts among those that the engine's own sources bring."""

    def disconnected() -> Collection[str]:
        statuses = engine.source_status()
        return [name for name, status in statuses.items() if status.state is not SourceState.CONNECTED]

    ask = ServiceStates(OpenStackCloud(conf)) if conf.reconcile_nova.enabled else None
    return LivenessService(
        conf, context.shared(LivenessWriter), engine.model.snapshot, disconnected=disconnected, ask=ask
    )


def make_evaluation(conf: cfg.ConfigOpts) -> VnfEvaluation:
    """The evaluation of the VNF instances in the clusters of this process's sources; of none, if the policy of
    vnf_instance is to observe.

    :raises ConfigError: the configuration cannot work.
    """
    heals = policies(conf).get(KIND, HEAL) == HEAL
    return VnfEvaluation(
        cluster_targets(conf) if heals else {},
        handler=VnfHandler(conf.reconcile),
        notifications=VnfNotifications(Notifications(conf)),
    )


def make_reconcilers(
    conf: cfg.ConfigOpts,
    store: Store,
    dispatcher: Dispatcher,
) -> list[Reconciler]:
    """The installed reconcilers for a process without a replica, which reads the tables.

    :raises ConfigError: the configuration cannot work.
    """
    view = TableView(store.database, store.tables, store.kinds)
    return load_reconcilers(conf, make_context(conf, store, dispatcher, lambda: view))


def make_context(
    conf: cfg.ConfigOpts,
    store: Store,
    dispatcher: Dispatcher,
    view: Callable[[], View],
    *,
    doubts: Doubts | None = None,
) -> Context:
    """The dependencies that the reconcilers of a process share.

    :param doubts: the doubtful entities of this process's engine; None: it has no engine.
    """
    return Context(
        store=store,
        writes=DirectWriter(store, dispatcher, limits=conf.engine),
        dispatcher=dispatcher,
        operations=Operations(OperationLeases(store.database, store.tables), "vnf_instance", conf.operations),
        view=view,
        notifications=Notifications(conf),
        doubts=doubts if doubts is not None else Doubts(),
        now=utc_now,
        source_scopes=functools.partial(source_scopes, conf, dispatcher),
    )


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
