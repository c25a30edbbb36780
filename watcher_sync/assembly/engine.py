# SPDX-License-Identifier: Apache-2.0
"""An engine with its sources and background services.

The assembly checks the configuration before the engine starts. It reports a mistake as a
:class:`~watcher_sync.exceptions.ConfigError` that names the option.
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from watcher_sync import tracing
from watcher_sync.assembly.reconcile import background_services, make_evaluator
from watcher_sync.assembly.sources import make_authority, source_makers, source_scopes
from watcher_sync.assembly.store import open_store, usable_store
from watcher_sync.commit.spans import BatchSpans, BatchTracer
from watcher_sync.conf import reconcile
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.sources.base import Source
from watcher_sync.storage.database.database import open_database
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store


def make_lease(conf: cfg.ConfigOpts, store: Store) -> EngineLease:
    """The lease of this engine's group, over connections of its own.

    A renewal waits for an answer for a third of the lease time, so that another one is in time. It waits for no other
    work of this process.
    """
    seconds = float(conf.database.lease_time)
    database = store.database
    if database.dialect.name != "sqlite":
        database = open_database(conf, answer=seconds / 3, autocommit=True)
    return EngineLease(database, store.tables, f"engine:{conf.engine.group}", seconds=seconds)


def assemble(conf: cfg.ConfigOpts, more_sources: Mapping[str, Source] | None = None) -> Engine:
    """An engine that is ready to run.

    :param more_sources: name -> a source, in addition to ``[engine] enabled_sources``.
    :raises ConfigError: the configuration cannot work.
    :raises SchemaMissing: ``db_sync`` has not been run.
    :raises DatabaseUnavailable: the database is unavailable.
    """
    dispatcher: Dispatcher = load_handlers(conf)
    # The configuration first: an unavailable database must not hide its mistakes.
    declared = open_store(conf, checked=False)
    source_makers(conf, declared)
    tracing.require_installed(conf)
    authority = make_authority(conf, dispatcher, more_sources)
    reconcile.policies(conf, declared.kinds)
    store = usable_store(conf, declared)
    makers = source_makers(conf, store) | {name: _maker(source) for name, source in (more_sources or {}).items()}
    evaluator = make_evaluator(conf)
    services = background_services(conf, dispatcher)
    return Engine(
        conf,
        store,
        dispatcher,
        make_lease(conf, store),
        makers,
        [lambda _engine: evaluator, *services] if evaluator is not None else services,
        evaluator,
        authority,
        scopes=source_scopes(conf, dispatcher),
        make_tracer=lambda: _tracer(conf),
    )


def _tracer(conf: cfg.ConfigOpts) -> BatchTracer | None:
    provider = tracing.make_provider(conf, "watcher-sync-engine")
    return None if provider is None else BatchSpans(provider, scope=tracing.SCOPE)


def _maker(source: Source) -> MakeSource:
    return lambda: source
