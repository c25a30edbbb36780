# SPDX-License-Identifier: Apache-2.0
"""The asyncio side of the JetStream driver: connections, the stream and its consumer, pulling, settling, the stop.

One thread runs :meth:`Loop.live`. It shares
:class:`~watcher_sync.sources.nats.in_flight.InFlight` with the other threads, the figures, which one thread writes
and any reads, and :meth:`Loop.wake`.

Connections: the library's own reconnecting is off. A connection that ends, by a broken network, a killed
server, one that does not answer, or an expired login (after which the library would give up for good), is
thrown away and a new one is made, for ever, with jittered back-off; the stream and the consumer are looked at
anew each time. So there is one way into the working state and one out of it. While a server, JetStream or the
stream is missing, the source is ``disconnected`` and its detail says what is missing.

Stop, step by step: an answer that is waited for before there is work is given up - no requests are made any
more, the subscription is drained and what it still brings is given back at once - the server is made to clear away
the requests that are open - what waits for the emitting thread is given back - what the engine has is waited for -
shortly before the deadline the rest is given back - a flush makes sure that the server knows - the connection is
closed.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, TypeVar

import msgspec
from nats.errors import Error as NatsError
from oslo_log import log as logging

from watcher_sync.sources.base import SourceState
from watcher_sync.sources.nats.connection import Connection, close, connect, describe
from watcher_sync.sources.nats.consumer import GIVE_BACK, Arrived, Pulling
from watcher_sync.sources.nats.in_flight import PROLONG, InFlight
from watcher_sync.sources.nats.settings import Settings
from watcher_sync.sources.nats.stream import ConsumerHandle, JetStream, NoAnswer, NotReady

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
_LOOK: Final = 0.5
_SHORT_LIFE: Final = 5.0


class _Stopped(Exception):
    """We were told to stop before there was an answer."""


class Figures(msgspec.Struct):
    """What the source shows of itself."""

    state: SourceState = SourceState.STARTING
    detail: str = ""
    connections: int = 0
    lag: int | None = None
    """What the server has not delivered to anybody yet."""
    redelivered: int | None = None


def jetstream_of(client: Connection, settings: Settings) -> JetStream:
    """The stream as the settings want it, over this connection."""
    return JetStream(client, settings.wanted, prefix=settings.api_prefix, timeout=_REQUEST_TIMEOUT)


class Loop:
    """What the loop's thread does, from the first connection to the stop.

    :param name: of the source.
    :param stopping: set by :meth:`stop`.
    """

    def __init__(
        self, name: str, settings: Settings, hands: InFlight, stopping: threading.Event, figures: Figures
    ) -> None:
        self.name = name
        self._settings = settings
        self._hands = hands
        self._stopping = stopping
        self._figures = figures
        self._deadline = self._last_call = 0.0
        # The loop's alone: whether what is in hand may be what ended the engine before.
        self._careful = True
        self._loop: asyncio.AbstractEventLoop | None = None
        self._kick: asyncio.Event | None = None
        self.attempt: asyncio.Task[Any] | None = None
        """What is waited for that a stop does not wait for."""
        self._error: Exception | None = None

    # Any thread

    def stop(self, deadline: float) -> None:
        """Have :meth:`live` end by then, as described at the top of this module.

        :param deadline: of the monotonic clock.
        """
        self._deadline = deadline
        self._last_call = deadline - min(0.5, max(0.0, deadline - time.monotonic()) / 4)
        self._stopping.set()
        self._call_soon(self._abandon)

    def wake(self) -> None:
        """Look at what there is to do."""
        self._call_soon(self._kick_now)

    def _call_soon(self, call: Callable[[], None]) -> None:
        """Have the loop make a call, if there is one."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(call)

    # Connections

    async def live(self) -> None:
        """One connection after the other, until the stop."""
        self._kick = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        failures = 0
        while not self._stopping.is_set():
            try:
                client = await self._unless_stopped(connect(self._settings, self.name, closed=self.wake))
            except _Stopped:
                break
            except (NatsError, OSError) as exc:
                self._tell(SourceState.DISCONNECTED, f"cannot connect: {describe(exc)}")
            else:
                self._figures.connections += 1
                self._error = None
                if await self._serve(client):
                    failures = 0
                if self._figures.state is SourceState.CONNECTED:
                    self._tell(SourceState.DISCONNECTED, f"the connection is lost: {describe(self._error)}")
            await self._pause(failures)
            failures += 1
        await self._forget_all()

    async def _serve(self, client: Connection) -> bool:
        """Work on one connection until it ends or we are stopped; whether it came to work at all."""
        stream = jetstream_of(client, self._settings)
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
                        self._tell(SourceState.DISCONNECTED, self._with_complaint(client, str(exc)))
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
            self._error = client.why or self._error
            await close(client)
        return worked

    @staticmethod
    def _with_complaint(client: Connection, detail: str) -> str:
        """With what the server complained about meanwhile, such as a permission that is lacking."""
        error, client.complaint = client.complaint, None
        return detail if error is None else f"{detail} ({describe(error)})"

    async def _unless_stopped(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Its result, or what it raises.

        :raises _Stopped: when we are told to stop meanwhile; it is cancelled then.
        """
        task: asyncio.Task[T] = asyncio.ensure_future(attempt)
        self.attempt = task
        if self._stopping.is_set():
            task.cancel()
        try:
            result: T = await task
            return result
        except asyncio.CancelledError:
            raise _Stopped from None
        finally:
            self.attempt = None

    async def _pause(self, failures: int) -> None:
        """Wait before the next attempt; a stop ends it."""
        ceiling = min(_BACKOFF[1], _BACKOFF[0] * 2 ** min(failures, 10))
        until = time.monotonic() + random.uniform(ceiling / 2, ceiling)  # noqa: S311 - jitter
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            await self._wait(left)

    # One consumer

    async def _work(self, client: Connection, stream: JetStream, attached: ConsumerHandle) -> bool:
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

    async def _pull(self, client: Connection, attached: ConsumerHandle, pulling: Pulling) -> None:
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

    async def _settle(self, client: Connection, epoch: int) -> None:
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

    async def _finish(self, client: Connection, epoch: int) -> None:
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

    async def _look(self, stream: JetStream, attached: ConsumerHandle, pulling: Pulling) -> None:
        """Ask for the backlog every few seconds, and notice when the consumer is another one.

        While much is left behind it is not asked for, because each message tells, too: a server of the 2.9 series that
        is asked in the midst of a large file counts the rest of it again with every message from then on.
        """
        asked_at = time.monotonic()
        while True:
            left = pulling.left_behind()
            if left is not None and left >= _MUCH and time.monotonic() - asked_at < _NOT_ASKED:
                self._figures.lag = left
                await asyncio.sleep(_LAG_EVERY)
                continue
            asked_at = time.monotonic()
            try:
                backlog = await stream.backlog()
            except NotReady as exc:
                LOG.debug("source %s: the backlog is not known: %s", self.name, exc)
                self._figures.lag = self._figures.redelivered = None
            else:
                if backlog is None or backlog.consumer_created != attached.consumer_created:
                    pulling.give_up("the consumer is gone")
                    return
                self._figures.lag, self._figures.redelivered = backlog.pending, backlog.redelivered
            await asyncio.sleep(_LAG_EVERY)

    async def _forget_all(self) -> None:
        """At a stop without a connection: wait until the engine is done, though nobody can be told."""
        self._hands.unemitted(None)
        while not self._hands.empty and time.monotonic() < self._last_call:
            for _ in self._hands.settlements(None):
                pass
            await self._wait(0.1)

    # Turns

    def _abandon(self) -> None:
        """We are stopping: wait for no answer that is of no use any more."""
        if self.attempt is not None:
            self.attempt.cancel()
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
        if self._stopping.is_set() or (state, detail) == (self._figures.state, self._figures.detail):
            return
        if state is SourceState.CONNECTED:
            LOG.info("source %s: listening", self.name)
        else:
            LOG.warning("source %s: %s; trying again until it works", self.name, detail)
            self._figures.lag = self._figures.redelivered = None
        self._figures.state, self._figures.detail = state, detail
