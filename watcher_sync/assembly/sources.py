# SPDX-License-Identifier: Apache-2.0
"""The enabled sources, as functions that make their driver instances.

Mistakes in their configuration are reported here, before the process starts its work.
"""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.assembly.drivers import load_drivers, missing_declaration
from watcher_sync.commit.authorisation import API, REPLAY
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.model.scopes import EntityScope
from watcher_sync.sources.base import Source
from watcher_sync.storage.writing.source_cursors import next_epoch
from watcher_sync.storage.writing.store import Store


def source_makers(conf: cfg.ConfigOpts, store: Store | None) -> dict[str, MakeSource]:
    """name -> maker, for each of ``[engine] enabled_sources``.

    :param store: has the cursors of the sources; None for sources that are never started.
    :raises ConfigError: a source has no driver, a driver that is not installed, or wrong options.
    """
    drivers = load_drivers()
    makers: dict[str, MakeSource] = {}
    for name in conf.engine.enabled_sources:
        if name in makers:
            raise ConfigError(f"[engine] enabled_sources names {name!r} twice")
        makers[name] = _maker(conf, store, name, drivers)
    return makers


def source_scopes(conf: cfg.ConfigOpts, dispatcher: Dispatcher) -> dict[str, list[EntityScope]]:
    """name -> the entities that exist only through the source, for each of ``[engine] enabled_sources``.

    :raises ConfigError: a source has no driver, or one that is not installed.
    """
    drivers, dialects = load_drivers(), [dispatcher.dialect(name) for name in dispatcher.dialects]
    found: dict[str, list[EntityScope]] = {}
    for name in conf.engine.enabled_sources:
        origin = _driver_of(conf, name, drivers).origin_of(name, conf)
        driver = conf[f"source_{name}"].driver
        found[name] = [scope for one in dialects if driver in one.drivers for scope in one.scopes(origin)]
    return found


def make_unstarted(conf: cfg.ConfigOpts, name: str, cursor: str | None = None) -> Source:
    """A source of ``[engine] enabled_sources`` in this process, which is never started.

    :param cursor: its stored position.
    :raises ConfigError: there is no such source, or its options are wrong.
    """
    if name not in conf.engine.enabled_sources:
        known = ", ".join(sorted(conf.engine.enabled_sources)) or "none"
        raise ConfigError(f"{name}: no such source; [engine] enabled_sources are {known}")
    return _driver_of(conf, name, load_drivers())(name, conf, cursor=cursor)


def _maker(conf: cfg.ConfigOpts, store: Store | None, name: str, drivers: dict[str, type[Source]]) -> MakeSource:
    cls = _driver_of(conf, name, drivers)
    why_not = missing_declaration(conf[f"source_{name}"].driver, cls)
    cls(name, conf)  # not used: raises ConfigError if an option is wrong

    def make() -> Source:
        if why_not is not None:
            raise SourceError(why_not)
        cursor = _cursor_of(store, name, cls) if store is not None else None
        return cls(name, conf, cursor=cursor)

    return make


def _cursor_of(store: Store, name: str, cls: type[Source]) -> str | None:
    """What a new instance begins with: its stored position, or an epoch that is stored before it starts.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    if cls.counts_epochs:
        return str(next_epoch(store.commits, store.tables, name))
    return store.cursors().get(name)


def _driver_of(conf: cfg.ConfigOpts, name: str, drivers: dict[str, type[Source]]) -> type[Source]:
    """The class of a source's driver; its options are registered.

    :raises ConfigError: the source has no driver, or one that is not installed.
    """
    opts.register_source(conf, name, [])
    driver = conf[f"source_{name}"].driver
    if not driver:
        raise ConfigError(f"[source_{name}] driver is not set; {name!r} is in [engine] enabled_sources")
    if driver not in drivers:
        raise ConfigError(f"[source_{name}] driver = {driver} is not installed; there are {', '.join(sorted(drivers))}")
    if name == API or (name == REPLAY and driver != "replay"):
        raise ConfigError(
            f"[engine] enabled_sources names {name!r}, which is reserved for events that no driver brings"
        )
    cls = drivers[driver]
    opts.register_source(conf, name, cls.options)
    return cls
