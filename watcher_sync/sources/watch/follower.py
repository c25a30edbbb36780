# SPDX-License-Identifier: Apache-2.0
"""The loop of one source: lists the region, and follows its stream from there.

A stream event has the fields that changed, not the whole facet. So the follower takes the id only, and reads the
present state with its versions. One reading covers all changes up to the head of that moment. States may come in any
order and more than once.

A listing notes the head of the region's journal with its first page, and the stream begins there. A listing that
fails emits no ``listed`` event. The follower lists again when the region does not have the position any more.

A region that follows this installation is refused. Its own thread runs the loop.
"""

from __future__ import annotations

import datetime
import random
import threading
from collections.abc import Callable
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.client import ClientError
from watcher_sync.client.watch import (
    EventsPurged,
    EventType,
    MemorySequence,
    Unauthenticated,
    WatchError,
    WatchEvent,
    WatchManager,
)
from watcher_sync.events import Event, portions
from watcher_sync.sources.base import Emit, IntakeClosed, SourceState
from watcher_sync.sources.watch.options import Settings
from watcher_sync.sources.watch.received import Received
from watcher_sync.sources.watch.region import Page, Region
from watcher_sync.sources.watch.states import Document, EventMaker, is_loop, loop_of

LOG = logging.getLogger(__name__)

_EMIT_SIZE: Final = 500
_QUEUED: Final = 5_000
"""Stream events that one round handles at most."""
_POLL_SECONDS: Final = 0.2
_FIRST_PAUSE_SECONDS: Final = 0.2
_EMPTY_PAUSE_SECONDS: Final = 1.0
"""Before another listing of a region whose journal is empty: its stream has no position to begin after."""
_REFUSED_PAUSE_SECONDS: Final = 60.0
_MAX_DOUBLINGS: Final = 16


class LoopError(Exception):
    """The region follows this installation."""


class BehindError(Exception):
    """The region's API answered from before a change that its stream had sent."""


class Follower:
    """Follows one region."""

    def __init__(
        self,
        settings: Settings,
        region: Region,
        emit: Emit,
        position: int | None,
        *,
        max_delete_percent: Callable[[], float] = lambda: 30.0,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """:param position: the sequence to follow after; None: begin with a listing.

        :param max_delete_percent: returns ``[reconcile] max_delete_percent`` as of now, for the delete guard.
        """
        self.state = SourceState.STARTING
        self.detail = ""
        self.last_event_at: datetime.datetime | None = None
        self.connections = 0
        self.listings = 0
        self._settings = settings
        self._region = region
        self._emit_events = emit
        self._make = EventMaker(settings.source, settings.site)
        self._position = position
        self._max_delete_percent = max_delete_percent
        self._jitter = jitter
        self._failures = 0
        self._covered: dict[tuple[str, str], int] = {}
        """(kind, id) -> the sequence up to which the last reading of the entity has its changes."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{settings.source}", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the thread to end."""
        self._stopping.set()

    def join(self, timeout: float) -> bool:
        """Wait so many seconds; return whether the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                self._stopping.wait(self._attempt())
        except IntakeClosed:
            return

    def _attempt(self) -> float:
        """Follow until something ends it; return the seconds to wait. :raises IntakeClosed: stopped."""
        try:
            self._follow()
            return 0.0
        except IntakeClosed:
            raise
        except EventsPurged as exc:
            LOG.warning("source %s: listing again: %s", self._settings.source, exc)
            self._position = None
            return 0.0
        except LoopError as exc:
            self._disconnect(str(exc))
            return _REFUSED_PAUSE_SECONDS
        except Unauthenticated as exc:
            self._region.forget_token()  # else keystoneauth uses it until it expires
            self._disconnect(str(exc))
        except (ClientError, BehindError) as exc:
            self._disconnect(str(exc) or type(exc).__name__)
        except Exception as exc:  # the edge of the thread
            LOG.exception("source %s: unexpected error, listing again", self._settings.source)
            self._position = None
            self._disconnect(type(exc).__name__)
        self._failures += 1
        ceiling = min(self._settings.backoff_max, _FIRST_PAUSE_SECONDS * 2 ** min(self._failures - 1, _MAX_DOUBLINGS))
        return self._jitter(ceiling / 2, ceiling)

    def _follow(self) -> None:
        self._region.ensure_topic()
        paths = self._region.kinds()
        while self._position is None:
            head = self._list(paths)
            self._connected()
            if head > 0:
                self._position = head
            elif self._stopping.wait(_EMPTY_PAUSE_SECONDS):
                return
        received: Received[WatchEvent | WatchError] = Received(_QUEUED)
        self._covered = {}
        with self._watch(self._position) as manager:
            manager.register_watch(self._region.topic_link, received, received)
            while not self._stopping.is_set():
                batch = received.take(_POLL_SECONDS)
                self._show(manager)
                if batch:
                    self._on_batch(batch, paths)

    def _watch(self, position: int) -> WatchManager:
        limit = self._settings.backoff_max
        return self._region.client.watch_manager(
            address=self._settings.address,
            tls=self._settings.stream_tls,
            sequence=MemorySequence({self._region.topic_link: position}),
            backoff=(min(_FIRST_PAUSE_SECONDS, limit), limit),
            logger=logging.getLogger(f"{__name__}.stream").logger,
        )

    # Listing

    def _list(self, paths: dict[str, str]) -> int:
        """List everything; return the head of the journal from before it."""
        LOG.info("source %s: listing the region", self._settings.source)
        began = datetime.datetime.now(datetime.UTC)
        head: int | None = None
        ids: dict[str, set[str]] = {}
        for kind, path in paths.items():
            found = ids.setdefault(kind, set())
            for page in self._region.pages(path):
                head = page.seq if head is None else head
                found.update(document.id for document, _ in page.entities)
                self._emit(self._states(kind, page, began))
        head = head or 0
        percent = self._max_delete_percent()
        listed = [self._make.listed(kind, found, head, began, percent) for kind, found in ids.items()]
        if listed and head > 0:
            listed[-1] = msgspec.structs.replace(listed[-1], position=head)
        self._emit(listed)
        self.listings += 1
        count = sum(map(len, ids.values()))
        LOG.info("source %s: listed %d entities at sequence %d", self._settings.source, count, head)
        return head

    def _states(self, kind: str, page: Page, at: datetime.datetime | None) -> list[Event]:
        for document, _ in page.entities:
            self._require_no_loop(document.id)
        return [self._make.changed(kind, document, body, at) for document, body in page.entities]

    def _require_no_loop(self, entity_id: str) -> None:
        """:raises LoopError: the region follows this installation."""
        site = self._settings.site
        if is_loop(site, entity_id):
            raise LoopError(
                f"loop {loop_of(site, entity_id)}: the region follows this installation, it has {entity_id!r}; "
                "remove one of these sources"
            )

    # Stream

    def _on_batch(self, batch: list[WatchEvent | WatchError], paths: dict[str, str]) -> None:
        """Emit what the events mean.

        :raises WatchError: the watch ended.
        """
        events = [each for each in batch if isinstance(each, WatchEvent)]
        if events:
            found = self._events_of(events, paths)
            last = events[-1].sequence
            if found:
                found[-1] = msgspec.structs.replace(found[-1], position=last)
            self._emit(found)
            self._position = last
            self._covered = {key: sequence for key, sequence in self._covered.items() if sequence > last}
            self._failures = 0
        for each in batch:
            if isinstance(each, WatchError):
                raise each

    def _events_of(self, events: list[WatchEvent], paths: dict[str, str]) -> list[Event]:
        kinds = {path: kind for kind, path in paths.items()}
        found: list[Event] = []
        changed: dict[str, dict[str, WatchEvent]] = {}
        for each in events:
            kind = kinds.get(each.self_link.rpartition("/")[0])
            if kind is None:
                continue  # of a kind that the region has since we connected; the next connection lists its path
            self._require_no_loop(each.entity_id)
            if each.type is EventType.DELETED:
                found.append(self._make.deleted(kind, each.entity_id, each.sequence, each.versions, each.time))
            elif each is events[-1] or each.sequence > self._covered.get((kind, each.entity_id), 0):
                # The last event is always read: the position comes with an emitted event.
                changed.setdefault(kind, {})[each.entity_id] = each
        for kind, wanted in changed.items():
            found += self._read(kind, paths[kind], wanted)
        return found

    def _read(self, kind: str, path: str, wanted: dict[str, WatchEvent]) -> list[Event]:
        """The present states of entities.

        :param wanted: id -> the last event of the entity.
        :raises BehindError: the region's API answered from before one of the events.
        """
        found: list[Event] = []
        newest = max(each.sequence for each in wanted.values())
        covered: int | None = None
        for page in self._region.fetch(path, list(wanted)):
            if page.seq < newest:
                raise BehindError(f"the API is at sequence {page.seq}, and the stream at {newest}")
            covered = page.seq if covered is None else min(covered, page.seq)
            found += [self._make.changed(kind, doc, body, _time(wanted, doc)) for doc, body in page.entities]
        if covered is not None:
            self._covered.update(((kind, entity_id), covered) for entity_id in wanted)
        return found

    def _emit(self, events: list[Event]) -> None:
        """:raises IntakeClosed: the source stops, or the engine takes no more."""
        for portion in portions(events, _EMIT_SIZE):
            if self._stopping.is_set():
                raise IntakeClosed
            self._emit_events(portion)
            self.last_event_at = datetime.datetime.now(datetime.UTC)

    # State

    def _show(self, manager: WatchManager) -> None:
        if manager.status():
            self._connected()
        elif self.state is SourceState.CONNECTED:
            self._disconnect("the watch stream is unavailable, retrying")

    def _connected(self) -> None:
        if self.state is not SourceState.CONNECTED:
            self.state, self.detail = SourceState.CONNECTED, ""
            self.connections += 1
            LOG.info("source %s: connected to the region", self._settings.source)

    def _disconnect(self, why: str) -> None:
        if (self.state, self.detail) != (SourceState.DISCONNECTED, why):
            LOG.warning("source %s: disconnected, retrying: %s", self._settings.source, why)
        self.state, self.detail = SourceState.DISCONNECTED, why


def _time(wanted: dict[str, WatchEvent], document: Document) -> datetime.datetime | None:
    event = wanted.get(document.id)
    return None if event is None else event.time
