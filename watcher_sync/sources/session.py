# SPDX-License-Identifier: Apache-2.0
"""The session of a source: connections one after the other, consumers on each of them, the state, and the stop.

A driver derives its session from :class:`Session` and says how to connect, attach, pump and disconnect. A connection
or consumer that ends is replaced, with jittered back-off and without a limit. One thread runs :meth:`Session.run`.

The state changes here only. Each change is reported, so that the source logs it.
"""

from __future__ import annotations

import abc
import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from watcher_sync.backoff import Backoff
from watcher_sync.sources.base import SourceState
from watcher_sync.transports.exceptions import NotAnswered, NotReady

_BACKOFF_SECONDS: Final = (0.1, 1.0)
"""Between two attempts, at first and at most."""
_STABLE_SECONDS: Final = 5.0
"""A consumer that worked for this time resets the back-off: a server may accept it and close the connection at once."""


T = TypeVar("T")


class SessionConnection(Protocol):
    """What a session asks of a connection."""

    @property
    def is_closed(self) -> bool:
        """Whether it has ended."""


ConnectionT = TypeVar("ConnectionT", bound=SessionConnection)
ConsumerT = TypeVar("ConsumerT")


class Stopped(Exception):
    """The source stops; the answer is not awaited any more."""


class NotConnected(Exception):
    """No server accepts us; the message says why."""


class SessionStatus(msgspec.Struct):
    """What the source shows of its session. Written by the session's thread, read by any."""

    state: SourceState = SourceState.STARTING
    detail: str = ""
    connections: int = 0
    lag: int | None = None
    """Messages that the server has not delivered to any consumer yet."""
    redelivered: int | None = None


class SessionLoop:
    """What a session waits for. One at a time may wait.

    :param stopping: set before :meth:`cancel_attempt` is called.
    """

    def __init__(self, stopping: threading.Event) -> None:
        self._stopping = stopping
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken: asyncio.Event | None = None
        self._attempt: asyncio.Task[Any] | None = None

    # Any thread

    def wake(self) -> None:
        """Have the event loop's thread check what there is to do."""
        self._call_soon(self.set_woken)

    def cancel_attempt(self) -> None:
        """The source stops: end :meth:`unless_stopped` and every wait."""
        self._call_soon(self._cancel_attempt)

    @property
    def attempting(self) -> bool:
        """Whether an attempt is awaited."""
        return self._attempt is not None

    def _call_soon(self, call: Callable[[], None]) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(call)

    # The loop's thread

    def start(self) -> None:
        """Use the loop that runs. Called before anything else in its thread."""
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    def set_woken(self) -> None:
        """End the wait."""
        if self._woken is not None:
            self._woken.set()

    async def wait(self, seconds: float) -> None:
        """Until there may be work, at most so long."""
        assert self._woken is not None
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        self._woken.clear()

    async def unless_stopped(self, attempt: Coroutine[Any, Any, T]) -> T:
        """Its result, or what it raises.

        :raises Stopped: when the source stops meanwhile; the attempt is cancelled then.
        """
        task: asyncio.Task[T] = asyncio.ensure_future(attempt)
        self._attempt = task
        if self._stopping.is_set():
            task.cancel()
        try:
            result: T = await task
            return result
        except asyncio.CancelledError:
            raise Stopped from None
        finally:
            self._attempt = None

    async def pause(self, seconds: float) -> None:
        """Wait so many seconds before the next attempt; a stop ends the wait."""
        until = time.monotonic() + seconds
        while not self._stopping.is_set() and (left := until - time.monotonic()) > 0:
            await self.wait(left)

    def _cancel_attempt(self) -> None:
        if self._attempt is not None:
            self._attempt.cancel()
        self.set_woken()


class Session(abc.ABC, Generic[ConnectionT, ConsumerT]):
    """What the session's thread does, from the first connection to the stop.

    :param name: of the source.
    :param stopping: set by :meth:`stop`.
    """

    def __init__(self, name: str, *, stopping: threading.Event) -> None:
        self.name = name
        self.status = SessionStatus()
        self._stopping = stopping
        self._deadline = self._give_back_at = 0.0
        self._loop = SessionLoop(stopping)
        self.on_state: Callable[[], object] = bool
        """Is called after each change of the state."""

    # Any thread

    def stop(self, deadline: float) -> None:
        """Have :meth:`run` end by then. What the engine has not settled shortly before is given back.

        :param deadline: of the monotonic clock.
        """
        self._deadline = deadline
        self._give_back_at = deadline - min(0.5, max(0.0, deadline - time.monotonic()) / 4)
        self._stopping.set()
        self._loop.cancel_attempt()

    def wake(self) -> None:
        """Have the session's thread check what there is to do."""
        self._loop.wake()

    # What a driver does

    @abc.abstractmethod
    async def _connect(self) -> ConnectionT:
        """:raises NotConnected: no server accepts us."""

    @abc.abstractmethod
    async def _attach(self, connection: ConnectionT) -> ConsumerT:
        """What :meth:`_pump` works with.

        :raises NotReady: there is nothing to consume yet.
        """

    @abc.abstractmethod
    async def _pump(self, connection: ConnectionT, consumer: ConsumerT) -> None:
        """Consume and settle, until the connection is lost or the source stops; then finish.

        When it returns while the connection is open, the next consumer is attached at once.

        :raises NotReady: the consumer is lost; the next one is attached after a back-off.
        """

    @abc.abstractmethod
    async def _disconnect(self, connection: ConnectionT) -> str:
        """Close the connection; why it is lost, for a person."""

    @abc.abstractmethod
    async def _finish_disconnected(self) -> None:
        """A stop without a connection: wait until the engine has settled, though no server learns of it."""

    # The session's thread

    async def run(self) -> None:
        """One connection after the other, until the stop."""
        self._loop.start()
        backoff = Backoff(*_BACKOFF_SECONDS)
        while not self._stopping.is_set():
            try:
                connection = await self._loop.unless_stopped(self._connect())
            except Stopped:
                break
            except NotConnected as exc:
                self._set_state(SourceState.DISCONNECTED, f"cannot connect: {exc}")
            else:
                self.status.connections += 1
                if await self._use(connection):
                    backoff.succeeded()
            await self._loop.pause(backoff.failed())
        await self._finish_disconnected()

    async def _use(self, connection: ConnectionT) -> bool:
        """Consume on one connection until it ends or the source stops; whether a consumer worked long enough."""
        worked = False
        backoff = Backoff(*_BACKOFF_SECONDS)
        try:
            while not connection.is_closed and not self._stopping.is_set():
                began = math.inf
                try:
                    consumer = await self._loop.unless_stopped(self._attach(connection))
                    began = time.monotonic()
                    await self._pump(connection, consumer)
                except Stopped:
                    break
                except NotReady as exc:
                    if not connection.is_closed:
                        self._set_state(SourceState.DISCONNECTED, str(exc))
                    if isinstance(exc, NotAnswered):
                        break
                    if time.monotonic() - began > _STABLE_SECONDS:
                        backoff.succeeded()
                    if not connection.is_closed:
                        await self._loop.pause(backoff.failed())
                finally:
                    worked = worked or time.monotonic() - began > _STABLE_SECONDS
        finally:
            why = await self._disconnect(connection)
        if self.status.state is not SourceState.DISCONNECTED:
            self._set_state(SourceState.DISCONNECTED, why)
        return worked

    def _set_state(self, state: SourceState, detail: str = "") -> bool:
        """Set the state and report it; whether it is another one.

        :param detail: the reason of an outage, or a remark.
        """
        status = self.status
        if self._stopping.is_set() or (state, detail) == (status.state, status.detail):
            return False
        status.state, status.detail = state, detail
        if state is not SourceState.CONNECTED:
            status.lag = status.redelivered = None
        self.on_state()
        return True
