# SPDX-License-Identifier: Apache-2.0
"""The loop of one source: lists the region, reads what changed since, and then waits for its stream.

A stream event only wakes the follower. It then reads the present states of all entities that changed after its position
(``GET /v1/states``), each one once. It does so before it opens the stream, too, so the region sends no backlog twice.
Without an event it does so every few seconds.

A listing notes the head of the journal with its first page, and the changes begin there. One that fails emits no
``listed`` event. The follower lists again when the region lacks the position, or has another epoch.

Entities that show loops of installations are omitted. A thread runs the loop.
"""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.client import ClientError, Gone, ServerFailed, Unreachable
from watcher_sync.client.watch import (
    EventsPurged,
    MemorySequence,
    Unauthenticated,
    WatchError,
    WatchEvent,
    WatchManager,
)
from watcher_sync.events import Event
from watcher_sync.extensions.federation.source.following import (
    FIRST_PAUSE_SECONDS,
    DeleteGuard,
    RegionFollower,
    logger_for_debugging,
)
from watcher_sync.extensions.federation.source.loops import RefusedLoops
from watcher_sync.extensions.federation.source.options import RegionSettings
from watcher_sync.extensions.federation.source.region import Region, RegionChanges, RegionPage
from watcher_sync.extensions.federation.source.states import RegionCursor, decode_document
from watcher_sync.sources.base import Emit, IntakeClosed, SourceState

LOG = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_PACE_SECONDS: Final = 0.05
"""Between two readings of changes. The first event after a pause is not delayed."""
_READ_SECONDS: Final = 5.0
"""After so long without an event of the stream, the follower reads what changed."""
_TOPIC_SECONDS: Final = 60.0
"""After so long without a topic, the follower asks for it again."""
_EMPTY_PAUSE_SECONDS: Final = 0.5
"""Between two readings of an empty journal: a stream has no position to resume after."""
_BEHIND_SECONDS: Final = 5.0
"""How long the API may lack a change that the stream has sent."""
_BEHIND_PAUSE_SECONDS: Final = 0.05
_STABLE_SECONDS: Final = 1.0
"""How long a stream has to last after an outage until the source counts as connected: it may be refused at once."""

_STREAM_LOG: Final = logger_for_debugging(f"{__name__}.stream")
"""The follower logs outages itself."""


class StreamArrivals:
    """What a watch has delivered: the sequence of its newest event, and the error that ended it.

    The watch's thread notes the events, and the follower's thread waits. The events themselves are not retained: they
    have the fields that changed, and the follower reads whole states. The first event after each wait wakes it.
    """

    def __init__(self) -> None:
        self._changed = threading.Event()
        self.newest = 0
        """The sequence of the newest event; 0: none has come."""
        self.error: WatchError | None = None
        """Why the watch ended; None: it has not."""

    def note(self, event: WatchEvent) -> None:
        """An event has come."""
        self.newest = max(self.newest, event.sequence)
        if not self._changed.is_set():
            self._changed.set()

    def end(self, error: WatchError) -> None:
        """The watch has ended."""
        self.error = error
        self._changed.set()

    def wait(self, seconds: float) -> None:
        """Wait for an event or the end, but not for longer."""
        self._changed.wait(seconds)
        self._changed.clear()


class StreamLost(Exception):
    """The stream is not open."""


class BehindError(Exception):
    """The region's API answered from before a change that its stream had sent."""


class EpochError(Exception):
    """The region's database went back in time."""


_OUTAGES: Final = (StreamLost, BehindError, Unreachable, ServerFailed)
"""One outage may show itself by any of them."""


class Follower(RegionFollower):
    """Follows one region by its API and its watch stream."""

    def __init__(
        self,
        settings: RegionSettings,
        region: Region,
        emit: Emit,
        cursor: RegionCursor,
        guard: DeleteGuard,
        *,
        jitter: Callable[[float, float], float] = random.uniform,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param cursor: where to begin.

        :param guard: read at each listing.
        """
        if cursor.message:  # of a follower of the log, whose epoch the API does not know
            cursor = msgspec.structs.replace(cursor, sequence=None, message=0)
        super().__init__(settings, emit, cursor, guard, backoff_max=settings.backoff_max, jitter=jitter)
        self._settings = settings
        self._region = region
        self._topic_detail = ""
        self._loops = RefusedLoops(settings, region, monotonic=monotonic)
        self._monotonic = monotonic
        self._streaming_since: float | None = None
        """On the monotonic clock; None: the stream is not open."""

    def _attempt(self) -> float:
        try:
            self._follow()
            return 0.0
        except IntakeClosed:
            raise
        except (EventsPurged, Gone) as exc:
            LOG.warning("source %s: listing again: %s", self._settings.source, exc)
            self._list_again()
            return 0.0
        except EpochError as exc:
            LOG.warning("source %s: listing again: %s", self._settings.source, exc)
            self._list_again()
            return FIRST_PAUSE_SECONDS
        except Unauthenticated as exc:
            self._region.forget_token()  # else keystoneauth uses it until it expires
            self._disconnect(exc)
        except (ClientError, BehindError) as exc:
            self._disconnect(exc)
        except Exception as exc:  # the edge of the thread
            LOG.exception("source %s: unexpected error, listing again", self._settings.source)
            self._list_again()
            self._disconnect(exc)
        return self._backoff.failed()

    def _follow(self) -> None:
        has_topic = self._region.ensure_topic()
        if self._cursor.sequence is None:
            self._move_to(self._list(self._region.kinds()))
        position = self._read_changes(self._cursor.sequence or 0)
        while position == 0:
            self._connected()
            if self._stopping.wait(_EMPTY_PAUSE_SECONDS):
                return
            position = self._read_changes(position)
        if not has_topic:
            self._read_without_topic(position)
            return
        self._topic_detail = ""
        arrivals = StreamArrivals()
        self._streaming_since = None
        with self._watch(position) as manager:
            manager.register_watch(self._region.topic_link, arrivals.note, arrivals.end)
            opened_at = read_at = self._monotonic()
            while not self._stopping.is_set():
                arrivals.wait(_POLL_SECONDS)
                self._show(manager, opened_at)
                since = self._monotonic() - read_at
                if arrivals.newest > position or since >= _READ_SECONDS:
                    self._stopping.wait(max(0.0, _PACE_SECONDS - since))
                    position = self._read_changes(position, arrivals.newest)
                    read_at = self._monotonic()
                if arrivals.error is not None:
                    raise arrivals.error

    def _read_without_topic(self, position: int) -> None:
        """Read what changed every few seconds, for a minute."""
        if not self._topic_detail:
            self._topic_detail = (
                f"the region has no watch topic {self._settings.topic}, and the account may not create it: "
                f"the changes are read every {_READ_SECONDS:g} s"
            )
            LOG.warning("source %s: %s", self._settings.source, self._topic_detail)
        until = self._monotonic() + _TOPIC_SECONDS
        while not self._stopping.is_set() and self._monotonic() < until:
            self._connected()
            self._show_details()
            self._stopping.wait(_READ_SECONDS)
            position = self._read_changes(position)

    def _watch(self, position: int) -> WatchManager:
        limit = self._settings.backoff_max
        return self._region.client.watch_manager(
            address=self._settings.address,
            tls=self._settings.stream_tls,
            sequence=MemorySequence({self._region.topic_link: position}, {self._region.topic_link: self._cursor.epoch}),
            resume_only=True,
            backoff=(min(FIRST_PAUSE_SECONDS, limit), limit),
            logger=_STREAM_LOG,
        )

    # Listing

    def _list(self, paths: dict[str, str]) -> int:
        """List everything; return the head of the journal from before it."""
        LOG.info("source %s: listing the region", self._settings.source)
        began = datetime.datetime.now(datetime.UTC)
        head: int | None = None
        self._loop = ""
        ids: dict[str, set[str]] = {}
        for kind, path in paths.items():
            found = ids.setdefault(kind, set())
            for page in self._region.pages(path):
                if head is None:
                    head = page.seq
                    self._enter_epoch(page.epoch)
                self._require_epoch(page.epoch)
                states = self._states(kind, page, began)
                found.update(each.subject for each in states)
                self._emit(states)
        head = head or 0
        listed = self._listed(ids, head, began)
        if listed:
            listed[-1] = msgspec.structs.replace(listed[-1], position=self._cursor_at(head))
        self._emit(listed)
        count = sum(map(len, ids.values()))
        LOG.info("source %s: listed %d entities at sequence %d", self._settings.source, count, head)
        return head

    def _move_to(self, sequence: int) -> None:
        self._cursor = msgspec.structs.replace(self._cursor, sequence=sequence)

    def _require_epoch(self, epoch: str) -> None:
        """:raises EpochError: the region has another epoch than before."""
        if epoch and epoch != self._cursor.epoch:
            raise EpochError(f"the region has the epoch {epoch}, not {self._cursor.epoch}")

    def _states(self, kind: str, page: RegionPage, at: datetime.datetime | None) -> list[Event]:
        return [
            self._make.changed(kind, document, body, at)
            for document, body in page.entities
            if not self._is_left_out(document.id)
        ]

    # Changes

    def _read_changes(self, position: int, least: int = 0) -> int:
        """Emit what changed after a position, up to the head of the region's journal.

        :param least: the sequence of an event that the stream has sent.
        :returns: the new position.
        :raises BehindError: the region's API answers from before that event.
        """
        give_up_at: float | None = None
        while not self._stopping.is_set():
            changes = self._region.changes(position, self._cursor.epoch)
            if self._cursor.epoch:
                self._require_epoch(changes.epoch)
            else:  # a position that a release without epochs stored
                self._enter_epoch(changes.epoch)
            has_moved = changes.next_since > position
            self._emit(self._events_of(changes))
            position = changes.next_since
            self._move_to(position)
            if has_moved:
                give_up_at = None
                self._backoff.succeeded()
            if position >= max(changes.head, least):
                break
            if has_moved:
                continue
            now = self._monotonic()
            give_up_at = give_up_at or now + _BEHIND_SECONDS
            if now >= give_up_at:
                raise BehindError(f"the API is at sequence {position}, and the stream at {max(changes.head, least)}")
            self._stopping.wait(_BEHIND_PAUSE_SECONDS)
        return position

    def _events_of(self, changes: RegionChanges) -> list[Event]:
        found: list[Event] = []
        for kind, states in changes.states.items():
            for body in states:
                document = decode_document(body)
                if not self._is_left_out(document.id):
                    found.append(self._make.changed(kind, document, bytes(body), None))
        for each in changes.deleted:
            self._note_deleted(each.id)
            found.append(self._make.deleted(each.kind, each.id, each.seq, each.versions, each.time))
        if found:
            found[-1] = msgspec.structs.replace(found[-1], position=self._cursor_at(changes.next_since))
        return found

    # State

    def _show(self, manager: WatchManager, opened_at: float) -> None:
        """Note whether the stream is open.

        :param opened_at: when the manager was made, on the monotonic clock.
        """
        now = self._monotonic()
        if not manager.status():
            self._streaming_since = None
            if self.state is SourceState.CONNECTED or now - opened_at >= _READ_SECONDS:
                self._disconnect(StreamLost("the watch stream is unavailable, reading the changes meanwhile"))
            return
        if self._streaming_since is None:
            self._streaming_since = now
        if self._outage is None or now - self._streaming_since >= _STABLE_SECONDS:
            self._connected()
            self._show_details()

    def _details(self) -> Iterable[str]:
        return (*super()._details(), self._topic_detail, self._loops.detail())

    def _connected(self) -> bool:
        is_new = super()._connected()
        if is_new:
            self._loops.connected()
        return is_new

    def _disconnect(self, reason: Exception, sort: type[Exception] | None = None) -> None:
        super()._disconnect(reason, StreamLost if isinstance(reason, _OUTAGES) else sort)
