# SPDX-License-Identifier: Apache-2.0
"""The enabled sources, as functions that make their driver instances.

Mistakes in their configuration are reported here, before the process starts its work.
"""

from __future__ import annotations

from oslo_config import cfg

from watcher_sync.assembly.drivers import load_drivers, missing_declaration
from watcher_sync.commit.authorisation import API, REPLAY
from watcher_sync.conf import opts
from watcher_sync.engine import intake
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources.base import Source
from watcher_sync.sources.subprocess.source import SubprocessSource
from watcher_sync.storage.store import Store


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


def _maker(conf: cfg.ConfigOpts, store: Store | None, name: str, drivers: dict[str, type[Source]]) -> MakeSource:
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
    why_not = missing_declaration(driver, cls)
    opts.register_source(conf, name, cls.options)
    cls(name, conf)  # not used: raises ConfigError if an option is wrong

    def make() -> Source:
        if why_not is not None:
            raise SourceError(why_not)
        if cls.supports_subprocess and conf[f"source_{name}"].run_in_subprocess:
            most_bytes = int(conf.engine.max_bytes_in_hand)
            return SubprocessSource(cls, name, conf, most=intake.max_in_hand(conf), most_bytes=most_bytes)
        return cls(name, conf, cursor=store.cursors().get(name) if store is not None else None)

    return make
