# SPDX-License-Identifier: Apache-2.0
"""The session of a JetStream source: the stream and its consumer, settling, and the stop.

The library's own reconnecting is off. The session checks the stream and the consumer on each connection that it makes.

Stop, step by step:

1. An answer that is awaited before there is work is cancelled.
2. No more requests are made; the subscription is drained.
3. The server removes the open requests.
4. What the emitting thread has not taken is nacked.
5. The engine settles what it has.
6. Shortly before the deadline the rest is nacked.
7. The connection is flushed and closed.
"""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Final

from nats.errors import Error as NatsError
from oslo_log import log as logging

from watcher_sync.extensions.dcm.source.consumer import PullConsumer
from watcher_sync.extensions.dcm.source.history import Attachment, StreamHistory
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.isolation import ConnectionLosses, RedeliveryIsolation
from watcher_sync.extensions.dcm.source.settings import JetStreamSettings
from watcher_sync.extensions.dcm.source.stream import ConsumerHandle, JetStream
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.session import NotConnected, Session
from watcher_sync.tasks import end_tasks
from watcher_sync.transports.exceptions import NotAnswered, NotReady
from watcher_sync.transports.nats.connection import NatsConnection, close, connect, describe
from watcher_sync.transports.nats.messages import IN_PROGRESS, NAK

LOG = logging.getLogger(__name__)

_BACKLOG_INTERVAL_SECONDS: Final = 3.0
_LARGE_BACKLOG: Final = 1_000
"""While this many messages are pending, the server is not asked how many there are ..."""
_MAX_BACKLOG_AGE_SECONDS: Final = 60.0
"""... for this time at most."""
_REQUEST_TIMEOUT_SECONDS: Final = 3.0
_POLL_INTERVAL_SECONDS: Final = 0.5


def jetstream_of(client: NatsConnection, settings: JetStreamSettings) -> JetStream:
    """The stream that the settings name, over this connection."""
    return JetStream(client, settings.consumer, prefix=settings.api_prefix, timeout=_REQUEST_TIMEOUT_SECONDS)


class NatsSession(Session[NatsConnection, ConsumerHandle]):
    """What the session's thread does.

    :param name: of the source.
    :param history: what is known of the stream.
    :param stopping: set by :meth:`stop`.
    """

    def __init__(
        self,
        name: str,
        settings: JetStreamSettings,
        in_flight: JetStreamInFlight,
        history: StreamHistory,
        *,
        stopping: threading.Event,
    ) -> None:
        super().__init__(name, stopping=stopping)
        self._settings = settings
        self._in_flight = in_flight
        self._history = history
        self._attachment = Attachment(name, history, in_flight)
        self._isolation = RedeliveryIsolation(name, limit=settings.isolation_limit, batch=settings.batch)
        self._losses = ConnectionLosses()
        self._error: Exception | None = None

    # Connections

    async def _connect(self) -> NatsConnection:
        self._error = None
        try:
            return await connect(self._settings, self.name, closed=self.wake)
        except (NatsError, OSError) as exc:
            raise NotConnected(describe(exc)) from None

    async def _disconnect(self, client: NatsConnection) -> str:
        error = client.why or self._error
        await close(client)
        self._losses.add(time.time_ns())
        return f"the connection is lost: {describe(error)}"

    async def _attach(self, client: NatsConnection) -> ConsumerHandle:
        return await self._attachment.attach(jetstream_of(client, self._settings))

    # One consumer

    async def _pump(self, client: NatsConnection, handle: ConsumerHandle) -> None:
        """Pull, settle and poll the backlog, until the consumer or the connection is lost or the source stops.

        :raises NotReady: the consumer is lost.
        """
        stream = jetstream_of(client, self._settings)
        consumer = PullConsumer(
            client,
            self._settings,
            self._in_flight,
            self._isolation,
            receive=self._history.receive,
            losses=self._losses,
            wake=self._loop.set_woken,
        )
        polling = asyncio.create_task(self._poll_backlog(stream, handle, consumer))
        try:
            await consumer.begin()
            self._set_state(SourceState.CONNECTED)
            await self._pull(client, handle.ack_wait, consumer)
            await consumer.end(self._left() if self._stopping.is_set() else _REQUEST_TIMEOUT_SECONDS)
            if self._stopping.is_set():
                await self._clear_requests(stream)
                await self._finish(client)
        except (NatsError, OSError) as exc:
            self._error = self._error or exc
            if not client.is_closed:
                raise NotReady(describe(exc)) from None
        finally:
            await end_tasks([polling])
        if consumer.silent:
            raise NotAnswered(consumer.lost or "the connection is gone")
        if consumer.lost:
            raise NotReady(consumer.lost)

    async def _pull(self, client: NatsConnection, ack_wait: float, consumer: PullConsumer) -> None:
        extend_every = ack_wait / 3
        extend_at = time.monotonic() + extend_every
        while not self._stopping.is_set() and not client.is_closed:
            # Before the acks: a server that was killed may have forgotten its deliveries, and ignores their acks.
            await consumer.request()
            await client.publish_all(self._in_flight.settlements())
            await consumer.request()
            consumer.check_silence()
            if consumer.lost:
                return
            if client.complaint is not None and not client.is_closed:
                self._set_state(SourceState.CONNECTED, client.explained("the server refuses something"))
            now = time.monotonic()
            if now >= extend_at:
                extend_at = now + extend_every
                await client.publish_all((reply, IN_PROGRESS) for reply in self._in_flight.replies())
            await self._loop.wait(min(_POLL_INTERVAL_SECONDS, extend_at - now))

    async def _clear_requests(self, stream: JetStream) -> None:
        """Have the server remove our last requests, whose inbox is gone, before anything is nacked.

        It does so when it is asked about the consumer. A server of the 2.9 series delivers a nacked message to a
        request that is left, and misses it until ack_wait is over. It redelivers the one before its last instead.
        """
        with suppress(NotReady, TimeoutError):
            async with asyncio.timeout(min(1.0, self._left() / 2)):
                await stream.consumer()

    async def _finish(self, client: NatsConnection) -> None:
        """The stop, from the drained subscription to the flush."""
        nacked = self._in_flight.pop_unemitted(self._isolation.clear())
        while True:
            settled = list(self._in_flight.settlements())
            nacked += [reply for reply, payload in settled if payload.startswith(NAK)]
            await client.publish_all((r, p) for r, p in settled if not p.startswith(NAK))
            left = self._give_back_at - time.monotonic()
            if self._in_flight.empty or left <= 0 or client.is_closed:
                break
            await self._loop.wait(min(_POLL_INTERVAL_SECONDS, left))
        nacked += self._in_flight.pop_all()
        await client.publish_all((reply, NAK) for reply in nacked)
        async with asyncio.timeout(self._left()):
            await client.confirm()

    def _left(self) -> float:
        """Seconds until the deadline of the stop, at least a little, so that what has begun has a chance."""
        return max(0.1, self._deadline - time.monotonic())

    async def _poll_backlog(self, stream: JetStream, handle: ConsumerHandle, consumer: PullConsumer) -> None:
        """Ask for the backlog every few seconds. Notice when stream or consumer was replaced, and what was discarded.

        While much is pending, the numbers of the messages say it, and the server is not asked. One of the 2.9 series
        that is asked in the middle of a large file counts its rest again with every message.
        """
        asked_at = time.monotonic()
        while True:
            pending = consumer.pending()
            if (
                pending is not None
                and pending >= _LARGE_BACKLOG
                and time.monotonic() - asked_at < _MAX_BACKLOG_AGE_SECONDS
            ):
                self.status.lag = pending
                await asyncio.sleep(_BACKLOG_INTERVAL_SECONDS)
                continue
            asked_at = time.monotonic()
            try:
                known = self._history.last_known
                info = await stream.current_info()
                backlog = await stream.consumer()
            except NotReady as exc:
                LOG.debug("source %s: the backlog is unknown: %s", self.name, exc)
                self.status.lag = self.status.redelivered = None
            else:
                if info is None or backlog is None or backlog.created != handle.created:
                    consumer.lose("the consumer is gone")
                    return
                if not self._history.check(known, info, backlog):
                    consumer.lose("the stream is another one than before")
                    return
                self.status.lag, self.status.redelivered = backlog.pending, backlog.redelivered
            await asyncio.sleep(_BACKLOG_INTERVAL_SECONDS)

    async def _finish_disconnected(self) -> None:
        self._history.end()
        self._in_flight.pop_unemitted(self._isolation.clear())
        while not self._in_flight.empty and time.monotonic() < self._give_back_at:
            for _ in self._in_flight.settlements():
                pass
            await self._loop.wait(0.1)
