# SPDX-License-Identifier: Apache-2.0
"""How the parts of a process are put together from its configuration.

Everything that can be wrong with a configuration comes out here, as one :class:`ConfigError` that names
the option, before a process goes to work.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import ExtensionManager

from watcher_sync.conf import opts, reconcile
from watcher_sync.dispatch import Dispatcher, load_handlers
from watcher_sync.engine import intake
from watcher_sync.engine.engine import Engine
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.exceptions import ConfigError
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.sources.base import Source
from watcher_sync.sources.hosting.source import HostedSource
from watcher_sync.storage import schema
from watcher_sync.storage.database import make_engine
from watcher_sync.storage.leases import EngineLease
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)

ENTITIES = "watcher_sync.entities"


def load_kinds() -> Kinds:
    """The built-in kinds and those of the installed plugins.

    :raises PluginConflict: when two plugins declare the same kind.
    """
    kinds = builtin_kinds()
    manager: ExtensionManager[Any] = ExtensionManager(
        ENTITIES,
        on_load_failure_callback=lambda _m, e, exc: LOG.error("The entity plugin %s cannot be loaded: %s", e.name, exc),
    )
    for extension in sorted(manager, key=lambda e: e.name):
        if not (inspect.isclass(extension.plugin) and issubclass(extension.plugin, Entity)):
            LOG.error("The entity plugin %s is not an Entity class", extension.name)
            continue
        kinds.add(extension.plugin)
    return kinds


def open_store(conf: cfg.ConfigOpts, kinds: Kinds | None = None, *, checked: bool = True) -> Store:
    """The store of ``[database] connection``.

    :param checked: hold the schema against this release.
    :raises ConfigError: when the URL cannot work.
    :raises SchemaMissing: when db_sync has not been run.
    :raises DatabaseUnavailable: when the database cannot be reached (only if checked).
    """
    engine = make_engine(conf)
    store = Store(engine, kinds if kinds is not None else load_kinds())
    if checked:
        schema.check(engine, store.tables)
    return store


def source_makers(conf: cfg.ConfigOpts, store: Store | None) -> dict[str, MakeSource]:
    """name -> maker, for each of ``[engine] enabled_sources``.

    :param store: where they find their cursors; None for sources that are never started.
    :raises ConfigError: when a source has no driver, or one that is not installed.
    """
    manager: ExtensionManager[Any] = ExtensionManager(
        opts.SOURCES,
        on_load_failure_callback=lambda _m, e, exc: LOG.error("The source driver %s cannot be loaded: %s", e.name, exc),
    )
    drivers: dict[str, type[Source]] = {extension.name: extension.plugin for extension in manager}
    makers: dict[str, MakeSource] = {}
    for name in conf.engine.enabled_sources:
        if name in makers:
            raise ConfigError(f"[engine] enabled_sources names {name!r} twice")
        makers[name] = _maker(conf, store, name, drivers)
    return makers


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
    # Not at the top: of all that put a process together, only an engine needs it.
    from watcher_sync.reconcile.assembly import companions

    return Engine(conf, store, dispatcher, make_lease(conf, store), makers, companions(conf, dispatcher))


def _maker(conf: cfg.ConfigOpts, store: Store | None, name: str, drivers: dict[str, type[Source]]) -> MakeSource:
    opts.register_source(conf, name, [])
    driver = conf[f"source_{name}"].driver
    if not driver:
        raise ConfigError(f"[source_{name}] driver is not set; {name!r} is in [engine] enabled_sources")
    if driver not in drivers:
        raise ConfigError(f"[source_{name}] driver = {driver} is not installed; there are {', '.join(sorted(drivers))}")
    cls = drivers[driver]
    opts.register_source(conf, name, cls.options)
    cls(name, conf)  # thrown away: whether it can be made as configured

    def make() -> Source:
        if cls.lives_apart and conf[f"source_{name}"].own_process:
            return HostedSource(cls, name, conf, most=intake.most_in_hand(conf))
        return cls(name, conf, cursor=store.cursors().get(name) if store is not None else None)

    return make
