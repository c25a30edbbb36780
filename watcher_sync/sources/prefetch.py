# SPDX-License-Identifier: Apache-2.0
"""Decodes a recording on the other core, which is a third of what an event costs.

A forked child reads the events and sends them in chunks through a pipe. The parent takes them while it is busy with the
model and the database. The full pipe is the back-pressure.

Guaranteed: the same events in the same order as without the child, or an exception; never a silent end. The child ends
with the iterator, and with the parent, because it notices the closed pipe. It uses nothing that it inherited.

Not promised: the type of a position. MessagePack has no tuples.

For a program with one thread, such as ``watcher-sync-manage replay``, because a fork copies one thread only.
"""

from __future__ import annotations

import fcntl
import io
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from watcher_sync.events import Event, portions
from watcher_sync.exceptions import WatcherSyncError

CHUNK: Final = 250
"""Events that go through the pipe at once."""

_LENGTH_BYTES: Final = 4
"""Bytes of the length before each chunk; the length 0 is the end."""
_PIPE_BYTES: Final = 1 << 20
_fork: Final = multiprocessing.get_context("fork")


class ReadingStopped(WatcherSyncError):
    """The child ended before the end of the recording."""


def read_ahead(make: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """The events of ``make()``, which a child process reads; the child starts now.

    :param make: called in the child.
    :raises ReadingStopped: while iterating: the child ended before the end of the recording.
    """
    receiver, sender = os.pipe()
    _widen(sender)
    child = _fork.Process(target=_send, args=(make, receiver, sender), name="read-ahead", daemon=True)
    child.start()
    os.close(sender)
    return _receive(receiver, child)


def _widen(pipe: int) -> None:
    """Have the pipe hold a chunk or two, if the system allows it; a small pipe only costs more writes."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
    except (AttributeError, OSError):
        return


def _receive(receiver: int, child: multiprocessing.process.BaseProcess) -> Iterator[Event]:
    decode = msgspec.msgpack.Decoder(list[Event]).decode
    try:
        with open(receiver, "rb") as pipe:
            while len(prefix := pipe.read(_LENGTH_BYTES)) == _LENGTH_BYTES:
                length = int.from_bytes(prefix)
                if length == 0:
                    return
                if len(chunk := pipe.read(length)) < length:
                    break
                yield from decode(chunk)
    finally:
        child.join()
    raise ReadingStopped(f"the reading ended with exit status {child.exitcode} before it was finished")


def _send(make: Callable[[], Iterator[Event]], receiver: int, sender: int) -> None:
    os.close(receiver)  # else this copy keeps the pipe open when the parent has ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles it, and closes the pipe
    encode = msgspec.msgpack.Encoder().encode
    events = make()
    try:
        with open(sender, "wb", buffering=0) as pipe:
            for chunk in portions(events, CHUNK):
                body = encode(chunk)
                _write(pipe, len(body).to_bytes(_LENGTH_BYTES))
                _write(pipe, body)
            _write(pipe, bytes(_LENGTH_BYTES))
    except BrokenPipeError:
        return


def _write(pipe: io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) or 0 :]
