# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq``: notifications of OpenStack services from a queue of RabbitMQ.

Threads: ``source-<name>`` runs the event loop and owns the connection. ``source-<name>-emit`` decodes and emits; the
engine may block it, which is the back-pressure. The engine's thread queues acks and nacks and wakes the loop. So
heartbeats do not depend on the engine's pace.

The broker delivers a message again that is not acked. Acks and nacks of a closed channel are dropped, because the
broker has taken its messages back. The ordering guard makes redelivery harmless.
"""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import SourceError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.rabbitmq import settings
from watcher_sync.sources.rabbitmq.connection import Failure, connect, describe
from watcher_sync.sources.rabbitmq.in_flight import QueuedMessage, RabbitInFlight
from watcher_sync.sources.rabbitmq.queues import QUEUES, Queue
from watcher_sync.sources.rabbitmq.session import RabbitMQSession, RabbitMQSessionStatus
from watcher_sync.sources.rabbitmq.settings import RabbitMQSettings
from watcher_sync.wire import envelopes

LOG = logging.getLogger(__name__)


class RabbitMQSource(Source):
    """The driver ``rabbitmq``."""

    envelopes: ClassVar[Collection[str]] = (OSLO,)
    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self.settings = RabbitMQSettings(name, conf)
        self._stopping = threading.Event()
        self.in_flight = RabbitInFlight(self._stopping)
        self._emit: Emit | None = None
        self._status = RabbitMQSessionStatus()
        self._last_event_at: datetime.datetime | None = None
        self.queue = self._make_queue(conf, cursor)
        self._session = RabbitMQSession(
            name,
            self.settings,
            self.queue,
            self.in_flight,
            oversized=self._oversized,
            stopping=self._stopping,
            status=self._status,
        )
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self._emitter = threading.Thread(target=self._emit_all, name=f"source-{name}-emit", daemon=True)

    # What the engine calls

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._thread.start()
        self._emitter.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Queue the acks and wake the I/O thread, which sends them."""
        self._settle(events, None)

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Returned to the queue after ``delay`` seconds."""
        self._settle(events, delay)

    def stop(self, deadline: float) -> None:
        """End as described in :mod:`~watcher_sync.sources.rabbitmq.session`."""
        self._session.stop(deadline)
        self.in_flight.wake()
        for thread in (self._thread, self._emitter):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("source %s: stop timed out; the broker redelivers what was not acked", self.name)
        self._status.state, self._status.detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the broker has not delivered to any consumer yet."""
        status, gaps = self._status, self.queue.gaps.total
        return SourceStatus(
            state=status.state,
            detail=status.detail,
            lag=status.lag,
            last_event_at=self._last_event_at,
            reconnects=max(0, status.connections - 1),
            gaps=gaps.count,
            lost=gaps.lost,
            last_gap_at=gaps.last_at,
        )

    def probe(self) -> None:
        """Log in to the first host of the URL that answers. Nothing is declared and no message is touched."""
        asyncio.run(self._probe())

    async def _probe(self) -> None:
        errors: list[str] = []
        broker = self.settings.broker
        for host in broker.hosts:
            try:
                connection = await connect(broker, host, f"watcher-sync {self.name} check")
            except Failure as exc:
                errors.append(f"{host}: {describe(exc, broker)}")
            else:
                await connection.close()
                return
        raise SourceError("; ".join(errors))

    # The two threads

    def _run(self) -> None:
        try:
            asyncio.run(self._session.run())
        except Exception as exc:
            LOG.exception("source %s: failed; the supervisor replaces it", self.name)
            self._status.state, self._status.detail = SourceState.FAILED, f"{type(exc).__name__}: {exc}"

    def _emit_all(self) -> None:
        """Emit what arrives, in order, until the stop."""
        while (batch := self.in_flight.take(self.settings.batch)) is not None:
            events = [self._event_of(message) for message in batch]
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            try:
                self._emit_events(events)
            except IntakeClosed:
                # Held until the stop: returned now, the broker would deliver it again at once.
                self._stopping.wait()
                self.nack(events, 0.0)
            except Exception:
                LOG.exception("source %s: a batch could not be emitted; it is nacked", self.name)
                self.nack(events, 1.0)

    def _emit_events(self, events: Sequence[Event]) -> None:
        assert self._emit is not None
        self._emit(events)

    def _make_queue(self, conf: cfg.ConfigOpts, _cursor: str | None) -> Queue:
        """The classic or quorum queue that the options describe."""
        settings = self.settings
        by_default = "quorum" if settings.broker.options["rabbit_quorum_queue"] else "classic"
        made = QUEUES[conf[f"source_{self.name}"].queue_type or by_default]
        return made(settings.pool, settings.exchange, settings.topics, settings.broker)

    def _settle(self, events: Sequence[Event], delay: float | None) -> None:
        """Have the broker forget these, or deliver them again after so many seconds."""
        self.in_flight.settle(events, delay)
        self._session.wake()

    def _event_of(self, message: QueuedMessage) -> Event:
        if message.event is not None:
            return msgspec.structs.replace(message.event, position=message.position)
        return envelopes.read_body(
            message.body,
            source=self.name,
            position=message.position,
            deliveries=message.deliveries,
            max_size=self.settings.max_event_size,
        )

    def _oversized(self, body: bytes, deliveries: int) -> Event:
        return envelopes.read_body(body, source=self.name, deliveries=deliveries, max_size=self.settings.max_event_size)
