# SPDX-License-Identifier: Apache-2.0
"""Reading a recording in a process of its own."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.sources.replay import PREFETCHED, ReadingStopped, read_ahead, read_events
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.testing.nova.recording import write_jsonl


def without_position(events: Iterator[Event]) -> list[Event]:
    return [msgspec.structs.replace(event, position=None) for event in events]


def endless() -> Iterator[Event]:
    return (Event(id=str(n), type="t", source="s", data=b"x" * 1000) for n in itertools.count())


def readers() -> list[multiprocessing.Process]:
    """The children that read; a test before may have left another child."""
    return [child for child in multiprocessing.active_children() if child.name == "read-ahead"]


def test_the_events_are_the_same_as_when_they_are_read_here(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_jsonl(path, CloudSimulator(seed=1, hosts=5, instances=50).history(3 * PREFETCHED + 7))
    with path.open("ab") as file:
        file.write(b'{"event_type": "x"}\n\xff\n')

    def make() -> Iterator[Event]:
        return read_events([str(path)], "nova")

    read = without_position(read_ahead(make))
    assert read == without_position(make())
    assert len(read) == 3 * PREFETCHED + 9
    assert read[-1].undecodable is not None
    assert readers() == []


def test_nothing_to_read_ends_at_once() -> None:
    assert list(read_ahead(lambda: iter(()))) == []


def test_a_child_that_is_killed_is_no_silent_end() -> None:
    events = read_ahead(endless)
    next(events)
    (child,) = readers()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    with pytest.raises(ReadingStopped, match="exit status -9"):
        for _ in events:
            pass


def test_an_error_while_reading_is_no_silent_end(capfd: pytest.CaptureFixture[str]) -> None:
    def broken() -> Iterator[Event]:
        yield from itertools.islice(endless(), PREFETCHED)
        raise ValueError("a broken reader")

    with pytest.raises(ReadingStopped, match="exit status 1"):
        list(read_ahead(broken))
    assert "a broken reader" in capfd.readouterr().err


def test_a_child_ends_when_its_reader_is_gone() -> None:
    events = read_ahead(endless)
    next(events)
    (child,) = readers()
    del events
    child.join(deadline(60))
    assert child.exitcode == 0
