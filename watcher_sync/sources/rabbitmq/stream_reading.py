# SPDX-License-Identifier: Apache-2.0
"""What a source does differently while it reads a stream.

The engine stores the position with the rows. The broker delivers nothing again, so the source itself emits nacked
events again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import msgspec
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.sources.base import Emit, IntakeClosed, SourceStatus
from watcher_sync.sources.rabbitmq.in_flight import InFlight
from watcher_sync.sources.rabbitmq.settings import RabbitMQSettings
from watcher_sync.sources.rabbitmq.stream import StreamQueue
from watcher_sync.sources.rabbitmq.stream_cursor import (
    NEXT,
    RabbitMQCursor,
    StreamProgress,
    queue_id,
    read_cursor,
    read_start,
)
from watcher_sync.sources.redelivery import Redelivery
from watcher_sync.wire import envelopes

LOG = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_STOP_SECONDS = 1.0


class StreamReading:
    """The position of one source in its stream, and its nacked events.

    :param name: of the source.
    :param cursor: the stored position; None at the first start.
    :param emit: passes events to the engine.
    """

    def __init__(
        self, name: str, settings: RabbitMQSettings, cursor: str | None, in_flight: InFlight, emit: Emit
    ) -> None:
        self._name = name
        self._emit = emit
        self._queue_id = queue = queue_id(settings.broker.virtual_host, settings.pool)
        self._progress = StreamProgress(queue)
        self._redelivery = Redelivery(f"source-{name}-redelivery", self._emit_again)
        stored = read_cursor(cursor, queue)
        if cursor is not None and stored is None:
            LOG.warning("source %s: its stored position is not one in the stream %s and is not used", name, queue)

        def identify(body: bytes) -> str:
            return envelopes.read_body(body, source=name, max_size=settings.max_event_size).id

        self.queue = StreamQueue(
            settings.pool,
            settings.exchange,
            settings.topics,
            settings.broker,
            source=name,
            retention=settings.stream_retention,
            start=settings.stream_start,
            cursor=stored,
            in_flight=in_flight,
            progress=self._progress,
            identify=identify,
        )

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The position once these events are committed."""
        return self._progress.cursor(events)

    def cursor_at(self, to: str) -> str:
        """The position that has the next start begin elsewhere.

        :param to: ``first``, an offset, or an ISO 8601 time.
        :raises ConfigError: it is none of these.
        """
        try:
            if to == NEXT:
                raise ValueError(f"{to!r} is no place in the history")
            read_start(to)
        except ValueError as exc:
            raise ConfigError(f"source {self._name}: {exc}") from None
        return RabbitMQCursor(self._queue_id, start=to).text()

    def ack(self, events: Sequence[Event]) -> None:
        """These events are committed."""
        self._progress.ack(events)

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Emit these events again after the delay in seconds. Any thread."""
        self._progress.nack(events)
        self._redelivery.add(events, delay)

    def begin_stop(self) -> None:
        """Emit nothing again any more: the stored position is before what was nacked."""
        self._redelivery.begin_stop()

    def join(self, deadline: float) -> None:
        """Wait shortly for the thread that emits again.

        :param deadline: of the monotonic clock.
        """
        self._redelivery.join(min(_STOP_SECONDS, deadline - time.monotonic()))

    def with_note(self, status: SourceStatus) -> SourceStatus:
        """A status, with what was missing in the stream in its detail."""
        gaps = self.queue.gaps.total
        if not gaps.count:
            return status
        detail = "; ".join(text for text in (status.detail, f"events are lost: {gaps.note}") if text)
        return msgspec.structs.replace(status, detail=detail)

    def _emit_again(self, events: Sequence[Event]) -> None:
        try:
            self._emit(events)
        except IntakeClosed:
            raise
        except Exception:
            LOG.exception("source %s: a batch could not be emitted again; retrying", self._name)
            self._redelivery.add(events, _RETRY_SECONDS)
