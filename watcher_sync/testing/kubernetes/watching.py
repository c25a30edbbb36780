# SPDX-License-Identifier: Apache-2.0
"""Watches: the lines of one stream from a resource version on.

A watch without a version, or with "0", begins with synthetic ADDED events for the existing objects. With
``sendInitialEvents`` (WatchList) a bookmark with :data:`INITIAL_EVENTS_END` follows them. With a selector, an object
that begins to match is ADDED, and one that ceases to match is DELETED. Each event after the version arrives exactly
once and in order. If the history no longer contains it, the stream ends with an ERROR event (410). A watch from a
version that is still to come is silent until then.

One watch belongs to one thread.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import msgspec

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.reads import parse_version
from watcher_sync.testing.kubernetes.resources import ResourceType
from watcher_sync.testing.kubernetes.selectors import selector
from watcher_sync.testing.kubernetes.store import Event, Item, Store
from watcher_sync.testing.kubernetes.views import View

INITIAL_EVENTS_END = "k8s.io/initial-events-end"

POLL = 1.0
"""Seconds after which an idle watch checks that its client is connected."""


class WatchQuery(msgspec.Struct, kw_only=True):
    """What a watch may be asked for."""

    namespace: str | None = None
    label_selector: str = ""
    field_selector: str = ""
    version: str = ""
    match: str = ""
    bookmarks: bool = False
    timeout: float = 0.0
    """Seconds; 0 is the server's default."""
    initial_events: bool | None = None


class Watch:
    """One stream."""

    def __init__(
        self,
        store: Store,
        resource: ResourceType,
        query: WatchQuery,
        view: View,
        *,
        bookmark_interval: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """:raises ApiError: 410 for a version that is too old, 504 for initial events of one that is to come,
        400 and 422 for parameters that make no sense."""
        self._store = store
        self._resource = resource
        self._query = query
        self._view = view
        self._chosen = selector(query.label_selector, query.field_selector)
        self._clock = clock
        self._ends = clock() + query.timeout
        self._interval = bookmark_interval
        self._next_bookmark = clock() + bookmark_interval
        self._asked = store.bookmarks_asked
        self._last_sent = False
        self._begin()

    def _begin(self) -> None:
        query, store = self._query, self._store
        if query.initial_events and (query.match != "NotOlderThan" or not query.bookmarks):
            raise errors.invalid(
                "sendInitialEvents: resourceVersionMatch=NotOlderThan and allowWatchBookmarks are required with it"
            )
        if query.initial_events is None and query.match:
            raise errors.invalid("resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        with store.changed:
            version = parse_version(query.version or "0")
            begins_empty = version if query.initial_events is None else query.initial_events is False
            if query.initial_events and version > store.version:
                raise errors.too_large(version, store.version)
            if begins_empty:
                self._initial: list[Item] = []
                self.position = version or store.version
                store.events_after(self._resource, self.position)
            else:
                snapshot = store.snapshot(self._resource)
                items = snapshot.of(query.namespace)[1]
                self._initial = [item for item in items if self._chosen is None or self._chosen(item)]
                self.position = snapshot.version

    def begin(self) -> Iterator[bytes]:
        """The initial events, if any."""
        for item in self._initial:
            yield line("ADDED", self._view.one(item.served_as(self._resource)))
        self._initial = []
        if self._query.initial_events:
            yield self.bookmark(initial_events_end=True)

    def wait(self, wake: Callable[[], bool]) -> list[bytes] | None:
        """The next lines: what happened, a bookmark that is due, or nothing after a while.

        :param wake: whether there is another reason to return; called under the store's lock.
        :returns: None when the time is over, after a last bookmark.
        :raises ApiError: 410, when the history was compacted beyond the position.
        """
        store = self._store
        with store.changed:
            events = store.events_after(self._resource, self.position)
            if not events and not wake() and store.bookmarks_asked == self._asked:
                due = min(self._ends, self._next_bookmark) - self._clock()
                store.changed.wait(max(0.0, min(due, POLL)))
                events = store.events_after(self._resource, self.position)
            self.position = max(self.position, store.version)
            asked = store.bookmarks_asked
        lines = [made for event in events if (made := self._line(event)) is not None]
        now = self._clock()
        last = now >= self._ends and not self._last_sent
        if now >= self._next_bookmark or asked != self._asked or last:
            self._asked, self._last_sent = asked, last
            self._next_bookmark = now + self._interval
            if self._query.bookmarks and self.position <= store.version:
                lines.append(self.bookmark())
        return lines if lines or now < self._ends else None

    def bookmark(self, *, initial_events_end: bool = False) -> bytes:
        """Everything up to the position has been sent."""
        metadata: dict[str, object] = {"resourceVersion": str(self.position)}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        bookmark = {"kind": self._resource.kind, "apiVersion": self._resource.api_version, "metadata": metadata}
        return line("BOOKMARK", msgspec.json.encode(bookmark))

    def _line(self, event: Event) -> bytes | None:
        old, new = self._visible(event.old), self._visible(event.new)
        if old is None and new is None:
            return None
        kind = "ADDED" if old is None else "DELETED" if new is None else "MODIFIED"
        return line(kind, self._view.one(event.last.served_as(self._resource)))

    def _visible(self, item: Item | None) -> Item | None:
        if item is None or (self._query.namespace is not None and item.namespace != self._query.namespace):
            return None
        return item if self._chosen is None or self._chosen(item) else None


def line(kind: str, encoded: bytes) -> bytes:
    """One event of a stream."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), encoded)


def error_line(error: errors.ApiError) -> bytes:
    """The ERROR event."""
    return line("ERROR", msgspec.json.encode(error.status()))
