# SPDX-License-Identifier: Apache-2.0
"""The reconcilers, the background services and the evaluator of an engine, and reconcilers for other processes."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable

from oslo_config import cfg

from watcher_sync.assembly.sources import source_scopes
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.doubts import Doubts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.services import BackgroundService, EvaluationService
from watcher_sync.exceptions import PluginConflict
from watcher_sync.extension import gather
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.base import Context, Reconciler, utc_now
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.reconcile.plugins import load_reconcilers
from watcher_sync.reconcile.scheduling import Reconciliation
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.table_model import TableView
from watcher_sync.storage.writing.store import Store


def background_services(conf: cfg.ConfigOpts, dispatcher: Dispatcher) -> list[Callable[[Engine], BackgroundService]]:
    """Makers of an engine's background services: those of the extensions, and the reconciliation.

    :raises ConfigError: the configuration cannot work.
    """

    @functools.cache
    def context(engine: Engine) -> Context:
        return make_context(conf, engine.store, dispatcher, engine.model.snapshot, doubts=engine.doubts)

    found = gather(lambda extension: extension.engine_services(conf, context))
    if conf.reconcile.enabled:
        found.append(
            lambda engine: Reconciliation(
                conf, load_reconcilers(conf, context(engine)), last_gaps=functools.partial(last_gaps, engine)
            )
        )
    return found


def make_evaluator(conf: cfg.ConfigOpts) -> EvaluationService | None:
    """What evaluates the entities that a batch concerns; None: no extension has an evaluator.

    :raises PluginConflict: two extensions have one.
    :raises ConfigError: the configuration cannot work.
    """
    found = gather(lambda extension: extension.evaluators(conf))
    if len(found) > 1:
        names = " and ".join(type(each).__name__ for each in found)
        raise PluginConflict(f"two extensions evaluate the entities of a batch: {names}")
    return found[0] if found else None


def last_gaps(engine: Engine) -> dict[str, datetime.datetime]:
    """Source -> when it last found that events are missing in its transport."""
    statuses = engine.source_status()
    return {name: status.last_gap_at for name, status in statuses.items() if status.last_gap_at is not None}


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
