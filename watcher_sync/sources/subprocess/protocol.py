# SPDX-License-Identifier: Apache-2.0
"""The messages between an engine and the process of one of its drivers: MessagePack, each with its length before it.

One pipe for each direction. Several threads may send; one thread receives.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from typing import Any, Final, Generic, TypeVar

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.base import SourceStatus

SILENCE_SECONDS: Final = 10.0
"""A side that has sent nothing for this time counts as dead."""

START_SECONDS: Final = 60.0
"""A driver's process that has sent nothing for this time since its start counts as dead. A busy machine is slow."""

KEEPALIVE_SECONDS: Final = 1.0
"""Each side sends something at least this often."""

_LENGTH_BYTES: Final = 4
_PIPE_BYTES: Final = 1 << 20


class Setup(msgspec.Struct, tag=True):
    """To the driver, first: its class and its configuration."""

    driver: str
    """``module:class``."""
    name: str
    options: dict[str, dict[str, Any]]
    """Group -> option -> value."""
    most: int
    """Events that may be in flight."""
    most_bytes: int
    """Their bytes."""
    log_level: int
    gc_threshold: tuple[int, int, int]
    """The thresholds of the garbage collector, which are the engine's."""
    cursor: str | None = None
    """The durable position."""
    rewind: bool = False
    """Whether to bring again everything after the cursor."""


class Settled(msgspec.Struct, tag=True):
    """To the driver: these events are acked, or with a delay nacked."""

    numbers: list[tuple[int, int]]
    """First and last of each run of events."""
    delay: float | None


class Refused(msgspec.Struct, tag=True):
    """To the driver: the engine takes no more events, and did not take these."""

    numbers: list[tuple[int, int]]


class Stop(msgspec.Struct, tag=True):
    """To the driver: stop within so many seconds."""

    seconds: float


class KeepAlive(msgspec.Struct, tag=True):
    """To the driver: the engine is alive."""


class Emitted(msgspec.Struct, tag=True):
    """To the engine: events; the position of each is its number."""

    events: list[Event]
    cursor: str | None = None
    """The durable position once these events are committed."""


class StatusChanged(msgspec.Struct, tag=True):
    """To the engine: the driver's status, when it changes and every :data:`KEEPALIVE_SECONDS`."""

    status: SourceStatus


class Logged(msgspec.Struct, tag=True):
    """To the engine: a record for its log."""

    logger: str
    level: int
    message: str


class Ended(msgspec.Struct, tag=True):
    """To the engine, last: the driver has stopped, or could not start."""

    failure: str = ""
    """Why; empty when all is well."""


Command = Setup | Settled | Refused | Stop | KeepAlive
Report = Emitted | StatusChanged | Logged | Ended

T = TypeVar("T")


class PipeFull(Exception):
    """The pipe is full: the other side does not read."""


class Sending:
    """The writing end of a pipe.

    :param pipe: its file descriptor, which :meth:`close` closes.
    :param waits: whether to wait while the pipe is full instead of raising :exc:`PipeFull`.
    """

    def __init__(self, pipe: int, *, waits: bool) -> None:
        os.set_blocking(pipe, waits)
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        except (AttributeError, OSError):
            pass  # a small pipe only costs more writes
        self._pipe: int | None = pipe
        # Guards the pipe: one message at a time.
        self._lock = threading.Lock()
        self._encode = msgspec.msgpack.Encoder().encode

    def send(self, message: Command | Report) -> None:
        """:raises OSError: the other side is gone.

        :raises PipeFull: the pipe is full, and this end does not wait.
        """
        body = self._encode(message)
        with self._lock:
            if self._pipe is None:
                raise BrokenPipeError
            prefix = len(body).to_bytes(_LENGTH_BYTES)
            try:
                rest = _unwritten(prefix, body, os.writev(self._pipe, (prefix, body)))
                while rest:
                    rest = rest[os.write(self._pipe, rest) :]
            except BlockingIOError:
                raise PipeFull from None

    def close(self) -> None:
        """Nothing more is sent."""
        with self._lock:
            pipe, self._pipe = self._pipe, None
            if pipe is not None:
                os.close(pipe)


def _unwritten(prefix: bytes, body: bytes, written: int) -> memoryview:
    """What a first write left over, without a copy of the body."""
    if written < len(prefix):
        return memoryview(prefix[written:] + body)
    return memoryview(body)[written - len(prefix) :]


class Receiving(Generic[T]):
    """The reading end of a pipe.

    :param pipe: its file descriptor, which :meth:`close` closes.
    :param messages: the union of the message types.
    """

    def __init__(self, pipe: int, messages: Any) -> None:
        self._pipe = open(pipe, "rb")  # noqa: SIM115 - closed by close()
        self._decode = msgspec.msgpack.Decoder(messages).decode

    def receive(self) -> T | None:
        """The next message; None when the other side is gone."""
        prefix = self._pipe.read(_LENGTH_BYTES)
        if len(prefix) < _LENGTH_BYTES:
            return None
        length = int.from_bytes(prefix)
        body = self._pipe.read(length)
        message: T | None = self._decode(body) if len(body) == length else None
        return message

    def close(self) -> None:
        """To be called by the thread that receives."""
        self._pipe.close()


class Silence:
    """How long the other side has been silent, without the pauses of this process.

    A process that was paused has not read what came meanwhile. So one check counts for two intervals at most.
    """

    def __init__(self, interval: float) -> None:
        """:param interval: seconds between two checks."""
        self._most = 2 * interval
        self._checked_at = time.monotonic()
        self._heard_at = self._checked_at
        self._seconds = 0.0

    def check(self, heard_at: float) -> float:
        """Return the seconds of silence.

        :param heard_at: ``time.monotonic()`` of the last message; infinite while one is handled.
        """
        now = time.monotonic()
        passed = min(now - self._checked_at, self._most, max(0.0, now - heard_at))
        self._seconds = passed if heard_at != self._heard_at else self._seconds + passed
        self._checked_at, self._heard_at = now, heard_at
        return self._seconds
