# SPDX-License-Identifier: Apache-2.0
"""What is going on, followed from outside: how many entities of each kind, how fast, and the latest changes.

The API counts nothing, so this lists the ids once and follows the journal from there: from the seq of the very first
page, so that nothing that happened during the listing is missed; what is told twice changes nothing, because
ids are kept and not numbers. If the journal is lost (410), it lists again.

It asks only when it is told to, in the caller's thread.
"""

from __future__ import annotations

import collections
import datetime
import time
from collections.abc import Callable

import msgspec

from watcher_sync.client.client import Client
from watcher_sync.client.errors import Gone, Unavailable, Unreachable
from watcher_sync.client.models import Change, Source

WINDOW = 10.0
"""Seconds over which the rate is taken."""

_KEPT = 200
"""The latest changes that are kept."""

_PAGES = 50
"""Pages of the journal that one look reads at most, so that the picture stays alive while it catches up."""


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One look."""

    counts: dict[str, int]
    """Kind -> entities."""
    sources: list[Source]
    changes: list[Change]
    """The latest, oldest first."""
    seq: int
    """The journal's seq up to which this goes."""
    rate: float
    """Events a second that changed something."""
    behind: int = 0
    """Changes that are committed and not in here yet."""
    trouble: str = ""
    """Why there is nothing newer; empty where there is."""


class Census:
    """The state of one model as its API tells it."""

    def __init__(self, client: Client, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._monotonic = monotonic
        self._ids: dict[str, set[str]] = {}
        self._changes: collections.deque[Change] = collections.deque(maxlen=_KEPT)
        self._arrived: collections.deque[tuple[float, int]] = collections.deque()
        """(when, events) of what came within the window."""
        self._sources: list[Source] = []
        self._since: int | None = None
        self._head = 0

    def look(self) -> Figures:
        """The present state.

        An API that is away is no error: the figures stay and say so.

        :raises ClientError: when the API answers and refuses.
        """
        trouble = ""
        try:
            self._read()
        except (Unreachable, Unavailable) as exc:
            trouble = str(exc)
        return self._figures(trouble)

    def first(self) -> Figures:
        """The same, for those who look once.

        :raises ClientError: also when the API is away.
        """
        self._read()
        return self._figures("")

    def _read(self) -> None:
        if self._since is None:
            self._begin()
        self._sources = self._client.sources()
        try:
            self._follow()
        except Gone:
            self._since = None
            self._begin()

    def _begin(self) -> None:
        """List the ids, and take the changes that were last."""
        self._ids.clear()
        since: int | None = None
        for kind in self._client.kinds():
            ids: set[str] = set()
            for page in self._client.entity_pages(kind, fields=("id",)):
                since = page.seq if since is None else since
                ids.update(entity["id"] for entity in page.entities)
            self._ids[kind] = ids
        last = self._client.events_page()
        now, today = self._monotonic(), datetime.datetime.now(datetime.UTC)
        self._changes.clear()
        self._arrived.clear()
        for change in last.events:
            self._changes.append(change)
            if since is None or change.seq <= since:  # the others come once more, and are counted then
                self._arrived.append((now - max((today - change.time).total_seconds(), 0.0), change.merged))
        self._since = last.next_since if since is None else since
        self._head = last.head

    def _follow(self) -> None:
        """Read what the journal has gained."""
        assert self._since is not None
        known = self._changes[-1].seq if self._changes else 0
        for _ in range(_PAGES):
            page = self._client.events_page(self._since)
            now = self._monotonic()
            for change in page.events:
                ids = self._ids.setdefault(change.kind, set())
                (ids.discard if change.change == "deleted" else ids.add)(change.id)
                self._arrived.append((now, change.merged))
                if change.seq > known:
                    self._changes.append(change)
            reached = page.next_since == self._since or page.next_since >= page.head
            self._since, self._head = page.next_since, page.head
            if reached:
                return

    def _figures(self, trouble: str) -> Figures:
        begin = self._monotonic() - WINDOW
        while self._arrived and self._arrived[0][0] < begin:
            self._arrived.popleft()
        since = self._since or 0
        return Figures(
            counts={kind: len(ids) for kind, ids in sorted(self._ids.items())},
            sources=self._sources,
            changes=list(self._changes),
            seq=since,
            rate=sum(merged for _, merged in self._arrived) / WINDOW,
            behind=max(self._head - since, 0),
            trouble=trouble,
        )
