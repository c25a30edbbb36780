# SPDX-License-Identifier: Apache-2.0
"""What the drivers that follow a region share: one source follows one region, another watcher_sync.

Position: that of the region's journal. The engine stores it with the changes of the last event before it. A source
without one begins with a listing, so an engine that ends during its first listing lists again. So does the first
engine that has other kinds or fields than the one before, such as after an upgrade or a ``db_sync``.

Redelivery: the engine nacks only when it gives up, and the next one begins at the stored position. The source emits
nothing again.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, Final

import msgspec
from oslo_config import cfg

from watcher_sync.conf import opts
from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.federation.source.options import DRIVERS, SITE_OPTIONS, Site, read_site
from watcher_sync.extensions.federation.source.states import RegionCursor, read_cursor
from watcher_sync.sources.base import Emit, Source, SourceState, SourceStatus

if TYPE_CHECKING:
    from watcher_sync.extensions.federation.source.following import RegionFollower

_STOP_TIMEOUT_SECONDS: Final = 5.0
_FORM_OF_VERSIONS: Final = "2"
"""How the model stores the versions of a region. The first engine with another form lists the region."""


class RegionSource(Source):
    """A source that follows a region."""

    envelopes: ClassVar[Collection[str]] = (NATIVE,)

    @classmethod
    def origin_of(cls, name: str, conf: cfg.ConfigOpts) -> str:
        """The site."""
        return str(conf[f"source_{name}"].site or name)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        site = read_site(name, self.group)
        _require_own_site(conf, site)
        self._follower: RegionFollower | None = None
        self._stopped = False

    @abc.abstractmethod
    def make_follower(self, emit: Emit, cursor: RegionCursor) -> RegionFollower:
        """What follows the region from a position."""

    def start(self, emit: Emit) -> None:
        """Start the follower; returns at once."""
        cursor = read_cursor(self.saved_cursor).read_by(f"{self.stored_fields}{_FORM_OF_VERSIONS}")
        self._follower = self.make_follower(emit, cursor)
        self._follower.is_first_contact = read_cursor(self.saved_cursor).sequence is None
        self._follower.on_state = self.log_state
        self._follower.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Do nothing: the region has no acknowledgements."""

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Do nothing: see the module."""

    def stop(self, deadline: float) -> None:
        """Read no further."""
        if self._follower is not None:
            self._follower.begin_stop()
            self._follower.join(min(deadline, time.monotonic() + _STOP_TIMEOUT_SECONDS) - time.monotonic())
        self._stopped = True

    def status(self) -> SourceStatus:
        """Report the current state."""
        follower = self._follower
        if follower is None or self._stopped:
            return SourceStatus(state=SourceState.STOPPED if self._stopped else SourceState.STARTING)
        return SourceStatus(
            state=follower.state,
            detail=follower.detail,
            lag=follower.lag,
            last_event_at=follower.last_event_at,
            reconnects=max(0, follower.connections - 1),
        )

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
        cursor = read_cursor(self.saved_cursor)
        # A position of other readers begins with a listing. One with a sequence is no first contact.
        return msgspec.structs.replace(cursor, sequence=cursor.sequence or 0, readers="").text()


def followed_sites(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Source -> site, for the enabled sources that follow a region."""
    found: dict[str, str] = {}
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        if conf[f"source_{name}"].driver in DRIVERS:
            opts.register_source(conf, name, SITE_OPTIONS)
            found[name] = conf[f"source_{name}"].site or name
    return found


def _require_own_site(conf: cfg.ConfigOpts, own: Site) -> None:
    """:raises ConfigError: two sources have the same site: each would delete what only the other one has."""
    for other, site in followed_sites(conf).items():
        if other != own.source and site == own.site:
            raise ConfigError(f"[source_{own.source}] site: {site} is the site of [source_{other}], too")
