# SPDX-License-Identifier: Apache-2.0
"""The file of the events in hand: what the next process learns from it, and what it does when it is unusable."""

from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import msgspec
import pytest

from tests.waiting import deadline
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.commit.suspects import Suspects, in_hand, installed_software, path_of
from watcher_sync.events import CLOUD_EVENTS, NATIVE, Event

Make = Callable[..., Suspects]


def event(name: str, event_type: str = "test", envelope: str = NATIVE) -> Event:
    return Event(id=name, type=event_type, source="nova", envelope=envelope)


def events(*names: str) -> list[Event]:
    return [event(name) for name in names]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> Callable[[], str]:
    caplog.set_level(logging.INFO)
    return lambda: caplog.text


@pytest.fixture
def make(tmp_path: Path, clock: Clock) -> Iterable[Make]:
    """A process of the group, which leads. One that is made before it has ended without a stop."""
    made: list[Suspects] = []

    def make(path: Path | None = None, limit: int = 3, software: str = "1.0") -> Suspects:
        for one in made:
            one._release()  # as the end of a process does
        limits = CommitLimits(max_deliveries=limit)
        suspects = Suspects(
            path or path_of(str(tmp_path), "default"), limits, monotonic=clock, software=lambda: software
        )
        suspects.open()
        made.append(suspects)
        return suspects

    yield make
    for one in made:
        one._release()


def test_an_end_between_batches_makes_no_suspect_and_is_counted(make: Make) -> None:
    first = make()
    first.begin(events("a"))
    first.end()
    second = make()
    assert (second.unclean_ends, second.ends, second.problem) == (1, {}, "")


def test_a_stop_is_no_unclean_end(make: Make) -> None:
    make().close()
    assert make().unclean_ends == 0


def test_the_events_of_the_last_batch_are_suspects_and_are_marked_one_by_one(make: Make, tmp_path: Path) -> None:
    assert make().begin(events("a", "b", "c")) is False
    second = make()
    assert second.ends == {("nova", name): 0 for name in "abc"}
    assert "not committed yet: 3, such as" in second.problem
    assert second.begin(events("x", "b")) is True
    assert second.take(event("b")) is None
    assert in_hand(path_of(str(tmp_path), "default")) == "source nova: 'b' of type 'test'"
    third = make()
    assert third.ends == {("nova", "a"): 0, ("nova", "b"): 1, ("nova", "c"): 0}
    assert third.unclean_ends == 2


def test_a_batch_without_a_suspect_is_marked_as_a_whole(make: Make) -> None:
    make().begin(events("a"))
    assert make().begin(events("x", "y")) is False
    assert make().ends == {("nova", "a"): 1, ("nova", "x"): 0, ("nova", "y"): 0}


def test_one_end_with_a_batch_in_hand_refuses_no_event_of_it(make: Make) -> None:
    make(limit=1).begin(events("a", "b"))
    suspects = make(limit=1)
    assert suspects.begin(events("a", "b"))
    assert [suspects.take(event(name)) for name in "ab"] == [None, None]
    suspects = make(limit=1)
    assert suspects.begin(events("a", "b"))
    assert suspects.take(event("a")) is None
    assert suspects.take(event("b")) == "ends of the engine's process with this event alone in hand: 1"


def test_an_event_at_the_limit_gets_no_handler_until_it_is_committed(make: Make, log: Callable[[], str]) -> None:
    make().begin(events("a"))
    for _ in range(2):
        suspects = make()
        assert suspects.begin(events("a"))
        assert suspects.take(event("a")) is None
    suspects = make()
    for _ in range(2):  # the commit failed once
        assert suspects.begin(events("a"))
        assert suspects.take(event("a")) == "ends of the engine's process with this event alone in hand: 3"
        suspects.end()
    suspects.passed(events("a"))
    assert suspects.problem == ""
    assert "source nova: the event 'a' of type test is in quarantine" in log()


def test_an_event_that_was_refused_is_refused_again_when_its_transport_repeats_it(make: Make) -> None:
    make().begin([event("uid/7", "kubernetes.pod.added")])
    for number in (8, 9):
        assert make().begin([event(f"uid/{number}", "kubernetes.pod.added")])
        suspects = make()
        suspects.begin(events())
    listed = event("uid/9", "kubernetes.pod.added")
    while suspects.take(listed) is None:
        suspects = make()
    suspects.passed([listed])
    suspects.close()
    suspects = make()
    assert suspects.begin([listed])
    assert suspects.take(listed) is not None
    assert suspects.take(event("uid/10", "kubernetes.pod.modified")) is None


@pytest.fixture
def refused(make: Make) -> Event:
    """An event that ended three processes, and is in quarantine."""
    event_ = event("uid/7", "kubernetes.pod.added")
    make().begin([event_])
    suspects = make()
    while suspects.begin([event_]) and suspects.take(event_) is None:
        suspects = make()
    suspects.passed([event_])
    suspects.close()
    return event_


def test_a_refused_event_is_retried_when_the_installed_software_has_changed(
    make: Make, refused: Event, log: Callable[[], str]
) -> None:
    suspects = make()
    assert suspects.begin([refused])
    assert suspects.take(refused) is not None
    suspects.close()
    for _ in range(2):
        suspects = make(software="1.1")
        assert suspects.begin([refused]) is False
        suspects.end()
        suspects.close()
    assert log().count("The installed software has changed: refused events are retried: 1") == 1


def test_a_refused_event_is_retried_up_to_a_higher_limit(make: Make, refused: Event) -> None:
    for _ in range(2):
        suspects = make(limit=5)
        assert suspects.begin([refused])
        assert suspects.take(refused) is None
    suspects = make(limit=5)
    assert suspects.begin([refused])
    assert suspects.take(refused) == "ends of the engine's process with this event alone in hand: 5"
    suspects.passed([refused])
    suspects.close()
    assert make(limit=5).take(refused) is not None


def test_the_installed_software_is_each_distribution_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    found = [installed_software(), installed_software()]
    info, rotten = tmp_path / "plugin-1.0.dist-info", tmp_path / "rotten-1.0.dist-info"
    info.mkdir()
    rotten.mkdir()
    (rotten / "METADATA").write_bytes(b"\xff")
    for version in ("1.0", "1.1"):
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: plugin\nVersion: {version}\n")
        importlib.invalidate_caches()
        found.append(installed_software())
    assert len(set(found)) == 3


@pytest.mark.parametrize("change", ["added", "modified", "deleted", "absent"])
def test_a_newer_version_of_an_object_of_kubernetes_is_the_same_suspect(make: Make, change: str) -> None:
    make().begin([event("uid/7", f"kubernetes.pod.{change}")])
    suspects = make()
    assert suspects.begin([event("uid/8", "kubernetes.pod.added")])
    suspects.passed([event("uid/8", "kubernetes.pod.added")])
    assert suspects.ends == {}


LISTED: Final = event("Pod/default/5.7", "kubernetes.pod.listed")
SYNCED: Final = event("edge/5.8", "kubernetes.cluster.synced")
SENT: Final = event("publisher/17", "kubernetes.pod.sent", CLOUD_EVENTS)
LISTED_AGAIN: Final = event("Pod/default/6.1", "kubernetes.pod.listed")
SYNCED_AGAIN: Final = event("edge/6.2", "kubernetes.cluster.synced")


@pytest.mark.parametrize(("first", "again"), [(LISTED, LISTED_AGAIN), (SYNCED, SYNCED_AGAIN), (SENT, SENT)])
@pytest.mark.parametrize(
    "other",
    [
        event("Pod/other/6.1", "kubernetes.pod.listed"),
        event("Node//6.1", "kubernetes.node.listed"),
        event("Pod/default/6.1", "kubernetes.pod.undecodable"),
        event("edge/6.1", "kubernetes.cluster.connected"),
        event("publisher/18", "kubernetes.pod.sent", CLOUD_EVENTS),
    ],
)
def test_what_a_driver_numbers_at_each_start_is_recognised_and_nothing_else_is(
    make: Make, first: Event, again: Event, other: Event
) -> None:
    make().begin([first])
    suspects = make()
    assert suspects.begin([other]) is False
    suspects.end()
    suspects.passed([other])
    assert suspects.begin([again]) is True
    suspects.passed([again])
    assert suspects.ends == {}


@pytest.mark.parametrize(("first", "again"), [(LISTED, LISTED_AGAIN), (SYNCED, SYNCED_AGAIN)])
def test_a_refused_event_that_its_driver_numbers_again_is_refused(make: Make, first: Event, again: Event) -> None:
    make().begin([first])
    suspects = make()
    while suspects.begin([first]) and suspects.take(first) is None:
        suspects = make()
    suspects.passed([first])
    suspects.close()
    suspects = make()
    assert suspects.begin([again]) is True
    assert suspects.take(again) is not None


def test_a_suspect_that_is_committed_is_forgotten_also_by_the_next_process(make: Make, log: Callable[[], str]) -> None:
    make().begin(events("a", "b"))
    suspects = make()
    suspects.passed(events("a"))
    assert make().ends == {("nova", "b"): 0}
    suspects = make()
    suspects.passed(events("b"))
    assert make().ends == {}
    assert log().count("All events that were in hand when the last process ended are committed") == 1


def test_a_suspect_that_never_returns_is_not_expected_for_longer_than_ten_minutes(make: Make, clock: Clock) -> None:
    make().begin(events("a"))
    suspects = make()
    clock.now += 599
    assert suspects.problem
    clock.now += 1
    assert suspects.problem == ""
    assert suspects.begin(events("b")) is False
    suspects.end()
    assert make().ends == {}


def test_a_file_with_something_else_is_a_warning_and_is_replaced(
    make: Make, tmp_path: Path, log: Callable[[], str]
) -> None:
    path = path_of(str(tmp_path), "default")
    make().begin(events("name"))
    damaged = path.read_bytes().replace(b"name", b"n\xffme")
    for garbage in (b"x", b"\xff" * 4096, msgspec.msgpack.encode({"a": 1}), damaged):
        path.write_bytes(garbage)
        assert in_hand(path) == "unknown"
        assert make().ends == {}
    assert log().count("unusable, so an event that ends this process is not found: it has something else") == 4
    make().begin(events("a"))
    assert make().ends == {("nova", "a"): 1}


@pytest.mark.parametrize("path", [Path("/dev/full"), Path("/no/such/folder/file"), Path("/proc/version")])
def test_a_file_that_cannot_be_written_is_one_warning_and_no_stop(
    make: Make, path: Path, log: Callable[[], str]
) -> None:
    suspects = make(path)
    for _ in range(3):
        assert suspects.begin(events("a")) is False
        suspects.end()
    suspects.close()
    assert log().count("unusable, so an event that ends this process is not found") == 1


ENGINE = """
import os, pathlib, signal, sys
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.commit.suspects import Suspects
from watcher_sync.events import Event

suspects = Suspects(pathlib.Path(sys.argv[1]), CommitLimits())
suspects.open()
suspects.begin([Event(id="a", type="test", source="nova")])
if os.fork() == 0:  # it outlives the engine, as a process of a plugin may
    sys.stdin.read()
    os._exit(0)
print("open", flush=True)
signal.pause()
"""


@pytest.fixture
def engine(tmp_path: Path) -> Iterable[subprocess.Popen[str]]:
    """A process of the group, which leads, has one event in hand, and has a child."""
    command = [sys.executable, "-c", ENGINE, str(path_of(str(tmp_path), "default"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "open\n"
            yield process
        finally:
            process.kill()


def test_two_engines_of_one_machine_do_not_share_the_file(
    engine: subprocess.Popen[str], tmp_path: Path, log: Callable[[], str]
) -> None:
    second = Suspects(path_of(str(tmp_path), "default"), CommitLimits())
    other = Suspects(path_of(str(tmp_path), "edge/1"), CommitLimits())
    for one in (second, other):
        one.open()
    assert log().count("another engine of the group on this machine uses it") == 1
    second.begin(events("b"))
    second.close()
    other.begin(events("c"))
    other.close()
    assert in_hand(path_of(str(tmp_path), "default")) == "source nova: 'a' of type 'test'"


def test_a_child_that_outlives_the_engine_does_not_hold_the_file(
    engine: subprocess.Popen[str], make: Make, log: Callable[[], str]
) -> None:
    engine.kill()
    engine.wait(deadline(30))
    assert make().ends == {("nova", "a"): 1}
    assert "another engine" not in log()


def test_a_process_that_is_no_engine_remembers_nothing(tmp_path: Path) -> None:
    suspects = Suspects(None, CommitLimits())
    suspects.open()
    assert suspects.begin(events("a")) is False
    suspects.end()
    suspects.close()
