# SPDX-License-Identifier: Apache-2.0
"""Remembers in a file which events were with the handlers, so that the next process knows what ended this one.

A handler that ends the process does so again when the transport repeats the event. So the dispatch marks the events of
each batch before it calls a handler. A mark that a process finds at its start names *suspects*.

* A batch with a suspect is marked event by event, so the next end of the process names one event.
* An event that was alone in hand at ``[engine] max_deliveries`` ends is quarantined, and no handler gets it.
* A suspect is one no longer when it is committed.

For the engine's thread; any thread may read. The figures: decision record ``fatal-events``.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib.metadata
import os
import struct
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import quote

import msgspec
from oslo_log import log as logging

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import NATIVE, Event

LOG = logging.getLogger(__name__)

Key = tuple[str, str]
"""(source, id) of an event. Of an event of the driver ``kubernetes`` only what is the same at its next delivery."""
Marked = tuple[str, str, str, str]
"""(source, type, id, envelope) of an event in hand."""

_HEADER: Final = struct.Struct("<II")
"""Bytes of the state and of the mark, which follow it."""
_EXPECTED_SECONDS: Final = 600.0
"""Within this time a transport delivers again what was in hand. Afterwards no suspect is expected any more."""
_MAX_REFUSED: Final = 1000
_OF_OBJECTS: Final = frozenset({"added", "modified", "deleted", "absent"})
"""How the types of the events end that the driver ``kubernetes`` makes for an object."""
_SHOWN: Final = 128
"""Characters of an id in the log."""


class _FileState(msgspec.Struct, array_like=True):
    """What the file has beside the mark."""

    leads: bool = False
    """Whether a process leads, or ended without a stop."""
    unclean_ends: int = 0
    ends: list[tuple[str, str, int]] = []
    """(source, id, ends) of each suspect."""
    refused: list[tuple[str, str, int]] = []
    """(source, id, ends) of the last events that reached the limit."""
    software: str = ""
    """With which they did."""


class DeliveryLimit(Protocol):
    """``[engine]`` itself serves: a reload of its value then counts."""

    @property
    def max_deliveries(self) -> int:
        """Ends of the process after which an event that was alone in hand at each is quarantined."""


def installed_software() -> str:
    """A digest of the interpreter and the installed distributions and their versions; any of them may end a process."""
    found = set()
    for each in importlib.metadata.distributions():
        with contextlib.suppress(OSError, ValueError):  # of another package, whose metadata cannot be read
            found.add(f"{each.name} {each.version}")
    return hashlib.sha256("\n".join((sys.version, *sorted(found))).encode()).hexdigest()


class Suspects:
    """The suspects of one engine group on this machine.

    :param path: of the file; None: nothing is remembered, as in processes that are no engine.
    :param software: returns what is installed; refused events are retried with something else.
    """

    def __init__(
        self,
        path: Path | None,
        limit: DeliveryLimit,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        software: Callable[[], str] = installed_software,
    ) -> None:
        self.unclean_ends = 0
        """How often a process of this group ended without a stop while it led."""
        self.ends: dict[Key, int] = {}
        """Suspect -> at how many ends it was in hand alone; 0: in a batch of several events only."""
        self._path = path
        self._limit = limit
        self._monotonic = monotonic
        self._forget_at = 0.0
        self._refused: dict[Key, int] = {}
        """Event that reached the limit -> its ends. A watch brings it again after each start."""
        self._software = software() if path is not None else ""
        self._file: int | None = None
        self._is_failing = False
        self._state = b""

    def open(self) -> None:
        """Read what the last process left, and mark that this one leads. Without a usable file a warning is logged."""
        if self._path is None:
            return
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
            # No child inherits a record lock, and one of a plugin may outlive this process. The lock would end with the
            # first descriptor of the file that this process closes: only the master opens it for the log.
            fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            state, mark = _read(self._file)
        except OSError as exc:
            is_taken = isinstance(exc, BlockingIOError)
            self._fail("another engine of the group on this machine uses it" if is_taken else exc)
            self._release()
            return
        except (*UNDECODABLE, struct.error) as exc:
            self._fail(f"it has something else: {exc}")
            state, mark = _FileState(), []
        self.unclean_ends = state.unclean_ends + state.leads
        self.ends = {(source, name): ends for source, name, ends in state.ends}
        if state.refused and state.software != self._software:
            LOG.info("The installed software has changed: refused events are retried: %d", len(state.refused))
            state.refused = []
        self._refused = {(source, name): ends for source, name, ends in state.refused}
        for marked in mark:
            self.ends[_key(*marked)] = self._ends_of(marked) + (len(mark) == 1)
        self._forget_at = self._monotonic() + _EXPECTED_SECONDS
        self._store(leads=True)
        if state.leads:
            LOG.warning(
                "The last process of this engine group ended without a stop; in hand: %s; retrying event by event",
                described(mark),
            )

    def close(self) -> None:
        """Mark that this process no longer leads. Not called when it ends in another way."""
        if self._file is not None:
            self._store(leads=False)
            self._release()

    def begin(self, events: Sequence[Event]) -> bool:
        """Mark these events as in hand.

        :returns: whether there is a suspect among them: then :meth:`take` is to be called with each.
        """
        if self._file is None:
            return False
        if (self.ends or self._refused) and self._has_suspect(events):
            return True
        mark = msgspec.msgpack.encode([(event.source, event.type, event.id, event.envelope) for event in events])
        try:
            os.pwrite(self._file, _HEADER.pack(len(self._state), len(mark)) + self._state + mark, 0)
        except OSError as exc:
            self._fail(exc)
        return False

    def take(self, event: Event) -> str | None:
        """Mark this event alone as in hand.

        :returns: why no handler may get it; None if one may.
        """
        marked = (event.source, event.type, event.id, event.envelope)
        ends = self._ends_of(marked)
        if ends >= self._limit.max_deliveries:
            return f"ends of the engine's process with this event alone in hand: {ends}"
        self._write(msgspec.msgpack.encode([marked]))
        return None

    def end(self) -> None:
        """Mark that no event is in hand."""
        if self._file is not None:
            try:
                os.pwrite(self._file, _HEADER.pack(len(self._state), 0), 0)
            except OSError as exc:
                self._fail(exc)

    def passed(self, events: Iterable[Event]) -> None:
        """These events are committed: they are suspects no longer."""
        before = len(self.ends)
        for event in events:
            marked = (event.source, event.type, event.id, event.envelope)
            ends = self.ends.pop(_key(*marked), 0)
            if ends >= self._limit.max_deliveries:
                LOG.error(
                    "source %s: the event %r of type %s is in quarantine: it alone was in hand at %d ends",
                    event.source, event.id[:_SHOWN], event.type, ends,
                )  # fmt: skip
                self._refused[_key(*marked, exact=True)] = ends
                while len(self._refused) > _MAX_REFUSED:
                    del self._refused[next(iter(self._refused))]
        if len(self.ends) != before:
            self._store(leads=True)
            if not self.ends:
                LOG.info("All events that were in hand when the last process ended are committed")

    @property
    def problem(self) -> str:
        """Which suspects the engine has not committed again; empty if there are none."""
        ends = dict(self.ends)
        if not ends or self._monotonic() >= self._forget_at:
            return ""
        (source, name), count = max(ends.items(), key=lambda item: item[1])
        return (
            f"events that were in hand when the process ended are not committed yet: {len(ends)}, such as "
            f"{name[:_SHOWN]!r} of source {source}, alone in hand at {count} ends"
        )

    def _has_suspect(self, events: Sequence[Event]) -> bool:
        if self.ends and self._monotonic() >= self._forget_at:
            self.ends.clear()
            self._store(leads=True)
        ends, refused = self.ends, self._refused
        return any(
            _key(e.source, e.type, e.id, e.envelope) in ends
            or _key(e.source, e.type, e.id, e.envelope, exact=True) in refused
            for e in events
        )

    def _ends_of(self, marked: Marked) -> int:
        """At how many ends an event was in hand alone."""
        return max(self.ends.get(_key(*marked), 0), self._refused.get(_key(*marked, exact=True), 0))

    def _store(self, *, leads: bool) -> None:
        """Write the state with an empty mark."""
        ends = [(*key, count) for key, count in self.ends.items()]
        refused = [(*key, count) for key, count in self._refused.items()]
        self._state = msgspec.msgpack.encode(_FileState(leads, self.unclean_ends, ends, refused, self._software))
        self._write(b"")

    def _write(self, mark: bytes) -> None:
        if self._file is not None:
            try:
                os.pwrite(self._file, _HEADER.pack(len(self._state), len(mark)) + self._state + mark, 0)
            except OSError as exc:
                self._fail(exc)

    def _fail(self, why: OSError | str) -> None:
        """Log the first failure only: a full disk fails at each batch."""
        if not self._is_failing:
            self._is_failing = True
            why = (why.strerror or str(why)) if isinstance(why, OSError) else why
            LOG.warning("%s: unusable, so an event that ends this process is not found: %s", self._path, why)

    def _release(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None


def path_of(state_path: str, group: str) -> Path:
    """The file of an engine group."""
    return Path(state_path, f"in-hand-{quote(group, safe='')}")


def in_hand(path: Path) -> str:
    """What was in hand when the process ended that led last; for another process, and the log."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return described(_read(file)[1])
        finally:
            os.close(file)
    except (OSError, *UNDECODABLE, struct.error):
        return "unknown"


def described(mark: Sequence[Marked]) -> str:
    """Marked events for the log."""
    if not mark:
        return "no event"
    source, event_type, name, _ = mark[0]
    more = f" and {len(mark) - 1} more" if len(mark) > 1 else ""
    return f"source {source}: {name[:_SHOWN]!r} of type {event_type[:_SHOWN]!r}{more}"


def _key(source: str, event_type: str, name: str, envelope: str, *, exact: bool = False) -> Key:
    """What recognises an event at its next delivery.

    The driver ``kubernetes`` gives an object the id ``uid/version``. Other ids end with a number that differs after a
    start: ``Pod/namespace/number`` is a listing, ``cluster/number`` the state of a cluster.

    :param exact: a newer version of an object is another event.
    """
    if envelope != NATIVE or not event_type.startswith("kubernetes."):
        return source, name
    stem = name.rpartition("/")[0] or name
    if event_type.rpartition(".")[2] in _OF_OBJECTS:
        return source, name if exact else stem
    return source, f"{event_type} {stem}"


def _read(file: int) -> tuple[_FileState, list[Marked]]:
    """:raises OSError, UNDECODABLE, struct.error: the file cannot be read, or has something else."""
    data = os.pread(file, os.fstat(file).st_size, 0)
    if not data:
        return _FileState(), []
    state, mark = _HEADER.unpack_from(data)
    body = memoryview(data)[_HEADER.size :]
    return (
        msgspec.msgpack.decode(body[:state], type=_FileState),
        msgspec.msgpack.decode(body[state : state + mark], type=list[Marked]) if mark else [],
    )
