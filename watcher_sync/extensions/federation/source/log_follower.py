# SPDX-License-Identifier: Apache-2.0
"""Follows the log of one region: its current model first, and then the newest state of what changed.

The log has one order for all of the partition. So the version of each facet of a state is the seq of its change. A
whole model ends with one ``listed`` event for each kind. It comes first, and again after each snapshot of the region,
such as one in another epoch.

The position moves with the changes, and with a whole model at its end. A thread runs the loop.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

import msgspec
from oslo_log import log as logging

from watcher_sync.client.log.consumer import LogLost
from watcher_sync.client.log.messages import SNAPSHOT, SNAPSHOT_BEGIN, SNAPSHOT_END, PublishedChange, UnknownMessage
from watcher_sync.client.log.received import ModelEnds, Received
from watcher_sync.events import Event
from watcher_sync.extensions.federation.source.following import DeleteGuard, RegionFollower
from watcher_sync.extensions.federation.source.log_options import LogSettings
from watcher_sync.extensions.federation.source.region_log import RegionLog, follow_log
from watcher_sync.extensions.federation.source.states import EPOCH_OF_LOG, RegionCursor, RegionDocument
from watcher_sync.sources.base import Emit, IntakeClosed

LOG = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.2
_BACKOFF_MAX_SECONDS: Final = 30.0


class _Owner(msgspec.Struct):
    project_id: Any = None


_decode_owner: Final = msgspec.json.Decoder(_Owner).decode


class RegionLogFollower(RegionFollower):
    """Follows one region by its log."""

    def __init__(
        self, settings: LogSettings, emit: Emit, cursor: RegionCursor, guard: DeleteGuard, kinds: Collection[str]
    ) -> None:
        """:param cursor: where to begin.

        :param guard: read at the end of each whole model.
        :param kinds: names of all kinds that the engine stores.
        """
        super().__init__(settings.site, emit, cursor, guard, backoff_max=_BACKOFF_MAX_SECONDS)
        self._settings = settings
        self._kinds = kinds
        self._log = RegionLog()
        self._ids: dict[str, set[str]] | None = None
        """Kind -> the ids of the whole model that is being read; None: none is."""
        self._began = datetime.datetime.now(datetime.UTC)
        self._partial_detail = ""
        """Why the model that was read last is no listing; empty: it is one."""
        self._awaits_epoch = False
        """Whether the begin of a model was no change: the next change has the epoch."""

    def _attempt(self) -> float:
        try:
            self._follow()
            return 0.0
        except IntakeClosed:
            raise
        except Exception as exc:  # the edge of the thread
            LOG.exception("source %s: unexpected error, reading the model again", self._site.source)
            self._list_again()
            self._disconnect(exc)
        return self._backoff.failed(self._log.message)

    def _follow(self) -> None:
        self._log, self._ids = RegionLog(), None  # what an error has interrupted is received again
        follower = follow_log(self._settings, self._places())
        try:
            while not self._stopping.is_set():
                received = follower.take(_POLL_SECONDS)
                if received:
                    self._pass_on(received)
                self.lag = follower.pending
                if follower.is_connected:
                    self._connected()
                    self._show_details()
                elif follower.problem:
                    self._disconnect(LogLost(follower.problem))
        finally:
            follower.close()

    def _places(self) -> Sequence[tuple[str, int, int]]:
        cursor = self._cursor
        if cursor.sequence is None or not cursor.message or not cursor.epoch.startswith(EPOCH_OF_LOG):
            return ()
        return ((cursor.epoch.removeprefix(EPOCH_OF_LOG), cursor.sequence, cursor.message),)

    def _pass_on(self, received: Sequence[Received]) -> None:
        """Emit the newest state of each entity, in the order of these states."""
        newest: dict[tuple[str, str, bool], Event] = {}
        for each in received:
            try:
                change = self._log.change_of(each)
            except UnknownMessage as exc:
                event = self._undecodable(each, exc)
                newest["", event.id, False] = event
                continue
            if change is None:
                continue
            if change.change == SNAPSHOT_BEGIN:
                self._emit_placed(newest.values())
                newest.clear()
                self._begin(change)
            elif change.change == SNAPSHOT_END:
                self._emit_placed([*newest.values(), *self._end(change)])
                newest.clear()
            elif (self._ids is not None or self._is_current(change)) and self._is_followed(change):
                key = (change.kind, change.id, change.is_marker)  # a marker is no state: what came before it remains
                newest.pop(key, None)
                newest[key] = self._event_of(change)
        self._emit_placed(newest.values())
        self._backoff.moved(self._log.message)

    def _emit_placed(self, events: Iterable[Event]) -> None:
        """Emit events. The last one has the position, but not within a whole model."""
        found = list(events)
        if self._ids is None and self._log.message:
            self._cursor = msgspec.structs.replace(self._cursor, sequence=self._log.seq, message=self._log.message)
            if found:
                found[-1] = msgspec.structs.replace(found[-1], position=self._cursor.text())
        self._emit(found)

    def _details(self) -> Iterable[str]:
        return (*super()._details(), self._partial_detail)

    def _begin(self, change: PublishedChange) -> None:
        self._enter_epoch(EPOCH_OF_LOG + change.epoch)
        self._began = datetime.datetime.now(datetime.UTC)
        self._ids, self._partial_detail = {kind: set() for kind in self._kinds}, ""
        self._awaits_epoch, self._loop = False, ""
        LOG.info("source %s: reading the model of the region", self._site.source)

    def _end(self, change: PublishedChange) -> list[Event]:
        ids, self._ids = self._ids, None
        if ids is None:
            return []
        count = sum(map(len, ids.values()))
        LOG.info("source %s: read %d entities at seq %d", self._site.source, count, change.seq)
        if self._partial_detail:
            LOG.warning("source %s: %s", self._site.source, self._partial_detail)
            return []
        return self._listed(ids, change.seq, self._began)

    def _is_current(self, change: PublishedChange) -> bool:
        """Whether it is of the present epoch; one of another belongs to a snapshot whose begin follows."""
        if self._awaits_epoch:
            self._awaits_epoch = False
            self._enter_epoch(EPOCH_OF_LOG + change.epoch)
        return self._cursor.epoch == EPOCH_OF_LOG + change.epoch

    def _is_followed(self, change: PublishedChange) -> bool:
        if change.exists:
            return not self._is_left_out(change.id)
        self._note_deleted(change.id)
        return True

    def _event_of(self, change: PublishedChange) -> Event:
        """The event of a state. An entity whose message is a marker exists, and is here as it was."""
        if self._ids is not None and change.kind in self._ids:
            found = self._ids[change.kind]
            (found.add if change.exists else found.discard)(change.id)
        if change.is_marker:
            why = f"{change.kind} {change.id!a} is too large for the log of the region: read it by REST"
            body = msgspec.json.encode({"kind": change.kind, "id": change.id})
            return self._make.undecodable("too-large", body, why)  # one row of the quarantine for each entity
        seq = change.seq
        if change.change == SNAPSHOT and change.previous_seq is not None:
            seq = change.previous_seq
        version = f"{seq:020d}"
        if not change.exists:
            return self._make.deleted(
                change.kind, change.id, self._log.message, {"*": version}, change.time, old=change.old
            )
        # The last of two members with one name counts, and that is ours.
        body = b'%s,"versions":{"*":"%s"}}' % (bytes(change.entity).rstrip()[:-1], version.encode())
        project = change.project_id if self._site.projects is None else _decode_owner(change.entity).project_id
        document = RegionDocument(change.id, self._log.message, project)
        return self._make.changed(change.kind, document, body, change.time)

    def _undecodable(self, received: Received, why: UnknownMessage) -> Event:
        assert not isinstance(received, ModelEnds)
        if self._ids is not None or received.marker:
            self._partial_detail = f"nothing is deleted by the model of the region, it is not complete: {why}"
        if received.marker:
            self._ids, self._awaits_epoch = None, received.marker == SNAPSHOT_BEGIN
        return self._make.undecodable(f"message-{received.sequence}", received.data, str(why))
