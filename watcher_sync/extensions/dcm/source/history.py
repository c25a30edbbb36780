# SPDX-License-Identifier: Apache-2.0
"""Whether the stream is the one that was read before, and the epoch of each message.

A stream that was created again has another creation time. One whose store was replaced by an older copy has the same.
Its last known message identifies it: the copy lacks it, or has another one.

The epoch is the creation time plus the number of such restorations. Messages of the copy retain their epoch, so
their redelivery changes nothing. Those that are stored afterwards get the next one, so they win over the rows although
their sequences are lower. Sequence and time of a message distinguish the two.

:class:`Attachment` finds stream and consumer, and compares them. Only :meth:`StreamHistory.cursor` is for any thread.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence
from typing import Final

from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.source.cursor import Loss, Place, Restoration, StreamCursor
from watcher_sync.extensions.dcm.source.discards import Discards, utc
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.stream import ConsumerHandle, JetStream, StreamInfo
from watcher_sync.sources.base import Gaps
from watcher_sync.sources.cursors import FIRST
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.messages import JetStreamMessage

LOG = logging.getLogger(__name__)


class StreamHistory:
    """What one source knows of its stream.

    :param source: its name, for the log.
    :param cursor: the stored position, or one without a creation time at the first start.
    """

    def __init__(self, source: str, cursor: StreamCursor) -> None:
        self.gaps = Gaps()
        self._stream = cursor.stream
        self._discards = Discards(source, cursor.stream, self.gaps)
        # Guards what follows against cursor(), which other threads call.
        self._lock = threading.Lock()
        self._created = cursor.created
        self._restored = list(cursor.restored)
        self._seen = cursor.seen
        self._end = cursor.end
        self._floor = cursor.floor
        self._lost_before = cursor.lost
        # The event loop's thread only:
        self.start = cursor.start
        """Where a new consumer has to begin; empty: where the present one is."""
        self._ahead: int | None = None
        """After a restoration: a consumer that has delivered this sequence belongs to the stream before it."""

    @property
    def epoch(self) -> int:
        """That of the messages that are stored now."""
        return self._created + len(self._restored)

    def rewind_to_cursor(self) -> None:
        """Have the next consumer begin after what is certainly committed. Before the first connection."""
        self.start = str(self._floor + 1)

    # Comparing

    def is_behind(self, stream: StreamInfo) -> bool:
        """Whether the end of the stream is before the known one. A new leader of a cluster may be so shortly."""
        return stream.created == self._created and stream.last.sequence < self._known.sequence

    def known_message(self, stream: StreamInfo) -> int | None:
        """The sequence of the message that identifies the stream; None if there is none."""
        end = self._known
        if stream.created == self._created and end.time and stream.first <= end.sequence <= stream.last.sequence:
            return end.sequence
        return None

    def compare(self, stream: StreamInfo, stored_at: int | None) -> bool:
        """Whether the stream is another one than before, or an older copy; then it is reported, and has a new epoch.

        :param stored_at: when the server stored :meth:`known_message`; None: unknown.
        """
        if stream.created != self._created:
            was_known = self._created != 0
            if was_known:
                self._report_created_again()
            with self._lock:
                self._created, self._restored = stream.created, []
                self._forget(stream)
            return was_known
        if self.is_behind(stream):
            self._restore(stream, stream.last.sequence, stream.last.sequence + 1)
            return True
        if stored_at is not None and stored_at != self._known.time:
            self._restore(stream, self._known.sequence - 1, max(1, self._received.sequence))
            return True
        return False

    def _restore(self, stream: StreamInfo, highest: int, ahead: int) -> None:
        """An older copy of the stream is in its place.

        :param highest: the greatest sequence that the copy can have had.
        :param ahead: see :attr:`_ahead`.
        """
        end, received = self._known, self._received
        unread = max(0, end.sequence - max(highest, received.sequence))
        self._discards.flush()
        self._discards.report(
            f"the stream {self._stream} was restored from an older copy: the message {end.sequence}"
            f"{f' of {utc(end.time)}' if end.time else ''} is not in it any more; at most {unread} known messages"
            " were not read, and the number of unknown ones is not known",
            unread,
        )
        with self._lock:
            self._restored.append(Restoration(highest, end.time))
            self._forget(stream)
        self._ahead = ahead

    def _report_created_again(self) -> None:
        self._discards.flush()
        unread = max(0, self._known.sequence - self._received.sequence)
        self._discards.report(
            f"the stream {self._stream} was created again; of the old one at most {unread} known messages were not"
            f" read, and what came after sequence {self._known.sequence} is not known",
            unread,
        )

    @property
    def last_known(self) -> int:
        """The greatest sequence that the stream is known to have had."""
        return self._known.sequence

    @property
    def _known(self) -> Place:
        """The last message that the stream is known to have had."""
        return max(self._end, self._received)

    @property
    def _received(self) -> Place:
        return max(self._seen, self._discards.received)

    def _forget(self, stream: StreamInfo) -> None:
        self._discards.forget()
        self._seen, self._end, self._floor = Place(), stream.last, 0

    # Attaching and reading

    def needs_new_consumer(self, consumer: ConsumerHandle) -> bool:
        """Whether the consumer has to be created again: it begins elsewhere, or it is ahead of a restored stream."""
        return bool(self.start) or (self._ahead is not None and consumer.delivered >= self._ahead)

    def begin(self, stream: StreamInfo, consumer: ConsumerHandle) -> None:
        """The source attaches to its consumer."""
        self.start, self._ahead = "", None
        self._discards.begin(stream, consumer, self._seen)
        self._observe(stream)

    def receive(self, message: JetStreamMessage) -> int:
        """A message has arrived; its epoch."""
        self._discards.receive(message)
        return self.epoch_of(message) if self._restored else self._created

    def epoch_of(self, message: JetStreamMessage) -> int:
        """The epoch of a message of this stream."""
        for number in range(len(self._restored), 0, -1):
            restoration = self._restored[number - 1]
            if message.sequence > restoration.sequence or message.stored_at > restoration.time:
                return self._created + number
        return self._created

    def check(self, known: int, stream: StreamInfo, consumer: ConsumerHandle) -> bool:
        """Look for what the stream discarded; False if it is not the one that the source is attached to.

        :param known: :attr:`last_known` before the server was asked.
        :param stream: as it was before ``consumer``.
        """
        if stream.created != self._created or stream.last.sequence < known:
            return False
        quiet = self._discards.check(stream, consumer)
        with self._lock:
            self._floor = max(self._floor, stream.last.sequence if quiet else consumer.ack_floor)
            if quiet:
                self._seen = max(self._seen, stream.last)
        self._observe(stream)
        return True

    def end(self) -> None:
        """The source stops: report what is not reported yet."""
        self._discards.flush()

    def _observe(self, stream: StreamInfo) -> None:
        with self._lock:
            self._end = max(self._known, stream.last)

    # Any thread

    @property
    def lost(self) -> str:
        """What was found to be lost last, also before the start of the source, in one line; empty: nothing."""
        loss = self._loss
        if loss is None:
            return ""
        found = loss.at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"events are lost: {loss.note}; what no event has reported since {found} may be stale"

    @property
    def _loss(self) -> Loss | None:
        gaps = self.gaps.total
        return Loss(gaps.last_at, gaps.note) if gaps.last_at is not None else self._lost_before

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The durable position once these events are committed.

        :param events: with the time of their storage, in nanoseconds, as their position.
        """
        if not events:
            return None
        latest = max(events, key=_order)
        epoch, sequence = _order(latest)
        with self._lock:
            if epoch == self._created + len(self._restored):
                self._seen = max(self._seen, Place(sequence, latest.position))
            return StreamCursor(
                stream=self._stream,
                created=self._created,
                seen=self._seen,
                end=max(self._end, self._seen),
                floor=self._floor,
                restored=tuple(self._restored),
                lost=self._loss,
            ).text()


def _order(event: Event) -> tuple[int, int]:
    assert event.sequence is not None
    return event.sequence


_BEHIND_SECONDS: Final = 2.0
"""After this time a stream whose end is before the known one is an older copy."""
_ASK_AGAIN_SECONDS: Final = 0.25


class Attachment:
    """The way from a connection to a consumer that can be pulled from. For the event loop's thread only.

    1. Find the stream. If its end is before the known one, ask again for a while: a new leader of a cluster may be
       behind.
    2. Ask for the known message, which identifies the stream.
    3. If the stream is another one, forget the reply subjects of what is in flight.
    4. Find, create or replace the consumer.
    5. Search for what was discarded since.

    :param name: of the source.
    """

    def __init__(self, name: str, history: StreamHistory, in_flight: JetStreamInFlight) -> None:
        self._name = name
        self._history = history
        self._in_flight = in_flight
        self._warned = False

    async def attach(self, stream: JetStream) -> ConsumerHandle:
        """Find the stream and the consumer, or create them as the configuration allows.

        :raises NotReady: one is missing or does not fit.
        :raises NotAnswered: JetStream does not answer.
        """
        history = self._history
        info = await self._find(stream)
        if history.compare(info, await self._stored_at(stream, info)):
            self._in_flight.forget_replies()
        consumer = await stream.consumer()
        if consumer is not None and history.needs_new_consumer(consumer):
            await stream.delete_consumer()
            consumer = None
        if consumer is None:
            consumer = await stream.make_consumer(history.start or FIRST)
        stream.check(consumer)
        history.begin(info, consumer)
        return consumer

    async def _find(self, stream: JetStream) -> StreamInfo:
        info = await stream.find()
        until = time.monotonic() + _BEHIND_SECONDS
        while self._history.is_behind(info) and time.monotonic() < until:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            info = await stream.find()
        return info

    async def _stored_at(self, stream: JetStream, info: StreamInfo) -> int | None:
        """When the known message was stored; None if that is unknown, as without the permission to ask for it."""
        sequence = self._history.known_message(info)
        if sequence is None:
            return None
        try:
            return await stream.stored_at(sequence)
        except NotReady as exc:
            if not self._warned:
                self._warned = True
                LOG.warning(
                    "source %s: an older copy of the stream may not be noticed: %s; the account needs the permission"
                    " STREAM.MSG.GET",
                    self._name,
                    exc,
                )
            return None
