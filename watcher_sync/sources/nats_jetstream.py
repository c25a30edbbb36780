# SPDX-License-Identifier: Apache-2.0
"""CloudEvents from a NATS JetStream stream, read through a durable consumer of our own.

The driver ``nats_jetstream``. Every message becomes one event with ``channel`` = its NATS subject and
``sequence`` = (creation time of the stream in microseconds, sequence in the stream): the order of the
messages, across a stream that was deleted and made anew too.

Threads: ``source-<name>`` runs an asyncio loop and owns the connection, and whatever is sent goes out there.
``source-<name>-emit`` takes what has arrived, decodes it and hands it to the engine, which may block it: that
is the back-pressure, because no more is asked for than one batch beyond what waits for it. The engine's thread
leaves what it acked and released in a queue and wakes the loop.

Connections: the library's own reconnecting is off. A connection that ends, by a broken network, a killed
server, one that does not answer, or an expired login (after which the library would give up for good), is
thrown away and a new one is made, for ever, with jittered back-off; the stream and the consumer are looked at
anew each time. So there is one way into the working state and one out of it. While a server, JetStream or the
stream is missing, the source is ``disconnected`` and its detail says what is missing.

Acknowledging: an ack is one publish and has no answer; what gets lost with a connection is delivered again, and
the model's ordering guard makes that harmless. What is in the engine's hands is prolonged three times within
ack_wait, so an outage of the database is no reason to deliver again. A message that is delivered again while it
is in hand is not emitted twice: its latest delivery is the one that is acknowledged. What was in hand when the
stream was made anew is not acknowledged at all: the same number is another message there.

A message that has been delivered more often than max_deliveries is emitted as undecodable, and so goes to
quarantine: it may be what kills the engine each time. From half of that on it is emitted alone, so that those which
were only in hand beside it, or beside a power cut, are done before they get there.

Stop, step by step: an answer that is waited for before there is work is given up - no requests are made any
more, the subscription is drained and what it still brings is given back at once - the server is made to clear away
the requests that are open - what waits for the emitting thread is given back - what the engine has is waited for -
shortly before the deadline the rest is given back - a flush makes sure that the server knows - the connection is
closed.
"""

from __future__ import annotations

import asyncio
import datetime
import random
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

import msgspec
from nats.errors import Error as NatsError
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import SourceError
from watcher_sync.sources import envelopes, nats_settings
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.nats_client import DirectClient
from watcher_sync.sources.nats_hands import PROLONG, Hands
from watcher_sync.sources.nats_pull import GIVE_BACK, Arrived, Pulling
from watcher_sync.sources.nats_settings import CONNECT_TIMEOUT, Settings
from watcher_sync.sources.nats_stream import Attached, JetStream, NoAnswer, NotReady

LOG = logging.getLogger(__name__)

T = TypeVar("T")

_BACKOFF: Final = (0.1, 1.0)
"""Seconds between two attempts, at first and at most: soon back, and no burden on a server that is not there."""

_LAG_EVERY: Final = 3.0
_MUCH: Final = 1_000
"""While so many messages are left behind, the server is not asked how many there are ..."""
_NOT_ASKED: Final = 60.0
"""... for so many seconds at most."""
_REQUEST_TIMEOUT: Final = 3.0
_CLOSE_TIMEOUT: Final = 1.0
_LOOK: Final = 0.5
_SHORT_LIFE: Final = 5.0


class _Stopped(Exception):
    """We were told to stop before there was an answer."""


class NatsJetStreamSource(Source):
    """The driver ``nats_jetstream``."""

    options: ClassVar[list[cfg.Opt]] = nats_settings.OPTIONS
    lives_apart: ClassVar[bool] = True

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._settings = Settings(name, conf)
        self._stopping = threading.Event()
        self._deadline = self._last_call = 0.0
        # The loop's alone: whether what is in hand may be what ended the engine before.
        self._careful = True
        self._hands = Hands(self._stopping)
        self._emit: Emit | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kick: asyncio.Event | None = None
        # What the loop waits for that a stop does not wait for.
        self._attempt: asyncio.Task[Any] | None = None
        # Written by one thread each, read by any:
        self._state = SourceState.STARTING
        self._detail = ""
        self._connections = 0
        self._lag: int | None = None
        self._redelivered: int | None = None
        self._last_event_at: datetime.datetime | None = None
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self._emitter = threading.Thread(target=self._emit_all, name=f"source-{name}-emit", daemon=True)

    # -- what the engine calls --------------------------------------------------------------------

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._thread.start()
        self._emitter.start()

    def ack(self, events: Sequence[Event]) -> None:
        """The loop tells the server."""
        self._hands.settle(events, None)
        self._wake()

    def release(self, events: Sequence[Event], delay: float) -> None:
        """Delivered again after ``delay`` seconds, and twice as long each time that it was delivered before."""
        self._hands.settle(events, delay)
        self._wake()

    def stop(self, deadline: float) -> None:
        """End as described at the top of this module."""
        left = max(0.0, deadline - time.monotonic())
        self._deadline = deadline
        self._last_call = deadline - min(0.5, left / 4)
        self._stopping.set()
        self._hands.wake()
        self._call_soon(self._abandon)
        for thread in (self._thread, self._emitter):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("source %s: not closed in time; the server delivers again what was not acked", self.name)
        self._state, self._detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the server has not delivered to anybody yet."""
        return SourceStatus(
            state=self._state,
            detail=self._detail,
            lag=self._lag,
            last_event_at=self._last_event_at,
            reconnects=max(0, self._connections - 1),
            redelivered=self._redelivered,
        )

    def reach(self) -> None:
        """Connect to the first server that answers, and ask for JetStream. The stream need not exist."""
        try:
            asyncio.run(self._reach())
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is why
            raise SourceError(_describe(exc)) from None

    async def _reach(self) -> None:
        client = await self._connect()
        try:
            await self._jetstream(client).backlog()
        finally:
            await _close(client)

    # -- the emitting thread ----------------------------------------------------------------------

    def _emit_all(self) -> None:
        """Hand over what arrives, in order, until the stop."""
        assert self._emit is not None
        batch, linger = self._settings.batch, self._settings.linger
        flowing = False
        while (lot := self._hands.take(batch, linger if flowing else 0.0)) is not None:
            flowing = len(lot) > 1
            events = [self._event_of(epoch, arrived) for epoch, arrived in lot]
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            try:
                self._emit(events)
            except IntakeClosed:
                # Kept until we are stopped: given back now, it would be with us again at once.
                self._stopping.wait()
                self._hands.settle(events, 0.0)
            except Exception:
                LOG.exception("source %s: a batch could not be handed to the engine; it is given back", self.name)
                self._hands.settle(events, 1.0)
            self._wake()

    def _event_of(self, epoch: int, arrived: Arrived) -> Event:
        message, sequence, limit = arrived.message, arrived.sequence, self._settings.max_deliveries
        event = envelopes.read_message(
            message.data,
            message.headers,
            source=self.name,
            number=f"{self._settings.wanted.stream}/{epoch}/{sequence}",
            deliveries=arrived.deliveries,
            channel=message.subject,
            sequence=(epoch, sequence),
            max_size=self._settings.max_event_size,
        )
        if event.undecodable is not None:
            why = event.undecodable
        elif 0 < limit < arrived.deliveries:
            why = f"delivered {arrived.deliveries} times and not done, {limit} is the limit"
            event = envelopes.unread(message.data, message.headers, event, why)
        else:
            return event
        return msgspec.structs.replace(event, undecodable=f"{why} (subject {message.subject}, sequence {sequence})")

    # -- the loop's thread: connections -----------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._live())
        except Exception as exc:
            LOG.exception("source %s: it has failed and is made anew", self.name)
            self._state, self._detail = SourceState.FAILED, f"{type(exc).__name__}: {exc}"

    async def _live(self) -> None:
        """One connection after the other, until the stop."""
        self._kick = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            try:
                client = await self._unless_stopped(self._connect())
            except _Stopped:
                break
            except (NatsError, OSError) as exc:
                self._tell(SourceState.DISCONNECTED, f"cannot connect: {_describe(exc)}")
            else:
                self._connections += 1
                if await self._serve(client):
                    failures = 0
                if self._state is SourceState.CONNECTED:
                    self._tell(SourceState.DISCONNECTED, f"the connection is lost: {_describe(self._error)}")
            await self._pause(failures)
            failures += 1
        await self._forget_all()

    async def _connect(self) -> DirectClient:
        """A connection to one of the servers, each of which is tried twice.

        :raises nats.errors.Error, OSError: when none lets us in.
        """
        self._error = None
        client = DirectClient()
        try:
            arguments = self._settings.connect_arguments(client)
            async with asyncio.timeout(CONNECT_TIMEOUT * (2 * len(arguments["servers"]) + 2)):
                await client.connect(
                    name=f"watcher-sync {self.name}",
                    allow_reconnect=False,
                    max_reconnect_attempts=1,
                    reconnect_time_wait=0,
                    connect_timeout=CONNECT_TIMEOUT,
                    ping_interval=15,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    **arguments,
                )
            self._settings.require_tls(client)
        except BaseException as exc:
            await _close(client)
            told = self._error if isinstance(exc, NatsError) and self._error is not None else exc
            if isinstance(told, ConnectionError) and client._server_info:
                # It greeted, and went when it saw who we are; its reason got lost with the connection.
                raise NatsError("the server closed the connection at the login, it may not know us") from None
            if told is not exc:
                raise told from None
            raise
        return client

    async def _on_error(self, error: Exception) -> None:
        self._error = error

    async def _on_closed(self) -> None:
        self._wake()

    async def _serve(self, client: DirectClient) -> bool:
        """Work on one connection until it ends or we are stopped; whether it came to work at all."""
        stream = self._jetstream(client)
        worked = False
        failures = 0
        try:
            while not client.is_closed and not self._stopping.is_set():
                began = time.monotonic()
                try:
                    attached = await self._unless_stopped(stream.attach())
                except _Stopped:
                    break
                except NotReady as exc:
                    if not client.is_closed:
                        self._tell(SourceState.DISCONNECTED, self._with_error(str(exc)))
                    if isinstance(exc, NoAnswer):
                        break
                else:
                    worked = True
                    if not await self._work(client, stream, attached):
                        break
                    if time.monotonic() - began > _SHORT_LIFE:
                        failures = 0
                if not client.is_closed:
                    await self._pause(failures)
                    failures += 1
        finally:
            self._error = client.last_error or self._error
            await _close(client)
        return worked

    def _jetstream(self, client: DirectClient) -> JetStream:
        return JetStream(client, self._settings.wanted, prefix=self._settings.api_prefix, timeout=_REQUEST_TIMEOUT)

    def _with_error(self, detail: str) -> str:
        """With what the server complained about meanwhile, such as a permission that is lacking."""
        error, self._error = self._error, None
        return detail if error is None else f"{detail} ({_describe(error)})"

    async def _unless_stopped(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Its result, or what it raises.

        :raises _Stopped: when we are told to stop meanwhile; it is cancelled then.
        """
        task: asyncio.Task[T] = asyncio.ensure_future(attempt)
        self._attempt = task
        if self._stopping.is_set():
            task.cancel()
        try:
            result: T = await task
            return result
        except asyncio.CancelledError:
            raise _Stopped from None
        finally:
            self._attempt = None

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt; a stop ends it."""
        ceiling = min(_BACKOFF[1], _BACKOFF[0] * 2 ** min(failures, 10))
        until = time.monotonic() + random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            await self._wait(left)

    # -- the loop's thread: one consumer ----------------------------------------------------------

    async def _work(self, client: DirectClient, stream: JetStream, attached: Attached) -> bool:
        """Pull, settle and look at the backlog, until the consumer or the connection is lost or we are stopped.

        :returns: whether the connection may be used on.
        """
        hands, epoch, wanted = self._hands, attached.epoch, self._settings.wanted
        pulling = Pulling(
            client,
            f"{self._settings.api_prefix}.CONSUMER.MSG.NEXT.{wanted.stream}.{wanted.durable}",
            batch=self._settings.batch,
            deliver=lambda arrived: hands.deliver(epoch, arrived),
            waiting=hands.waiting,
            kick=self._kick_now,
            in_hand=lambda: len(hands),
            careful=self._careful,
            suspect_after=self._settings.suspect_after,
            put_aside=lambda arrived: self._put_aside(epoch, arrived),
            aside=lambda: hands.aside,
            emit_one_aside=hands.emit_one_aside,
        )
        looking = asyncio.create_task(self._look(stream, attached, pulling))
        try:
            await pulling.begin()
            self._tell(SourceState.CONNECTED, "")
            await self._pull(client, attached, pulling)
            await pulling.end(self._left() if self._stopping.is_set() else _REQUEST_TIMEOUT)
            if self._stopping.is_set():
                await self._clear_requests(stream)
                await self._finish(client, epoch)
        except (NatsError, OSError) as exc:
            self._error = self._error or exc
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
        self._careful = False
        if pulling.lost and not client.is_closed:
            self._tell(SourceState.DISCONNECTED, pulling.lost)
        return not (pulling.silent or client.is_closed)

    async def _pull(self, client: DirectClient, attached: Attached, pulling: Pulling) -> None:
        prolong_every = attached.ack_wait / 3
        prolong_at = time.monotonic() + prolong_every
        while not self._stopping.is_set() and not client.is_closed:
            # Asked before: a server that was killed may have forgotten what it delivered, and know no ack of it.
            await pulling.ask()
            await self._settle(client, attached.epoch)
            await pulling.ask()
            pulling.check()
            if pulling.lost:
                return
            now = time.monotonic()
            if now >= prolong_at:
                prolong_at = now + prolong_every
                await client.publish_all((reply, PROLONG) for reply in self._hands.held(attached.epoch))
            await self._wait(min(_LOOK, prolong_at - now))

    async def _settle(self, client: DirectClient, epoch: int) -> None:
        await client.publish_all(self._hands.settlements(epoch))

    def _put_aside(self, epoch: int, arrived: Arrived) -> None:
        if not self._hands.aside:
            LOG.warning(
                "source %s: the message %d was delivered %d times, and waits until it is alone",
                self.name,
                arrived.sequence,
                arrived.deliveries,
            )
        self._hands.put_aside(epoch, arrived)

    async def _clear_requests(self, stream: JetStream) -> None:
        """Have the server clear away our last requests, whose inbox is gone, before anything is given back.

        It does so when it is asked about the consumer. A server of the 2.9 series would take up what is given back for
        a request that is left, lose sight of it until ack_wait is over, and deliver the message before its last one
        once more instead.
        """
        with suppress(NotReady, TimeoutError):
            async with asyncio.timeout(min(1.0, self._left() / 2)):
                await stream.backlog()

    async def _finish(self, client: DirectClient, epoch: int) -> None:
        """The stop, from the drained subscription to the flush."""
        back = self._hands.unemitted(epoch)
        while True:
            settled = list(self._hands.settlements(epoch))
            back += [reply for reply, payload in settled if payload.startswith(GIVE_BACK)]
            await client.publish_all((r, p) for r, p in settled if not p.startswith(GIVE_BACK))
            left = self._last_call - time.monotonic()
            if self._hands.empty or left <= 0 or client.is_closed:
                break
            await self._wait(min(_LOOK, left))
        back += self._hands.rest(epoch)
        await client.publish_all((reply, GIVE_BACK) for reply in back)
        async with asyncio.timeout(self._left()):
            await client.flush()

    def _left(self) -> float:
        """Seconds until the deadline of the stop, and a little, so that what is begun has a chance."""
        return max(0.1, self._deadline - time.monotonic())

    async def _look(self, stream: JetStream, attached: Attached, pulling: Pulling) -> None:
        """Ask for the backlog every few seconds, and notice when the consumer is another one.

        While much is left behind it is not asked for, because each message tells, too: a server of the 2.9 series that
        is asked in the midst of a large file counts the rest of it again with every message from then on.
        """
        asked_at = time.monotonic()
        while True:
            left = pulling.left_behind()
            if left is not None and left >= _MUCH and time.monotonic() - asked_at < _NOT_ASKED:
                self._lag = left
                await asyncio.sleep(_LAG_EVERY)
                continue
            asked_at = time.monotonic()
            try:
                backlog = await stream.backlog()
            except NotReady as exc:
                LOG.debug("source %s: the backlog is not known: %s", self.name, exc)
                self._lag = self._redelivered = None
            else:
                if backlog is None or backlog.consumer_created != attached.consumer_created:
                    pulling.give_up("the consumer is gone")
                    return
                self._lag, self._redelivered = backlog.pending, backlog.redelivered
            await asyncio.sleep(_LAG_EVERY)

    async def _forget_all(self) -> None:
        """At a stop without a connection: wait until the engine is done, though nobody can be told."""
        self._hands.unemitted(None)
        while not self._hands.empty and time.monotonic() < self._last_call:
            for _ in self._hands.settlements(None):
                pass
            await self._wait(0.1)

    # -- between the threads ----------------------------------------------------------------------

    def _wake(self) -> None:
        """From any thread: have the loop look at what there is to do."""
        self._call_soon(self._kick_now)

    def _call_soon(self, call: Callable[[], None]) -> None:
        """From any thread: have the loop make a call, if there is one."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(call)

    def _abandon(self) -> None:
        """We are stopping: wait for no answer that is of no use any more."""
        if self._attempt is not None:
            self._attempt.cancel()
        self._kick_now()

    def _kick_now(self) -> None:
        if self._kick is not None:
            self._kick.set()

    async def _wait(self, seconds: float) -> None:
        """Until something is to be done, at most so long."""
        assert self._kick is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._kick.wait()
        self._kick.clear()

    def _tell(self, state: SourceState, detail: str) -> None:
        """Set the state; one line in the log for each change."""
        if self._stopping.is_set() or (state, detail) == (self._state, self._detail):
            return
        if state is SourceState.CONNECTED:
            LOG.info("source %s: listening", self.name)
        else:
            LOG.warning("source %s: %s; trying again until it works", self.name, detail)
            self._lag = self._redelivered = None
        self._state, self._detail = state, detail


async def _close(client: DirectClient) -> None:
    """Close, in bounded time: after a failed TLS handshake the library waits for an end that never comes."""
    with suppress(NatsError, OSError):
        async with asyncio.timeout(_CLOSE_TIMEOUT):
            await client.close()


def _describe(error: Exception | None) -> str:
    """An error in one line."""
    if error is None:
        return "it was closed"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = " ".join(str(error).split()).removeprefix("nats: ")
    return text[:200] or type(error).__name__
