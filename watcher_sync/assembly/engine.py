# SPDX-License-Identifier: Apache-2.0
"""An engine process, assembled from its configuration.

Everything that can be wrong with a configuration is reported here as one
:class:`~watcher_sync.exceptions.ConfigError` that names the option, before the engine starts.
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from watcher_sync.assembly.reconcile import companions, make_evaluation
from watcher_sync.assembly.sources import source_makers
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import reconcile
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.storage import schema
from watcher_sync.storage.leases import EngineLease
from watcher_sync.storage.store import Store


def make_lease(conf: cfg.ConfigOpts, store: Store) -> EngineLease:
    """The lease of this engine's group."""
    return EngineLease(store.engine, store.tables, f"engine:{conf.engine.group}", seconds=conf.engine.lease_time)


def assemble(conf: cfg.ConfigOpts, more_sources: Mapping[str, MakeSource] | None = None) -> Engine:
    """A whole engine, ready to run.

    :param more_sources: name -> maker of sources beside those of ``[engine] enabled_sources``.
    :raises ConfigError: when the configuration cannot work.
    :raises SchemaMissing: when db_sync has not been run.
    :raises DatabaseUnavailable: when the database cannot be reached now.
    """
    dispatcher: Dispatcher = load_handlers(conf)
    # The configuration first: a database that is not ready must not hide what is wrong with it.
    store = open_store(conf, checked=False)
    makers = source_makers(conf, store) | dict(more_sources or {})
    reconcile.policies(conf, store.kinds)
    schema.check(store.engine, store.tables)
    evaluation = make_evaluation(conf)
    beside = companions(conf, dispatcher, evaluation)
    return Engine(conf, store, dispatcher, make_lease(conf, store), makers, beside, evaluation)
