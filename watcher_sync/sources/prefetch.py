# SPDX-License-Identifier: Apache-2.0
"""Reading a recording on the other core: decoding and checking cost a third of what an event costs in all.

A child process, forked, reads the events and sends them in chunks through a pipe; the parent takes them out
ready made while it is busy with the model and the database. The pipe is the back-pressure: the child is
ahead by what the pipe and one chunk hold, never by a whole file.

Guaranteed: the same events in the same order as without the child, or an exception; never a silent end. The
child lives no longer than the iterator is used, and not at all beyond the parent: it notices the closed
pipe. It opens nothing but the recording and touches nothing that it inherited.

Not promised: the form of a position. It goes through MessagePack, which knows no tuples.

For a program with one thread that replays a recording, such as ``watcher-sync-manage replay``: forking is
no good with threads about. An engine's own replay source reads in its thread.
"""

from __future__ import annotations

import fcntl
import io
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Final

import msgspec

from watcher_sync.events import Event
from watcher_sync.exceptions import WatcherSyncError

CHUNK: Final = 250
"""Events that go through the pipe at once."""

_LENGTH: Final = 4
"""Bytes that say how long the next chunk is; 0: that was all."""
_PIPE: Final = 1 << 20
_fork: Final = multiprocessing.get_context("fork")


class ReadingStopped(WatcherSyncError):
    """The process that reads ahead died before the end of the recording."""


def read_ahead(make: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """The events that ``make()`` gives, produced by a process that starts now.

    :param make: called in the child.
    :raises ReadingStopped: while iterating: the child ended without having said that it had finished.
    """
    receiver, sender = os.pipe()
    _widen(sender)
    child = _fork.Process(target=_send, args=(make, receiver, sender), name="read-ahead", daemon=True)
    child.start()
    os.close(sender)
    return _receive(receiver, child)


def _widen(pipe: int) -> None:
    """Have the pipe hold a chunk or two, where the system lets us; a narrow one only makes more turns."""
    try:
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, _PIPE)
    except (AttributeError, OSError):
        return


def _receive(receiver: int, child: multiprocessing.process.BaseProcess) -> Iterator[Event]:
    decode = msgspec.msgpack.Decoder(list[Event]).decode
    try:
        with open(receiver, "rb") as pipe:
            while len(prefix := pipe.read(_LENGTH)) == _LENGTH:
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
    os.close(receiver)  # else our own end would keep the pipe open when the parent is gone
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent's to handle; we see it by the pipe
    encode = msgspec.msgpack.Encoder().encode
    events = make()
    try:
        with open(sender, "wb", buffering=0) as pipe:
            while chunk := list(islice(events, CHUNK)):
                body = encode(chunk)
                _write(pipe, len(body).to_bytes(_LENGTH))
                _write(pipe, body)
            _write(pipe, bytes(_LENGTH))
    except BrokenPipeError:
        return


def _write(pipe: io.FileIO, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[pipe.write(rest) or 0 :]
