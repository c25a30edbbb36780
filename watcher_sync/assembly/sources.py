# SPDX-License-Identifier: Apache-2.0
"""The enabled sources: their installed drivers, what each may bring, and functions that make their driver instances.

What a source may bring follows from the declarations of its driver and its option ``event_types``. A process without an
engine, such as an API worker, asks for it when it replays a quarantined event. A driver is imported at the first
question about a source that has it. Therefore a process loads no library of a transport that it does not read.

Mistakes in the configuration of sources are reported here, before the process starts its work.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Collection, Mapping

from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.commit.authorisation import API, REPLAY, Authority, Grant
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.exceptions import ConfigError, SourceError, text_of
from watcher_sync.model.kinds import Kind
from watcher_sync.model.scopes import EntityScope
from watcher_sync.plugins import load_plugins, make_driver, require_subclass, why_missing
from watcher_sync.sources.base import Source
from watcher_sync.storage.writing.source_cursors import next_epoch
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)


@functools.cache
def load_driver(name: str) -> type[Source] | None:
    """The class of a driver; None: no driver of this name can be imported."""
    found = load_plugins(
        opts.SOURCES, lambda name, exc: LOG.error("source driver %s: cannot be loaded: %s", name, text_of(exc)), [name]
    )
    return found[-1].plugin if found else None


def missing_declaration(driver: str, cls: type[Source]) -> str | None:
    """Why a driver cannot be started: it does not declare what it may bring. None: it does."""
    for name in ("envelopes", "event_types"):
        value = getattr(cls, name, ())
        if isinstance(value, str) or not isinstance(value, Collection) or not all(isinstance(v, str) for v in value):
            return f"the driver {driver} ({cls.__module__}) declares {name} = {value!r}, not a collection of names"
    if not cls.envelopes:
        return (
            f"the driver {driver} ({cls.__module__}) declares no envelopes, so it may bring no event: its class has to"
            " set Source.envelopes, and event_types unless handlers name the driver"
        )
    return None


def source_makers(conf: cfg.ConfigOpts, store: Store | None) -> dict[str, MakeSource]:
    """name -> maker, for each of ``[engine] enabled_sources``.

    :param store: has the cursors of the sources; None for sources that are never started.
    :raises ConfigError: a source has no driver, a driver that cannot be loaded, or wrong options.
    """
    makers: dict[str, MakeSource] = {}
    for name in conf.engine.enabled_sources:
        if name in makers:
            raise ConfigError(f"[engine] enabled_sources names {name!r} twice")
        makers[name] = _maker(conf, store, name)
    return makers


def source_scopes(conf: cfg.ConfigOpts, dispatcher: Dispatcher) -> dict[str, list[EntityScope]]:
    """name -> the entities that exist only through the source, for each of ``[engine] enabled_sources``.

    :raises ConfigError: a source has no driver, or one that cannot be loaded.
    """
    dialects = [dispatcher.dialect(name) for name in dispatcher.dialects]
    found: dict[str, list[EntityScope]] = {}
    for name in conf.engine.enabled_sources:
        origin = _driver_of(conf, name).origin_of(name, conf)
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
    cls = _driver_of(conf, name)
    return make_driver(f"source_{name}", conf[f"source_{name}"].driver, lambda: cls(name, conf, cursor=cursor))


def digest_of_fields(kinds: Mapping[str, Kind]) -> str:
    """A digest of the names and types of all fields of these kinds."""
    fields = sorted((name, each.name, str(each.type)) for name, kind in kinds.items() for each in kind.fields.values())
    return f"{zlib.crc32(repr(fields).encode()):08x}"


def _maker(conf: cfg.ConfigOpts, store: Store | None, name: str) -> MakeSource:
    cls = _driver_of(conf, name)
    driver = conf[f"source_{name}"].driver
    why_not = missing_declaration(driver, cls)
    make_driver(f"source_{name}", driver, lambda: cls(name, conf))  # not used: raises if an option is wrong

    def make() -> Source:
        if why_not is not None:
            raise SourceError(why_not)
        if store is None:
            return cls(name, conf)
        source = cls(name, conf, cursor=_cursor_of(store, name, cls))
        source.stored_fields, source.stored_kinds = digest_of_fields(store.kinds), tuple(store.kinds)
        return source

    return make


def _cursor_of(store: Store, name: str, cls: type[Source]) -> str | None:
    """What a new instance begins with: its stored position, or an epoch that is stored before it starts.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    if cls.counts_epochs:
        return str(next_epoch(store.commits, store.tables, name))
    return store.cursors().get(name)


def _driver_of(conf: cfg.ConfigOpts, name: str) -> type[Source]:
    """The class of a source's driver; its options are registered.

    :raises ConfigError: the source has no driver, or one that cannot be loaded.
    """
    opts.register_source(conf, name, [])
    driver = conf[f"source_{name}"].driver
    if not driver:
        raise ConfigError(f"[source_{name}] driver is not set; {name!r} is in [engine] enabled_sources")
    cls = load_driver(driver)
    if cls is None:
        raise ConfigError(f"[source_{name}] {why_missing(opts.SOURCES, driver)}")
    require_subclass(f"source_{name}", driver, cls, Source)
    if name == API or (name == REPLAY and driver != "replay"):
        raise ConfigError(
            f"[engine] enabled_sources names {name!r}, which is reserved for events that no driver brings"
        )
    opts.register_source(conf, name, cls.options)
    return cls


class ConfiguredGrants:
    """Name of a source -> its grant; None where ``[engine] enabled_sources`` does not name it."""

    def __init__(self, conf: cfg.ConfigOpts, more: Mapping[str, type[Source]] | None = None) -> None:
        """:param more: name -> class of sources that no configuration names."""
        self._conf = conf
        self._more = more or {}

    def __call__(self, source: str) -> Grant | None:
        """The grant of a source."""
        if source in self._more:
            cls = self._more[source]
            return _grant(cls, source, cls.__name__, None)
        if source not in self._conf.engine.enabled_sources:
            return None
        opts.register_source(self._conf, source, [])
        group = self._conf[f"source_{source}"]
        driver, only = group.driver or "", group.event_types
        installed = load_driver(driver)
        return _grant(installed, source, driver, None if only is None else tuple(only)) if installed else None


def make_authority(
    conf: cfg.ConfigOpts, dispatcher: Dispatcher, more_sources: Mapping[str, Source] | None = None
) -> Authority:
    """The decisions about what the enabled sources may bring.

    :raises ConfigError: an option ``event_types`` names something that its source may not bring.
    """
    more = {name: type(source) for name, source in (more_sources or {}).items()}
    authority = Authority(dispatcher, ConfiguredGrants(conf, more))
    for name in conf.engine.enabled_sources:
        authority.check(name)
    return authority


def _grant(cls: type[Source], source: str, driver: str, only: tuple[str, ...] | None) -> Grant:
    return Grant(
        source=f"source {source} (driver {driver})",
        driver=driver,
        envelopes=frozenset(cls.envelopes),
        event_types=tuple(cls.event_types),
        only=only,
        option=f"[source_{source}] event_types",
    )
