# SPDX-License-Identifier: Apache-2.0
"""Measures for how long a host was silent while others of its source published.

Each source has a clock that advances only while events arrive. A gap between two arrivals counts at most ``max_gap``
seconds. It counts nothing if the source was disconnected. The silence of a host is the time on its source's clock
since its last event. So a silent source makes no host silent, and neither does the start of the engine. The
publishers' clocks do not matter. Not thread-safe.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable

import msgspec


class Sign(msgspec.Struct, frozen=True):
    """The newest sign of life of a host."""

    host: str
    source: str
    """The source that brought it."""
    time: datetime.datetime


class _SourceClock(msgspec.Struct):
    seconds: float = 0.0
    last_arrival: float | None = None
    """Monotonic time of the last event; None: none since the start or the last disconnection."""


class _HostState(msgspec.Struct):
    source: str
    time: datetime.datetime
    spoke_at: float
    """Seconds on the clock of the source."""


class SilenceTracker:
    """The hosts that were observed since the start, and the clocks of their sources."""

    def __init__(self) -> None:
        self._clocks: dict[str, _SourceClock] = {}
        self._hosts: dict[str, _HostState] = {}

    def observe(self, now: float, signs: Iterable[Sign], *, max_gap: float, disconnected: Collection[str] = ()) -> None:
        """Note what has arrived since the last observation.

        :param now: monotonic seconds.
        :param signs: of all hosts, new or not.
        :param max_gap: seconds that a gap between two arrivals counts at most.
        :param disconnected: sources without a connection.
        """
        for source in disconnected:
            if source in self._clocks:
                self._clocks[source].last_arrival = None
        changed = [s for s in signs if (state := self._hosts.get(s.host)) is None or state.time != s.time]
        for source in {sign.source for sign in changed}:
            clock = self._clocks.setdefault(source, _SourceClock())
            if clock.last_arrival is not None:
                clock.seconds += min(now - clock.last_arrival, max_gap)
            clock.last_arrival = now
        for sign in changed:
            self._hosts[sign.host] = _HostState(sign.source, sign.time, self._clocks[sign.source].seconds)

    def confirm(self, hosts: Iterable[str]) -> None:
        """Another witness reports that these hosts are up: their silence begins again."""
        for host in hosts:
            if (state := self._hosts.get(host)) is not None:
                state.spoke_at = self._clocks[state.source].seconds

    def silence(self, host: str) -> float | None:
        """Seconds that others of the source published without the host; None: nothing was received of the host."""
        state = self._hosts.get(host)
        return None if state is None else self._clocks[state.source].seconds - state.spoke_at

    def retain(self, hosts: Collection[str]) -> None:
        """Forget all other hosts."""
        for host in self._hosts.keys() - set(hosts):
            del self._hosts[host]
