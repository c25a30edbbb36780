# SPDX-License-Identifier: Apache-2.0
"""The reconcilers and the background services that run them, for an engine and for other processes."""

from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg

from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.vnf_evaluation import VnfEvaluation
from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.services import BackgroundService
from watcher_sync.handlers.vnf.handler import KIND
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.base import Context, Reconciler
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.reconcile.plugins import load_reconcilers
from watcher_sync.reconcile.scheduling import Reconciliation
from watcher_sync.sources.kubernetes.source import cluster_targets
from watcher_sync.storage.operation_leases import OperationLeases
from watcher_sync.storage.reading import TableView
from watcher_sync.storage.store import Store


def background_services(
    conf: cfg.ConfigOpts, dispatcher: Dispatcher, evaluation: VnfEvaluation
) -> list[Callable[[Engine], BackgroundService]]:
    """Makers of the background services of an engine: the evaluation of VNF instances, and reconciliation."""
    found: list[Callable[[Engine], BackgroundService]] = [lambda _engine: evaluation]
    if conf.reconcile.enabled:
        found.append(lambda engine: make_reconciliation(conf, engine, dispatcher))
    return found


def make_evaluation(conf: cfg.ConfigOpts) -> VnfEvaluation:
    """The evaluation of the VNF instances in the clusters of this process's sources; of none, if the policy of
    vnf_instance is to observe.

    :raises ConfigError: the configuration cannot work.
    """
    heals = policies(conf).get(KIND, HEAL) == HEAL
    return VnfEvaluation(cluster_targets(conf) if heals else {}, notifications=Notifications(conf))


def make_reconcilers(conf: cfg.ConfigOpts, store: Store, dispatcher: Dispatcher) -> list[Reconciler]:
    """The installed reconcilers for a process without a replica, which reads the tables.

    :raises ConfigError: the configuration cannot work.
    """
    view = TableView(store.database, store.tables, store.kinds)
    return load_reconcilers(conf, make_context(conf, store, dispatcher, lambda: view))


def make_reconciliation(conf: cfg.ConfigOpts, engine: Engine, dispatcher: Dispatcher) -> Reconciliation:
    """The installed reconcilers over this engine's model and store. Makes no connection.

    :raises ConfigError: the configuration cannot work.
    """
    context = make_context(conf, engine.store, dispatcher, engine.model.snapshot)
    return Reconciliation(conf, load_reconcilers(conf, context))


def make_context(conf: cfg.ConfigOpts, store: Store, dispatcher: Dispatcher, view: Callable[[], View]) -> Context:
    """The dependencies that the reconcilers of a process share."""
    return Context(
        store=store,
        writes=DirectWriter(
            store,
            dispatcher,
            lambda: float(conf.engine.parked_ttl),
            max_clock_skew=lambda: float(conf.engine.max_clock_skew),
        ),
        dispatcher=dispatcher,
        operations=Operations(
            OperationLeases(store.database, store.tables), "vnf_instance", lambda: float(conf.operations.lease_time)
        ),
        view=view,
        notifications=Notifications(conf),
    )
