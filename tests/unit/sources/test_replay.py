# SPDX-License-Identifier: Apache-2.0
"""Recorded events come in order, once each, numbered the same every time; a bad one is named by file and line."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.sources.base import IntakeClosed, SourceState
from watcher_sync.sources.replay import ReplaySource, read_events


def envelope(name: str, **more: Any) -> str:
    return json.dumps({"event_type": name, "publisher_id": "p", "payload": {"n": name}, **more})


def names(paths: Sequence[Path]) -> list[str]:
    return [event.type for event in read_events([str(path) for path in paths], "rec")]


def make_source(paths: Sequence[Path]) -> ReplaySource:
    conf = cfg.ConfigOpts()
    conf.register_opts(ReplaySource.options, group="source_rec")
    conf([], default_config_files=[])
    conf.set_override("paths", [str(path) for path in paths], group="source_rec")
    return ReplaySource("rec", conf)


def test_a_folder_is_read_sorted_by_name_with_the_folders_inside_of_it(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.json").write_text(envelope("three"))
    (tmp_path / "c.jsonl").write_text(envelope("four") + "\n\n  \r\n" + envelope("five"))
    (tmp_path / "a.json").write_text("\n[" + envelope("one") + ",\n" + envelope("two") + "]\n")
    (tmp_path / "readme.txt").write_text("not an event")
    assert names([tmp_path]) == ["one", "two", "three", "four", "five"]
    assert names([tmp_path / "c.jsonl", tmp_path / "a.json"]) == ["four", "five", "one", "two"]


def test_envelopes_without_an_id_are_numbered_in_reading_order_the_same_every_time(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join((envelope("a"), envelope("b", message_id="own"), "-", envelope("c"))))
    first = list(read_events([str(tmp_path)], "rec"))
    assert [event.id for event in first] == ["000000000001", "own", "000000000003", "000000000004"]
    assert [event.id for event in read_events([str(tmp_path)], "rec")] == [event.id for event in first]


def test_an_indented_file_is_one_envelope(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(json.loads(envelope("a")), indent=4) + "\n")
    assert names([tmp_path]) == ["a"]


def test_a_bad_line_is_an_undecodable_event_that_names_file_and_line(tmp_path: Path) -> None:
    lines, listed, broken = tmp_path / "a.jsonl", tmp_path / "b.json", tmp_path / "c.json"
    lines.write_bytes(envelope("a").encode() + b'\n\n{"payload": NaN}\n\xff\n')
    listed.write_text("[\n" + envelope("b") + ',\n\n{"event_type": 1}]')
    broken.write_text("[{}, ")
    events = list(read_events([str(tmp_path)], "rec"))
    assert [event.undecodable for event in events] == [
        None,
        f"{lines}:3: payload is NaN, which is no finite number",
        f"{lines}:4: not UTF-8 at byte 0",
        None,
        f"{listed}:4: event_type is 1, not a name",
        f"{broken}:1: not JSON at byte 5: Expecting value",
    ]
    assert [event.position for event in events[:3]] == [(str(lines), 1), (str(lines), 3), (str(lines), 4)]
    assert events[2].data == b"\xff"


def test_a_line_that_is_too_long_is_undecodable_and_the_next_one_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text(envelope("a") + "\n" + envelope("b" * 5000) + "\n" + envelope("c") + "\n")
    events = list(read_events([str(file)], "rec", 1024))
    assert [event.undecodable is None for event in events] == [True, False, True]
    assert f"{file}:2: " in str(events[1].undecodable)
    assert events[2].type == "c"


@pytest.mark.parametrize("length", [1023, 1024])
@pytest.mark.parametrize("end", ["\n", ""])
def test_a_line_of_just_the_allowed_length_is_read(tmp_path: Path, length: int, end: str) -> None:
    file = tmp_path / "a.jsonl"
    line = envelope("a", pad="")
    line = envelope("a", pad="x" * (length - len(line)))
    file.write_text(line + end + (envelope("b") if end else ""))
    assert names([file]) == (["a", "b"] if end else ["a"])
    assert next(read_events([str(file)], "rec", 1024)).undecodable is None


def test_a_large_file_is_streamed(tmp_path: Path) -> None:
    pipe = tmp_path / "a.jsonl"
    os.mkfifo(pipe)

    def write() -> None:
        with open(pipe, "w") as file:
            file.write(envelope("a") + "\n" + " " * 20000 + "\n")
            file.flush()
            assert read.wait(deadline(60))
            file.write(envelope("b") + "\n")

    read = threading.Event()
    writer = threading.Thread(target=write)
    writer.start()
    events = read_events([str(pipe)], "rec")
    assert next(events).type == "a"
    read.set()
    assert next(events).type == "b"
    writer.join(deadline(60))


@pytest.mark.parametrize("name", ["absent.json", "absent", "some.txt"])
def test_a_path_that_cannot_be_read_is_refused_by_name_before_the_first_event(tmp_path: Path, name: str) -> None:
    (tmp_path / "some.txt").write_text("x")
    (tmp_path / "a.json").write_text(envelope("a"))
    with pytest.raises(ConfigError, match=name):
        read_events([str(tmp_path / "a.json"), str(tmp_path / name)], "rec")
    with pytest.raises(ConfigError, match=name):
        make_source([tmp_path / name]).start(lambda events: None)


def test_a_source_without_paths_is_refused_naming_the_option() -> None:
    with pytest.raises(ConfigError, match=r"\[source_rec\] paths"):
        make_source([]).start(lambda events: None)


def test_the_source_emits_all_in_order_and_ends_by_itself(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(envelope(f"e{n}") for n in range(1234)))
    chunks: list[list[str]] = []
    source = make_source([tmp_path])
    source.start(lambda events: chunks.append([event.type for event in events]))
    assert source.finished.wait(deadline(60))
    assert [len(chunk) for chunk in chunks] == [500, 500, 234]
    assert [name for chunk in chunks for name in chunk] == [f"e{n}" for n in range(1234)]
    assert source.status().state is SourceState.STOPPED
    source.stop(time.monotonic() + deadline(1))


def test_released_events_are_emitted_once_more_behind_the_rest(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(envelope(f"e{n}") for n in range(600)))
    source = make_source([tmp_path])
    seen: list[str] = []

    def emit(events: Sequence[Event]) -> None:
        if not seen:
            source.nack(events[:1], 0)
        seen.extend(event.type for event in events)

    source.start(emit)
    assert source.finished.wait(deadline(60))
    assert seen == [*(f"e{n}" for n in range(600)), "e0"]


def closed(events: Sequence[Event]) -> None:
    raise IntakeClosed


def broken(events: Sequence[Event]) -> None:
    raise RuntimeError("no more")


@pytest.mark.parametrize(
    ("emit", "state"), [(closed, SourceState.STOPPED), (broken, SourceState.FAILED)], ids=["closed", "broken"]
)
def test_an_engine_that_takes_nothing_ends_the_source(
    tmp_path: Path, emit: Callable[[Sequence[Event]], None], state: SourceState
) -> None:
    (tmp_path / "a.json").write_text(envelope("a"))
    source = make_source([tmp_path])
    source.start(emit)
    assert source.finished.wait(deadline(60))
    assert source.status().state is state


def test_a_stop_ends_the_reading_before_the_end(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(envelope(f"e{n}") for n in range(1500)))
    source = make_source([tmp_path])
    emitted, go_on = threading.Event(), threading.Event()
    seen: list[int] = []

    def emit(events: Sequence[Event]) -> None:
        seen.append(len(events))
        emitted.set()
        assert go_on.wait(deadline(60))

    source.start(emit)
    assert emitted.wait(deadline(60))
    stopper = threading.Thread(target=source.stop, args=(time.monotonic() + deadline(60),))
    stopper.start()
    wait_until(source._stopping.is_set)
    go_on.set()
    stopper.join(deadline(60))
    assert source.finished.is_set()
    assert seen == [500]
