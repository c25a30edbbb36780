# SPDX-License-Identifier: Apache-2.0
"""The driver ``replay``: recorded events from files. It reads files and folders in order and ends by itself.

A folder is read sorted by name, with subfolders. Of a folder only ``*.json`` (one envelope, or a list of them) and
``*.jsonl`` (one envelope a line) count.

Guaranteed: the same files give the same events with the same ids in the same order. A ``.jsonl`` is streamed; a
``.json`` is loaded whole. A document that cannot be decoded is an undecodable event, whose reason begins with file and
line.

Not promised: a position that survives a restart. A replay starts at the beginning; the ordering guard makes that
harmless. :func:`read_events` reads without a thread, and :func:`read_ahead` on the other core.
"""

from __future__ import annotations

import datetime
import fcntl
import io
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import CLOUD_EVENTS, KUBERNETES_WATCH, OSLO, Event, portions
from watcher_sync.exceptions import ConfigError, WatcherSyncError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.wire import envelopes
from watcher_sync.wire.json import MAX_SIZE

LOG = logging.getLogger(__name__)

CHUNK: Final = 500
"""Events that are emitted in one call."""

_BLOCK: Final = 1 << 18
_LINES: Final = (".jsonl", ".ndjson")
_RAWS: Final = msgspec.json.Decoder(list[msgspec.Raw])


def find_files(paths: Sequence[str]) -> list[str]:
    """The files that a replay of these paths reads, in reading order.

    :raises ConfigError: naming a path that does not exist, cannot be read or is of no known form.
    """
    files: list[str] = []
    for path in paths:
        if os.path.isdir(path):
            files += _files_below(path)
        elif not os.path.exists(path):
            raise ConfigError(f"{path}: no such file or folder")
        elif not path.endswith((".json", *_LINES)):
            raise ConfigError(f"{path}: neither .json nor .jsonl")
        else:
            files.append(path)
    for file in files:
        if not os.access(file, os.R_OK):
            raise ConfigError(f"{file}: cannot be read")
    return files


def read_events(paths: Sequence[str], source_name: str, max_event_size: int = MAX_SIZE) -> Iterator[Event]:
    """Every event of these files and folders, in order; the paths are checked before the first one.

    :param paths: files and folders.
    :param source_name: the source of the events.
    :param max_event_size: bytes that one document may have; a larger one is undecodable.
    :raises ConfigError: naming a path that does not exist, cannot be read or is of no known form.
    """
    return _read_files(find_files(paths), source_name, max_event_size)


def _files_below(folder: str) -> Iterator[str]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError as exc:
        raise ConfigError(f"{folder}: {exc.strerror}") from None
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _files_below(entry.path)
        elif entry.name.endswith((".json", *_LINES)) and entry.is_file():
            yield entry.path


def _read_files(files: Sequence[str], source: str, max_size: int) -> Iterator[Event]:
    number = 0
    for path in files:
        line = 0
        try:
            documents = _lines(path, max_size) if path.endswith(_LINES) else _documents(path)
            for line, body in documents:
                number += 1
                event = envelopes.read_body(
                    body, source=source, number=number, position=(path, line), max_size=max_size
                )
                if event.undecodable is not None:
                    event = msgspec.structs.replace(event, undecodable=f"{path}:{line}: {event.undecodable}")
                yield event
        except OSError as exc:
            number += 1
            yield envelopes.undecodable(
                b"", f"{path}:{line + 1}: {exc.strerror}", source=source, number=number, position=(path, line + 1)
            )


def _lines(path: str, max_size: int) -> Iterator[tuple[int, bytes]]:
    """The lines that are not blank, numbered from 1.

    A line that is too long is cut after ``max_size`` bytes and one block, so that memory is bounded.
    """
    line, rest, cut = 1, b"", False
    with open(path, "rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            *whole, rest = (rest + block).split(b"\n")
            for body in whole:
                if not cut and body and not body.isspace():
                    yield line, body.rstrip(b"\r")
                line += 1
                cut = False
            if len(rest) > max_size + 1 or cut:
                if not cut:
                    yield line, rest
                rest, cut = b"", True
    if rest and not rest.isspace():
        yield line, rest.rstrip(b"\r")


def _documents(path: str) -> Iterator[tuple[int, bytes]]:
    """The one envelope of the file, or those of its list; the number is that of the line it begins in."""
    with open(path, "rb") as file:
        text = file.read()
    if not text.lstrip().startswith(b"["):
        yield 1, text.strip()
        return
    try:
        raws = _RAWS.decode(text)
    except UNDECODABLE:
        yield 1, text
        return
    line, offset = 1, 0
    for raw in raws:
        body = bytes(raw)
        begin = text.index(body, offset)
        line += text.count(b"\n", offset, begin)
        yield line, body
        line += body.count(b"\n")
        offset = begin + len(body)


class ReplaySource(Source):
    """The driver ``replay``.

    :ivar finished: set when all is emitted, or when the source was stopped before that.
    """

    envelopes: ClassVar[Collection[str]] = (OSLO, CLOUD_EVENTS, KUBERNETES_WATCH)
    event_types: ClassVar[Collection[str]] = ("*",)
    options = [  # noqa: RUF012 - the base class declares it a ClassVar
        cfg.MultiStrOpt(
            "paths",
            default=[],
            help="Files and folders that are read, in this order; may be given several times. A folder is read sorted"
            " by name, with the folders inside of it. Files end in .json (one envelope, or a list) or in .jsonl"
            " (one envelope a line).",
        ),
        cfg.IntOpt(
            "max_event_size",
            default=MAX_SIZE,
            min=1024,
            advanced=True,
            help="Bytes that one event may have. A larger one goes to quarantine.",
        ),
    ]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        super().__init__(name, conf, cursor=cursor)
        self.finished = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self._state = SourceState.STARTING
        self._detail = ""
        self._last_event_at: datetime.datetime | None = None
        self._nacked_lock = threading.Lock()
        self._nacked: list[Event] = []  # guarded by _nacked_lock: to be emitted once more

    def start(self, emit: Emit) -> None:
        """Begin to read.

        :raises ConfigError: naming a path that does not exist, cannot be read or is of no known form.
        """
        if not self.group.paths:
            raise ConfigError(f"[source_{self.name}] paths: nothing to read")
        try:
            events = read_events(self.group.paths, self.name, self.group.max_event_size)
        except ConfigError as exc:
            raise ConfigError(f"[source_{self.name}] paths: {exc}") from None
        self._state = SourceState.CONNECTED
        self._thread = threading.Thread(target=self._run, args=(events, emit), name=f"source-{self.name}", daemon=True)
        self._thread.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Nothing to do: a file has no acknowledgements."""

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Emit them once more after the rest, if the thread still runs; otherwise the next replay does."""
        with self._nacked_lock:
            self._nacked += events

    def stop(self, deadline: float) -> None:
        """Read no further."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(max(0.0, deadline - time.monotonic()))

    def status(self) -> SourceStatus:
        """The figures of this moment."""
        return SourceStatus(state=self._state, detail=self._detail, last_event_at=self._last_event_at)

    def _run(self, events: Iterator[Event], emit: Emit) -> None:
        detail = "all is read"
        state = SourceState.STOPPED
        try:
            chunks = portions(events, CHUNK)
            while chunk := next(chunks, None) or self._take_nacked():
                if self._stopping.is_set():
                    detail = "stopped before the end"
                    break
                emit(chunk)
                self._last_event_at = datetime.datetime.now(datetime.UTC)
        except IntakeClosed:
            detail = "stopped before the end"
        except Exception as exc:  # the edge of the thread: reported, not swallowed
            LOG.exception("source %s: the replay failed", self.name)
            state, detail = SourceState.FAILED, f"{type(exc).__name__}: {exc}"
        finally:
            self._state, self._detail = state, detail
            self.finished.set()

    def _take_nacked(self) -> list[Event]:
        with self._nacked_lock:
            nacked, self._nacked = self._nacked, []
        return nacked


PREFETCHED: Final = 250
"""Events that go through the pipe at once."""

_LENGTH_BYTES: Final = 4
"""Bytes of the length before each chunk; the length 0 is the end."""
_PIPE_BYTES: Final = 1 << 20
_fork: Final = multiprocessing.get_context("fork")


class ReadingStopped(WatcherSyncError):
    """The child ended before the end of the recording."""


def read_ahead(make: Callable[[], Iterator[Event]]) -> Iterator[Event]:
    """The events of ``make()``, which a child process reads and decodes; the child starts now.

    Decoding is a third of what an event costs. The forked child sends the events in chunks through a pipe. The caller
    takes them while it is busy with the model and the database. The full pipe is the back-pressure.

    Guaranteed: the same events in the same order as without the child, or an exception; never a silent end. The child
    ends with the iterator, and with the caller, because it notices the closed pipe. It uses nothing that it inherited.

    Not promised: the type of a position. MessagePack has no tuples.

    For a program with one thread, such as ``watcher-sync-manage replay``, because a fork copies one thread only.

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
            for chunk in portions(events, PREFETCHED):
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
