# SPDX-License-Identifier: Apache-2.0
"""The enabled sources, as functions that make their driver instances.

Mistakes in their configuration are reported here, before the process starts its work.
"""

from __future__ import annotations

from typing import Any

from oslo_config import cfg
from oslo_log import log as logging
from stevedore import ExtensionManager

from watcher_sync.conf import opts
from watcher_sync.engine import intake
from watcher_sync.engine.supervision import MakeSource
from watcher_sync.exceptions import ConfigError
from watcher_sync.sources.base import Source
from watcher_sync.sources.subprocess.source import SubprocessSource
from watcher_sync.storage.store import Store

LOG = logging.getLogger(__name__)


def source_makers(conf: cfg.ConfigOpts, store: Store | None) -> dict[str, MakeSource]:
    """name -> maker, for each of ``[engine] enabled_sources``.

    :param store: has the cursors of the sources; None for sources that are never started.
    :raises ConfigError: a source has no driver, a driver that is not installed, or wrong options.
    """
    manager: ExtensionManager[Any] = ExtensionManager(
        opts.SOURCES,
        on_load_failure_callback=lambda _m, e, exc: LOG.error("source driver %s: cannot be loaded: %s", e.name, exc),
    )
    drivers: dict[str, type[Source]] = {extension.name: extension.plugin for extension in manager}
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
    cls = drivers[driver]
    opts.register_source(conf, name, cls.options)
    cls(name, conf)  # not used: raises ConfigError if an option is wrong

    def make() -> Source:
        if cls.supports_subprocess and conf[f"source_{name}"].run_in_subprocess:
            most_bytes = int(conf.engine.max_bytes_in_hand)
            return SubprocessSource(cls, name, conf, most=intake.max_in_hand(conf), most_bytes=most_bytes)
        return cls(name, conf, cursor=store.cursors().get(name) if store is not None else None)

    return make
