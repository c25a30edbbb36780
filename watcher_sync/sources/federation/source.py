# SPDX-License-Identifier: Apache-2.0
"""The driver ``federation``: one source follows one region, another watcher_sync.

Position: the sequence in the region's journal. The engine stores it with the changes of the last event before it. A
source without one begins with a listing, so an engine that ends during its first listing lists again. So does the
first engine that has other kinds or fields than the one before, such as after an upgrade or a ``db_sync``.

Redelivery: the engine nacks only when it gives up, and the next one begins at the stored position. The source emits
nothing again.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.conf import opts, reconcile_nova
from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources.base import Emit, Source, SourceState, SourceStatus
from watcher_sync.sources.federation.options import OPTIONS, RegionSettings, read_settings
from watcher_sync.sources.federation.states import read_cursor

_STOP_TIMEOUT_SECONDS: Final = 5.0


class FederationSource(Source):
    """The driver ``federation``."""

    envelopes: ClassVar[Collection[str]] = (NATIVE,)
    options: ClassVar[list[cfg.Opt]] = OPTIONS

    @classmethod
    def origin_of(cls, name: str, conf: cfg.ConfigOpts) -> str:
        """The site."""
        return str(conf[f"source_{name}"].site or name)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = read_settings(name, self.group)
        _require_own_site(conf, self.settings)
        _require_no_other_owner(conf, name)
        self._follower: Any = None
        self._stopped = False

    def start(self, emit: Emit) -> None:
        """Start the follower; returns at once."""
        # Imported here: gRPC loads for long, and most processes only read the options.
        from watcher_sync.sources.federation.follower import Follower
        from watcher_sync.sources.federation.region import Region

        self._follower = Follower(
            self.settings,
            Region(self.settings, self.group),
            emit,
            read_cursor(self.saved_cursor).read_by(self.stored_fields),
            self.conf.reconcile,
        )
        self._follower.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Do nothing: a watch stream has no acknowledgements."""

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Do nothing: see the module."""

    def stop(self, deadline: float) -> None:
        """Read no further."""
        if self._follower is not None:
            self._follower.begin_stop()
            self._follower.join(min(deadline, time.monotonic() + _STOP_TIMEOUT_SECONDS) - time.monotonic())
        self._stopped = True

    def status(self) -> SourceStatus:
        """Report the current state. The stream does not tell the lag."""
        follower = self._follower
        if follower is None or self._stopped:
            return SourceStatus(state=SourceState.STOPPED if self._stopped else SourceState.STARTING)
        return SourceStatus(
            state=follower.state,
            detail=follower.detail,
            last_event_at=follower.last_event_at,
            reconnects=max(0, follower.connections - 1),
        )

    def probe(self) -> None:
        """Read the kinds of the region."""
        from watcher_sync.client import ClientError
        from watcher_sync.sources.federation.region import Region

        try:
            Region(self.settings, self.group).kinds()
        except ClientError as exc:
            raise SourceError(str(exc)) from None

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The last position of these events."""
        found = [event.position for event in events if event.position is not None]
        return str(found[-1]) if found else None

    def rewind_to_cursor(self) -> bool:
        """It always begins after its cursor."""
        return True

    def cursor_at(self, to: str) -> str:
        """``first``: list the region again."""
        if to != "first":
            raise ConfigError(f"source {self.name}: the only place is first, a new listing")
        return msgspec.structs.replace(read_cursor(self.saved_cursor), sequence=None).text()


def _require_own_site(conf: cfg.ConfigOpts, settings: RegionSettings) -> None:
    """:raises ConfigError: two sources have the same site: each would delete what only the other one has."""
    for other in conf.engine.enabled_sources:
        opts.register_source(conf, other, [])
        if other == settings.source or conf[f"source_{other}"].driver != "federation":
            continue
        opts.register_source(conf, other, OPTIONS)
        if (conf[f"source_{other}"].site or other) == settings.site:
            raise ConfigError(f"[source_{settings.source}] site: {settings.site} is the site of [source_{other}], too")


def _require_no_other_owner(conf: cfg.ConfigOpts, name: str) -> None:
    """:raises ConfigError: Nova's reconciler would delete what the regions have."""
    if reconcile_nova.is_configured(conf) and conf.reconcile_nova.enabled:
        raise ConfigError(
            f"[source_{name}] driver = federation: [reconcile_nova] compares the whole model with one cloud, and would"
            " delete the hosts and servers of other sites; configure it in the region"
        )
