# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq_stream``: what it does differently from the driver ``rabbitmq``.

The engine stores the position with the rows. The broker delivers nothing again, so the source itself emits nacked
events again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import QueuedMessage
from watcher_sync.extensions.openstack.source.rabbitmq.queues import Queue
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.extensions.openstack.source.rabbitmq_stream import settings
from watcher_sync.extensions.openstack.source.rabbitmq_stream.cursor import (
    NEXT,
    RabbitMQCursor,
    StreamProgress,
    queue_id,
    read_cursor,
    read_start,
)
from watcher_sync.extensions.openstack.source.rabbitmq_stream.queue import StreamQueue
from watcher_sync.extensions.openstack.source.rabbitmq_stream.settings import RabbitMQStreamSettings
from watcher_sync.sources.base import IntakeClosed, SourceState, SourceStatus
from watcher_sync.sources.redelivery import Redelivery

LOG = logging.getLogger(__name__)

_RETRY_SECONDS = 1.0
_STOP_SECONDS = 1.0


class RabbitMQStreamSource(RabbitMQSource):
    """The driver ``rabbitmq_stream``."""

    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS

    def _make_queue(self, conf: cfg.ConfigOpts, cursor: str | None) -> Queue:
        options = RabbitMQStreamSettings(self.name, conf)
        self._queue_id = queue = queue_id(options.broker.virtual_host, options.pool)
        self._progress = StreamProgress(queue)
        self._redelivery = Redelivery(f"source-{self.name}-redelivery", self._emit_again)
        stored = read_cursor(cursor, queue)
        if cursor is not None and stored is None:
            LOG.warning("source %s: its stored position is not one in the stream %s and is not used", self.name, queue)
        return StreamQueue(
            options,
            source=self.name,
            cursor=stored,
            in_flight=self.in_flight,
            progress=self._progress,
            identify=self._identify,
        )

    def ack(self, events: Sequence[Event]) -> None:
        """These events are committed."""
        self._progress.ack(events)
        self._settle(events, None)

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Emit these events again after the delay in seconds. Any thread."""
        self._progress.nack(events)
        self._redelivery.add(events, delay)
        self._settle(events, None)  # the broker delivers them only once, but it waits for the credit

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The position once these events are committed."""
        return self._progress.cursor(events)

    def rewind_to_cursor(self) -> bool:
        """A stream is always read from our own position."""
        return True

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
            raise ConfigError(f"source {self.name}: {exc}") from None
        return RabbitMQCursor(self._queue_id, start=to).text()

    def stop(self, deadline: float) -> None:
        """Emit nothing again any more, because the stored position is before what was nacked. Then end."""
        self._redelivery.begin_stop()
        super().stop(deadline)
        self._redelivery.join(min(_STOP_SECONDS, deadline - time.monotonic()))

    def status(self) -> SourceStatus:
        """The figures of this moment, with what was missing in the stream in the detail while connected."""
        status, gaps = super().status(), self.queue.gaps.total
        if not gaps.count or status.state is not SourceState.CONNECTED:
            return status
        detail = "; ".join(text for text in (status.detail, f"events are lost: {gaps.note}") if text)
        return msgspec.structs.replace(status, detail=detail)

    def _identify(self, message: QueuedMessage) -> str:
        return self._event_of(message).id

    def _emit_again(self, events: Sequence[Event]) -> None:
        try:
            self._emit_events(events)
        except IntakeClosed:
            raise
        except Exception:
            LOG.exception("source %s: a batch could not be emitted again; retrying", self.name)
            self._redelivery.add(events, _RETRY_SECONDS)
