# SPDX-License-Identifier: Apache-2.0
"""How an engine's reconciliation is put together from its configuration."""

from __future__ import annotations

from collections.abc import Callable

from oslo_config import cfg

from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.short import ShortWrites
from watcher_sync.model.view import View
from watcher_sync.operations import Operations
from watcher_sync.reconcile.base import Context
from watcher_sync.reconcile.notify import Notifications
from watcher_sync.reconcile.periodic import Reconciliation
from watcher_sync.reconcile.plugins import load_reconcilers
from watcher_sync.storage.operation_leases import OperationLeases
from watcher_sync.storage.store import Store


def make_reconciliation(conf: cfg.ConfigOpts, engine: Engine, dispatcher: Dispatcher) -> Reconciliation:
    """The installed reconcilers over this engine's model and store. Connects to nothing.

    :raises ConfigError: when the configuration cannot work.
    """
    context = make_context(conf, engine.store, dispatcher, engine.model.snapshot)
    return Reconciliation(conf, load_reconcilers(conf, context))


def make_context(conf: cfg.ConfigOpts, store: Store, dispatcher: Dispatcher, view: Callable[[], View]) -> Context:
    """What the reconcilers of one process work with."""
    return Context(
        store=store,
        writes=ShortWrites(store, dispatcher, lambda: float(conf.engine.parked_time)),
        operations=Operations(
            OperationLeases(store.engine, store.tables), "vnf_instance", lambda: float(conf.operations.lease_time)
        ),
        view=view,
        notifications=Notifications(conf),
    )
