# SPDX-License-Identifier: Apache-2.0
"""What an engine and the process of one of its drivers say to each other: MessagePack, each message with its length.

A pipe each way. Sending from several threads is safe; one thread receives.
"""

from __future__ import annotations

import fcntl
import os
import threading
from typing import Any, Final, Generic, TypeVar

import msgspec

from watcher_sync.events import Event
from watcher_sync.sources.base import SourceStatus

SILENCE: Final = 10.0
"""Seconds after which the other side, not heard of, is taken for dead."""

BEAT: Final = 1.0
"""Seconds between two signs of life."""

_LENGTH: Final = 4
_WIDE: Final = 1 << 20


class Setup(msgspec.Struct, tag=True):
    """To the driver, first: what it is made of."""

    driver: str
    """``module:class``."""
    name: str
    options: dict[str, dict[str, Any]]
    """Group -> option -> value."""
    most: int
    """Events that may be in hand."""
    log_level: int


class Settled(msgspec.Struct, tag=True):
    """To the driver: these are acked, or with a delay released."""

    numbers: list[tuple[int, int]]
    """First and last of each run of events."""
    delay: float | None


class Refused(msgspec.Struct, tag=True):
    """To the driver: the engine takes no more events, nor did it take these."""

    numbers: list[tuple[int, int]]


class Stop(msgspec.Struct, tag=True):
    """To the driver: stop within so many seconds."""

    seconds: float


class Alive(msgspec.Struct, tag=True):
    """To the driver: we live."""


class Emitted(msgspec.Struct, tag=True):
    """To the engine: events; the position of each is its number."""

    events: list[Event]


class Told(msgspec.Struct, tag=True):
    """To the engine, when it changes and as a sign of life: the driver's status."""

    status: SourceStatus


class Logged(msgspec.Struct, tag=True):
    """To the engine: what is to be logged."""

    logger: str
    level: int
    message: str


class Ended(msgspec.Struct, tag=True):
    """To the engine, last: the driver has stopped, or could not start."""

    trouble: str = ""


Command = Setup | Settled | Refused | Stop | Alive
Report = Emitted | Told | Logged | Ended

T = TypeVar("T")


class PipeFull(Exception):
    """The other side does not read what it is sent."""


class Sending:
    """The writing end of a pipe.

    :param pipe: its file descriptor, which is ours from now on.
    :param waits: wait while the pipe is full; else that is an error.
    """

    def __init__(self, pipe: int, *, waits: bool) -> None:
        os.set_blocking(pipe, waits)
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _WIDE)
        except (AttributeError, OSError):
            pass  # a narrow one only makes more turns
        self._pipe: int | None = pipe
        # Guards the pipe: one message at a time.
        self._lock = threading.Lock()
        self._encode = msgspec.msgpack.Encoder().encode

    def send(self, message: Command | Report) -> None:
        """:raises OSError: the other side is gone.

        :raises Clogged: the pipe is full, and we do not wait.
        """
        body = self._encode(message)
        with self._lock:
            if self._pipe is None:
                raise BrokenPipeError
            rest = memoryview(len(body).to_bytes(_LENGTH) + body)
            try:
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


class Receiving(Generic[T]):
    """The reading end of a pipe.

    :param pipe: its file descriptor, which is ours from now on.
    :param messages: the union of what may come.
    """

    def __init__(self, pipe: int, messages: Any) -> None:
        self._pipe = open(pipe, "rb")  # noqa: SIM115 - closed by close()
        self._decode = msgspec.msgpack.Decoder(messages).decode

    def receive(self) -> T | None:
        """The next message; None when the other side is gone."""
        prefix = self._pipe.read(_LENGTH)
        if len(prefix) < _LENGTH:
            return None
        length = int.from_bytes(prefix)
        body = self._pipe.read(length)
        message: T | None = self._decode(body) if len(body) == length else None
        return message

    def close(self) -> None:
        """For the thread that receives."""
        self._pipe.close()
