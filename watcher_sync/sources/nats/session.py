# SPDX-License-Identifier: Apache-2.0
"""The asyncio side of the JetStream driver: connections, the stream and its consumer, settling, the stop.

One thread runs :meth:`NatsSession.run`. The library's own reconnecting is off. The session closes a connection that
ends and makes another one, with jittered back-off and without a limit. It checks the stream and the consumer each time.

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

import msgspec
from nats.errors import Error as NatsError
from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.sources.base import SourceState
from watcher_sync.sources.nats.attachment import Attachment
from watcher_sync.sources.nats.connection import NatsConnection, close, connect, describe
from watcher_sync.sources.nats.consumer import PullConsumer
from watcher_sync.sources.nats.history import StreamHistory
from watcher_sync.sources.nats.in_flight import JetStreamInFlight
from watcher_sync.sources.nats.isolation import ConnectionLosses, RedeliveryIsolation
from watcher_sync.sources.nats.messages import IN_PROGRESS, NAK
from watcher_sync.sources.nats.settings import JetStreamSettings
from watcher_sync.sources.nats.stream import ConsumerHandle, JetStream, JetStreamNoAnswer, NotReady
from watcher_sync.sources.session_loop import BACKOFF_SECONDS, OutageReasons, SessionLoop, Stopped, end_task

LOG = logging.getLogger(__name__)

_BACKLOG_INTERVAL_SECONDS: Final = 3.0
_LARGE_BACKLOG: Final = 1_000
"""While this many messages are pending, the server is not asked how many there are ..."""
_MAX_BACKLOG_AGE_SECONDS: Final = 60.0
"""... for this time at most."""
_REQUEST_TIMEOUT_SECONDS: Final = 3.0
_POLL_INTERVAL_SECONDS: Final = 0.5
_STABLE_SECONDS: Final = 5.0
"""A consumer that worked for this time resets the back-off."""


class NatsSessionStatus(msgspec.Struct):
    """What the source shows of its session. Written by one thread, read by any."""

    state: SourceState = SourceState.STARTING
    detail: str = ""
    connections: int = 0
    lag: int | None = None
    """Messages that the server has not delivered to any reader yet."""
    redelivered: int | None = None


def jetstream_of(client: NatsConnection, settings: JetStreamSettings) -> JetStream:
    """The stream that the settings name, over this connection."""
    return JetStream(client, settings.consumer, prefix=settings.api_prefix, timeout=_REQUEST_TIMEOUT_SECONDS)


class NatsSession:
    """What the event loop's thread does, from the first connection to the stop.

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
        status: NatsSessionStatus,
    ) -> None:
        self.name = name
        self._settings = settings
        self._in_flight = in_flight
        self._history = history
        self._attachment = Attachment(name, history, in_flight)
        self._isolation = RedeliveryIsolation(name, limit=settings.isolation_limit, batch=settings.batch)
        self._losses = ConnectionLosses()
        self._stopping = stopping
        self._status = status
        self._deadline = self._nack_at = 0.0
        self._loop = SessionLoop(stopping)
        self._reasons = OutageReasons()
        self._error: Exception | None = None

    # Any thread

    def stop(self, deadline: float) -> None:
        """Have :meth:`run` end by then, as described at the top of this module.

        :param deadline: of the monotonic clock.
        """
        self._deadline = deadline
        self._nack_at = deadline - min(0.5, max(0.0, deadline - time.monotonic()) / 4)
        self._stopping.set()
        self._loop.cancel_attempt()

    def wake(self) -> None:
        """Have the event loop's thread check what there is to do."""
        self._loop.wake()

    # Connections

    async def run(self) -> None:
        """One connection after the other, until the stop."""
        self._loop.start()
        backoff = Backoff(*BACKOFF_SECONDS)
        while not self._stopping.is_set():
            try:
                client = await self._loop.unless_stopped(connect(self._settings, self.name, closed=self.wake))
            except Stopped:
                break
            except (NatsError, OSError) as exc:
                self._set_state(SourceState.DISCONNECTED, f"cannot connect: {describe(exc)}")
            else:
                self._status.connections += 1
                self._error = None
                if await self._use(client):
                    backoff.succeeded()
                self._losses.add(time.time_ns())
                if self._status.state is SourceState.CONNECTED:
                    self._set_state(SourceState.DISCONNECTED, f"the connection is lost: {describe(self._error)}")
            await self._loop.pause(backoff.failed())
        self._history.end()
        await self._finish_disconnected()

    async def _use(self, client: NatsConnection) -> bool:
        """Work on one connection until it ends or the source stops; whether the consumer was ready at all."""
        stream = jetstream_of(client, self._settings)
        worked = False
        backoff = Backoff(*BACKOFF_SECONDS)
        try:
            while not client.is_closed and not self._stopping.is_set():
                began = time.monotonic()
                try:
                    handle = await self._loop.unless_stopped(self._attachment.attach(stream))
                except Stopped:
                    break
                except NotReady as exc:
                    if not client.is_closed:
                        self._set_state(SourceState.DISCONNECTED, self._with_complaint(client, str(exc)))
                    if isinstance(exc, JetStreamNoAnswer):
                        break
                else:
                    worked = True
                    if not await self._consume(client, stream, handle):
                        break
                    if time.monotonic() - began > _STABLE_SECONDS:
                        backoff.succeeded()
                if not client.is_closed:
                    await self._loop.pause(backoff.failed())
        finally:
            self._error = client.why or self._error
            await close(client)
        return worked

    @staticmethod
    def _with_complaint(client: NatsConnection, detail: str) -> str:
        """With the server's last error, such as a permission that is missing."""
        error, client.complaint = client.complaint, None
        return detail if error is None else f"{detail} ({describe(error)})"

    # One consumer

    async def _consume(self, client: NatsConnection, stream: JetStream, handle: ConsumerHandle) -> bool:
        """Pull, settle and poll the backlog, until the consumer or the connection is lost or the source stops.

        :returns: whether the connection may be used on.
        """
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
            self._set_state(SourceState.CONNECTED, "")
            await self._pull(client, handle.ack_wait, consumer)
            await consumer.end(self._left() if self._stopping.is_set() else _REQUEST_TIMEOUT_SECONDS)
            if self._stopping.is_set():
                await self._clear_requests(stream)
                await self._finish(client)
        except (NatsError, OSError) as exc:
            self._error = self._error or exc
        finally:
            await end_task(polling)
        if consumer.lost and not client.is_closed:
            self._set_state(SourceState.DISCONNECTED, consumer.lost)
        return not (consumer.silent or client.is_closed)

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
            left = self._nack_at - time.monotonic()
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
                self._status.lag = pending
                await asyncio.sleep(_BACKLOG_INTERVAL_SECONDS)
                continue
            asked_at = time.monotonic()
            try:
                known = self._history.last_known
                info = await stream.current_info()
                backlog = await stream.consumer()
            except NotReady as exc:
                LOG.debug("source %s: the backlog is unknown: %s", self.name, exc)
                self._status.lag = self._status.redelivered = None
            else:
                if info is None or backlog is None or backlog.created != handle.created:
                    consumer.lose("the consumer is gone")
                    return
                if not self._history.check(known, info, backlog):
                    consumer.lose("the stream is another one than before")
                    return
                self._status.lag, self._status.redelivered = backlog.pending, backlog.redelivered
            await asyncio.sleep(_BACKLOG_INTERVAL_SECONDS)

    async def _finish_disconnected(self) -> None:
        """A stop without a connection: wait until the engine has settled, though no server learns of it."""
        self._in_flight.pop_unemitted(self._isolation.clear())
        while not self._in_flight.empty and time.monotonic() < self._nack_at:
            for _ in self._in_flight.settlements():
                pass
            await self._loop.wait(0.1)

    # State

    def _set_state(self, state: SourceState, detail: str) -> None:
        """Set the state; then one line in the log for each change, and for each reason of an outage."""
        if self._stopping.is_set() or (state, detail) == (self._status.state, self._status.detail):
            return
        self._status.state, self._status.detail = state, detail
        if state is SourceState.CONNECTED:
            self._reasons.clear()
            LOG.info("source %s: connected", self.name)
        else:
            self._status.lag = self._status.redelivered = None
            if self._reasons.is_new(detail):
                LOG.warning("source %s: disconnected: %s; retrying", self.name, detail)
