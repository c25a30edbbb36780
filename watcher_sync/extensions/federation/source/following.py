# SPDX-License-Identifier: Apache-2.0
"""What all transports of a region share: the thread that follows it, its place, and what it shows of itself."""

from __future__ import annotations

import abc
import datetime
import random
import threading
from collections.abc import Callable, Iterable, Mapping
from logging import Logger
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.events import Event, portions
from watcher_sync.extensions.federation.source.loops import loop_of
from watcher_sync.extensions.federation.source.options import Site
from watcher_sync.extensions.federation.source.states import EventMaker, RegionCursor, is_loop
from watcher_sync.sources.base import Emit, IntakeClosed, SourceState

LOG = logging.getLogger(__name__)

_EMIT_SIZE: Final = 500
FIRST_PAUSE_SECONDS: Final = 0.2


def logger_for_debugging(name: str) -> Logger:
    """A logger that passes lines below ERROR only when they are for debugging."""
    adapter = logging.getLogger(name)
    logger: Logger = adapter.logger
    logger.addFilter(lambda record: record.levelno >= logging.ERROR or adapter.isEnabledFor(logging.DEBUG))
    return logger


class DeleteGuard(msgspec.Struct, frozen=True):
    """The option of the delete guard. ``[reconcile]`` itself serves, too: a reload of its values then counts."""

    max_delete_percent: float = 30.0


class RegionFollower(abc.ABC):
    """Follows one region in a thread of its own."""

    def __init__(
        self,
        site: Site,
        emit: Emit,
        cursor: RegionCursor,
        guard: DeleteGuard,
        *,
        backoff_max: float,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """:param cursor: where to begin.

        :param guard: read at each listing.
        :param backoff_max: the longest pause between two attempts, in seconds.
        """
        self.state = SourceState.STARTING
        self.detail = ""
        self.last_event_at: datetime.datetime | None = None
        self.connections = 0
        self.lag: int | None = None
        """Messages that wait in the transport; None: unknown."""
        self._site = site
        self._emit_events = emit
        self._make = EventMaker(site)
        self._project_detail = ""
        self._loop = ""
        """The id of an entity that shows a loop; empty: the region has shown none."""
        self._cursor = cursor
        self._make.region_epoch = cursor.number
        self._is_new_epoch = False
        """Whether the next event is the first one of an epoch."""
        self._guard = guard
        self.is_first_contact = False
        """Whether no whole listing was stored: the guard does not hold what was made here."""
        self._backoff = Backoff(FIRST_PAUSE_SECONDS, backoff_max, uniform=jitter)
        self._outage: type[Exception] | None = None
        """The sort of the last reason; None: the source is connected, or was not yet."""
        self.on_state: Callable[[], object] = bool
        """Is called after each change of the state."""
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"source-{site.source}", daemon=True)

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

    @abc.abstractmethod
    def _attempt(self) -> float:
        """Follow until something ends it; return the seconds to wait. :raises IntakeClosed: stopped."""

    def _listed(self, ids: Mapping[str, Iterable[str]], sequence: int, began: datetime.datetime) -> list[Event]:
        """The events of a complete listing.

        :param ids: kind -> the ids that the region has.
        """
        percent, is_first, self.is_first_contact = self._guard.max_delete_percent, self.is_first_contact, False
        return [self._make.listed(kind, found, sequence, began, percent, is_first) for kind, found in ids.items()]

    # The place

    def _cursor_at(self, sequence: int, message: int = 0) -> str:
        return msgspec.structs.replace(self._cursor, sequence=sequence, message=message).text()

    def _list_again(self) -> None:
        self._cursor = msgspec.structs.replace(self._cursor, sequence=None)

    def _enter_epoch(self, epoch: str) -> None:
        """Go on in the epoch that the region has now. Versions of a later one are newer than all of before."""
        before, self._cursor = self._cursor, self._cursor.at_epoch(epoch, datetime.datetime.now(datetime.UTC))
        self._make.region_epoch = self._cursor.number
        self._is_new_epoch = self._is_new_epoch or self._cursor != before
        if self._cursor.number != before.number:
            LOG.warning(
                "source %s: the database of the region went back in time; its epoch is %s, it was %s",
                self._site.source, epoch, before.epoch,
            )  # fmt: skip

    def _is_left_out(self, entity_id: str) -> bool:
        """Whether an entity is not followed, because it shows a loop: it would come back with ever longer prefixes."""
        if not is_loop(self._site.site, entity_id):
            return False
        if not self._loop:
            self._loop = entity_id
            LOG.warning("source %s: %s", self._site.source, self._loop_detail())
        return True

    def _note_deleted(self, entity_id: str) -> None:
        """An entity is deleted, and shows no loop any more."""
        if entity_id == self._loop:
            self._loop = ""

    def _loop_detail(self) -> str:
        if not self._loop:
            return ""
        return (
            f"loop {loop_of(self._site.site, self._loop)}: the region follows this installation, it has "
            f"{self._loop!r}; remove one of these sources"
        )

    def _emit(self, events: list[Event]) -> None:
        """:raises IntakeClosed: the source stops, or the engine takes no more."""
        for portion in portions(events, _EMIT_SIZE):
            if self._stopping.is_set():
                raise IntakeClosed
            if self._is_new_epoch:
                portion[:1] = [self._with_epoch(portion[0])]
            self._emit_events(portion)
            if self._make.has_foreign_project and not self._project_detail:
                self._project_detail = "the region has entities of other projects, which are followed without a project"
                LOG.warning("source %s: %s", self._site.source, self._project_detail)
            self.last_event_at = datetime.datetime.now(datetime.UTC)

    def _with_epoch(self, event: Event) -> Event:
        """The first event of an epoch, with a position that begins with a listing in it: its number is used now."""
        self._is_new_epoch = False
        if event.position is not None:
            return event
        return msgspec.structs.replace(event, position=msgspec.structs.replace(self._cursor, sequence=None).text())

    # State

    def _details(self) -> Iterable[str]:
        """What an operator should know of a region that is followed; empty texts do not count.

        The loop is the first one: other installations read it (:func:`~.loops.refused_loops`).
        """
        return (self._loop_detail(), self._project_detail)

    def _show_details(self) -> None:
        self.detail = "; ".join(each for each in self._details() if each)

    def _connected(self) -> bool:
        """Note that the region is followed; return whether that is new."""
        self._outage = None
        if self.state is SourceState.CONNECTED:
            return False
        self.state, self.detail = SourceState.CONNECTED, ""
        self.connections += 1
        self.on_state()
        return True

    def _disconnect(self, reason: Exception, sort: type[Exception] | None = None) -> None:
        """Show the reason, and report it.

        :param sort: of the outage, whatever shows it; None: the type of the reason.
        """
        why = str(reason) or type(reason).__name__
        if (self.state, self.detail) == (SourceState.DISCONNECTED, why):
            return
        self._outage = sort or type(reason)
        self.state, self.detail = SourceState.DISCONNECTED, why
        self.on_state()
