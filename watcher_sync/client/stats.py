# SPDX-License-Identifier: Apache-2.0
"""Statistics of one model, read over the API: entities of each kind, the event rate, the latest changes.

The API has no counters. So :class:`ModelStats` lists the ids of all entities once, and then reads the journal.

It reads the journal from the seq of the very first page, so it misses no change. A change that it reads twice has no
effect, because it stores ids and not numbers.
If the API answers 410, the journal no longer reaches back that far, and :class:`ModelStats` lists again. What the API
refuses with 403 is absent, such as hosts and sources for the users of a project.

All requests are made by the caller's thread, in :meth:`ModelStats.refresh` and :meth:`ModelStats.read`.
"""

from __future__ import annotations

import collections
import contextlib
import datetime
import time
from collections.abc import Callable

import msgspec

from watcher_sync.client.client import Client
from watcher_sync.client.errors import Forbidden, Gone, Unavailable, Unreachable
from watcher_sync.client.models import Change, Source

RATE_WINDOW_SECONDS = 10.0
"""The rate is the mean of this time."""

_RECENT_CHANGES = 200
"""How many of the latest changes are stored."""

_MAX_PAGES_PER_READ = 50
"""Pages of the journal that one call reads at most. So the picture is drawn while a long backlog is read."""


class StatsSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics at one moment."""

    counts: dict[str, int]
    """Kind -> entities."""
    sources: list[Source]
    changes: list[Change]
    """The latest, oldest first."""
    seq: int
    """The journal's seq up to which the changes were read."""
    rate: float
    """Events a second that changed the model."""
    behind: int = 0
    """Changes that are committed and not yet read."""
    problem: str = ""
    """Why the snapshot has nothing newer; empty if the last read succeeded."""


class ModelStats:
    """Reads the statistics of one model from its API. Used by one thread."""

    def __init__(self, client: Client, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._ids: dict[str, set[str]] = {}
        self._changes: collections.deque[Change] = collections.deque(maxlen=_RECENT_CHANGES)
        self._arrivals: collections.deque[tuple[float, int]] = collections.deque()
        """(time, events) of the changes within the window."""
        self._sources: list[Source] = []
        self._since: int | None = None
        self._head = 0

    def refresh(self) -> StatsSnapshot:
        """Reads what is new, and returns the statistics.

        If the API is unavailable, the statistics stay as they are, and ``problem`` has the reason.

        :raises ClientError: when the API refuses a request.
        """
        problem = ""
        try:
            self._read()
        except (Unreachable, Unavailable) as exc:
            problem = str(exc)
        return self._snapshot(problem)

    def read(self) -> StatsSnapshot:
        """Reads what is new, and returns the statistics.

        :raises ClientError: when the API refuses a request, or is unavailable.
        """
        self._read()
        return self._snapshot("")

    def _read(self) -> None:
        if self._since is None:
            self._list()
        with contextlib.suppress(Forbidden):
            self._sources = self._client.sources()
        try:
            self._read_journal()
        except Gone:
            self._since = None
            self._list()

    def _list(self) -> None:
        """Lists the ids of all kinds, and reads the last page of the journal."""
        self._ids.clear()
        since: int | None = None
        for kind in self._client.kinds():
            ids: set[str] = set()
            try:
                for page in self._client.entity_pages(kind, fields=("id",)):
                    since = page.seq if since is None else since
                    ids.update(entity["id"] for entity in page.entities)
            except Forbidden:
                continue
            self._ids[kind] = ids
        last = self._client.events_page()
        now, today = self._monotonic(), datetime.datetime.now(datetime.UTC)
        self._changes.clear()
        self._arrivals.clear()
        for change in last.events:
            self._changes.append(change)
            if since is None or change.seq <= since:  # the journal is read from since: later changes count then
                self._arrivals.append((now - max((today - change.time).total_seconds(), 0.0), change.merged))
        self._since = last.next_since if since is None else since
        self._head = last.head

    def _read_journal(self) -> None:
        """Reads the changes since the last call, at most :data:`_MAX_PAGES_PER_READ` pages."""
        assert self._since is not None
        known = self._changes[-1].seq if self._changes else 0
        for _ in range(_MAX_PAGES_PER_READ):
            page = self._client.events_page(self._since)
            now = self._monotonic()
            for change in page.events:
                ids = self._ids.setdefault(change.kind, set())
                (ids.discard if change.change == "deleted" else ids.add)(change.id)
                self._arrivals.append((now, change.merged))
                if change.seq > known:
                    self._changes.append(change)
            at_head = page.next_since == self._since or page.next_since >= page.head
            self._since, self._head = page.next_since, page.head
            if at_head:
                return

    def _snapshot(self, problem: str) -> StatsSnapshot:
        begin = self._monotonic() - RATE_WINDOW_SECONDS
        while self._arrivals and self._arrivals[0][0] < begin:
            self._arrivals.popleft()
        since = self._since or 0
        return StatsSnapshot(
            counts={kind: len(ids) for kind, ids in sorted(self._ids.items())},
            sources=self._sources,
            changes=list(self._changes),
            seq=since,
            rate=sum(merged for _, merged in self._arrivals) / RATE_WINDOW_SECONDS,
            behind=max(self._head - since, 0),
            problem=problem,
        )
