# SPDX-License-Identifier: Apache-2.0
"""For how long a host was silent, and the changes of its facet ``liveness``. No I/O.

There are two witnesses. Nova's list of services reports a state. The host's own events are signs of life, and their
absence is silence: :class:`SilenceTracker` measures it.

* The list says up: the host is up.
* The list says down: the host is down, unless the host published an event after the list was read.
* The host is silent: it is down.
* The host is down, and it published a newer event: it is up.

A host that neither witness reported has no liveness. A host that is forced down is down by its derived ``state``; the
list says nothing more of it.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable
from typing import Final

import msgspec

from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.handlers import sortable
from watcher_sync.model.changes import Upsert, Version


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
    """The hosts that were observed since the start, and the clocks of their sources. Not thread-safe.

    Each source has a clock that advances only while events arrive. A gap between two arrivals counts at most
    ``max_gap`` seconds. It counts nothing if the source was disconnected. The silence of a host is the time on its
    source's clock since its last event. So a silent source makes no host silent, and neither does the start of the
    engine. The publishers' clocks do not matter.
    """

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


SERVICE_DOWN: Final = "Nova reports that its compute service is down"
SILENT: Final = "silent while other hosts published"


def by_service(
    node: ComputeNode, *, up: bool, at: datetime.datetime, last_heard: datetime.datetime | None
) -> Upsert | None:
    """The change after Nova's list of services reported a state.

    :param at: when the list was requested, by Nova's clock, aware UTC.
    :param last_heard: when the host published its last event.
    :returns: None if nothing changes.
    """
    if up:
        return None if node.liveness == "up" else _change(node, None, at)
    if node.liveness == "down" or node.forced_down or (last_heard is not None and last_heard > at):
        return None
    return _change(node, SERVICE_DOWN, at)


def by_events(
    node: ComputeNode, *, at: datetime.datetime, last_heard: datetime.datetime | None, silent: bool | None
) -> Upsert | None:
    """The change after a check of the host's own events.

    :param at: now, aware UTC.
    :param last_heard: when the host published its last event.
    :param silent: whether the host is silent while others publish; None if this engine received no event of it.
    :returns: None if nothing changes.
    """
    if node.liveness != "down":
        return _change(node, SILENT, at) if silent else None
    if node.liveness_reason == SILENT:
        speaks = silent is False
    else:
        since = node.liveness_since
        speaks = last_heard is not None and (since is None or last_heard > since)
    # The list may have the time of a clock ahead of ours, and so has the event that is newer than it.
    return _change(node, None, max(at, last_heard or at)) if speaks else None


def _change(node: ComputeNode, reason: str | None, at: datetime.datetime) -> Upsert:
    """The version is the time of the observation, so the newer observation wins."""
    fields = {"liveness": "up" if reason is None else "down", "liveness_reason": reason, "liveness_since": at}
    return Upsert("compute_node", node.id, Version(sortable.digits(at, "liveness_since")), {"liveness": fields})
