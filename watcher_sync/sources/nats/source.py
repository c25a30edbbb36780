# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: a source of CloudEvents from a JetStream stream.

Every message becomes one event. Its ``channel`` is the NATS subject. Its ``sequence`` is (epoch, sequence in the
stream); :mod:`~watcher_sync.sources.nats.history` has the epoch. Its ``position`` is when the server stored it, in
nanoseconds since 1970.

Threads: ``source-<name>`` runs the event loop and owns the connection. ``source-<name>-emit`` decodes and emits; the
engine may block it, which is the back-pressure. The engine's thread queues acks and nacks and wakes the loop.

Acks have no answer. A lost ack means a redelivery, which the ordering guard makes harmless. The source extends the ack
deadline of messages in flight. A message above max_deliveries is emitted as undecodable.
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

from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.nats import settings
from watcher_sync.sources.nats.connection import close, connect, describe
from watcher_sync.sources.nats.cursor import StreamCursor, read_cursor, read_start
from watcher_sync.sources.nats.history import StreamHistory
from watcher_sync.sources.nats.in_flight import JetStreamInFlight
from watcher_sync.sources.nats.messages import JetStreamMessage
from watcher_sync.sources.nats.session import NatsSession, NatsSessionStatus, jetstream_of
from watcher_sync.sources.nats.settings import JetStreamSettings
from watcher_sync.wire import envelopes

LOG = logging.getLogger(__name__)


class NatsJetStreamSource(Source):
    """The driver ``nats_jetstream``."""

    envelopes: ClassVar[Collection[str]] = (CLOUD_EVENTS,)
    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._settings = JetStreamSettings(name, conf)
        self._stopping = threading.Event()
        self._in_flight = JetStreamInFlight(self._stopping)
        self._emit: Emit | None = None
        self._status = NatsSessionStatus()
        self._last_event_at: datetime.datetime | None = None
        stream = self._settings.stream_id
        stored = read_cursor(cursor, stream)
        if cursor is not None and stored is None:
            LOG.warning("source %s: its stored position is not one in the stream %s and is not used", name, stream)
        self._cursor = stored or StreamCursor(stream=stream)
        self._history = StreamHistory(name, self._cursor)
        self._session = NatsSession(
            name, self._settings, self._in_flight, self._history, stopping=self._stopping, status=self._status
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
        """Queue the acks and wake the event loop's thread, which sends them."""
        self._in_flight.settle(events, None)
        self._session.wake()

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Delivered again after ``delay`` seconds, and twice as long each time that it was delivered before."""
        self._in_flight.settle(events, delay)
        self._session.wake()

    def cursor(self, events: Sequence[Event]) -> str | None:
        """What the rows come from. The server has the position of the consumer."""
        return self._history.cursor(events)

    def cursor_at(self, to: str) -> str:
        """The position whose source creates the consumer again, to begin elsewhere.

        :param to: ``first``, a sequence of the stream, or an ISO 8601 time.
        """
        try:
            read_start(to)
        except ValueError as exc:
            raise ConfigError(f"source {self.name}: {exc}") from None
        return self._cursor.starting_at(to).text()

    def rewind_to_cursor(self) -> bool:
        """Create the consumer again at the next connection, after the last event that the position certainly covers."""
        self._history.rewind_to_cursor()
        return True

    def stop(self, deadline: float) -> None:
        """End as described in :mod:`~watcher_sync.sources.nats.session`."""
        self._session.stop(deadline)
        self._in_flight.wake()
        for thread in (self._thread, self._emitter):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("source %s: stop timed out; the server redelivers what was not acked", self.name)
        self._status.state, self._status.detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the server has not delivered to any reader yet."""
        status, gaps = self._status, self._history.gaps.total
        return SourceStatus(
            state=status.state,
            detail="; ".join(text for text in (status.detail, self._history.lost) if text),
            lag=status.lag,
            last_event_at=self._last_event_at,
            reconnects=max(0, status.connections - 1),
            redelivered=status.redelivered,
            gaps=gaps.count,
            lost=gaps.lost,
            last_gap_at=gaps.last_at,
        )

    def probe(self) -> None:
        """Connect to the first server that answers, and ask for JetStream. The stream need not exist."""
        try:
            asyncio.run(self._probe())
        except SourceError:
            raise
        except Exception as exc:  # noqa: BLE001 - any failure is the answer
            raise SourceError(describe(exc)) from None

    async def _probe(self) -> None:
        client = await connect(self._settings, self.name)
        try:
            await jetstream_of(client, self._settings).consumer()
        finally:
            await close(client)

    # The two threads

    def _run(self) -> None:
        try:
            asyncio.run(self._session.run())
        except Exception as exc:
            LOG.exception("source %s: failed; the supervisor replaces it", self.name)
            self._status.state, self._status.detail = SourceState.FAILED, f"{type(exc).__name__}: {exc}"

    def _emit_all(self) -> None:
        """Emit what arrives, in order, until the stop."""
        assert self._emit is not None
        most, linger = self._settings.batch, self._settings.linger
        flowing = False
        while (batch := self._in_flight.take(most, linger if flowing else 0.0)) is not None:
            flowing = len(batch) > 1
            events = [self._event_of(epoch, received) for epoch, received in batch]
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            try:
                self._emit(events)
            except IntakeClosed:
                # Held until the stop: nacked now, the server would deliver it again at once.
                self._stopping.wait()
                self._in_flight.settle(events, 0.0)
            except Exception:
                LOG.exception("source %s: a batch could not be emitted; it is nacked", self.name)
                self._in_flight.settle(events, 1.0)
            self._session.wake()

    def _event_of(self, epoch: int, received: JetStreamMessage) -> Event:
        message, sequence, limit = received.message, received.sequence, self._settings.max_deliveries
        event = envelopes.read_message(
            message.data,
            message.headers,
            source=self.name,
            number=f"{self._settings.consumer.stream}/{epoch}/{sequence}",
            deliveries=received.deliveries,
            position=received.stored_at,
            channel=message.subject,
            sequence=(epoch, sequence),
            max_size=self._settings.max_event_size,
        )
        if event.undecodable is not None:
            why = event.undecodable
        elif 0 < limit < received.deliveries:
            why = f"delivered {received.deliveries} times and not done, {limit} is the limit"
            event = envelopes.unread(message.data, message.headers, event, why)
        else:
            return event
        return msgspec.structs.replace(event, undecodable=f"{why} (subject {message.subject}, sequence {sequence})")
