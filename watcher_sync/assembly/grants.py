# SPDX-License-Identifier: Apache-2.0
"""What each configured source may bring: from the declarations of its driver and its option ``event_types``.

A process without an engine, such as an API worker, asks for it when it replays a quarantined event. The drivers are
imported at the first question, so that an API worker which replays nothing does not load them.
"""

from __future__ import annotations

from collections.abc import Mapping

from oslo_config import cfg

from watcher_sync.assembly.drivers import load_drivers
from watcher_sync.commit.authorisation import Authority, Grant
from watcher_sync.conf import opts
from watcher_sync.dispatch import Dispatcher
from watcher_sync.sources.base import Source


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
        installed = load_drivers().get(driver)
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
