# SPDX-License-Identifier: Apache-2.0
"""A driver in a process of its own is a source like any other, and its process ends when it has to."""

from __future__ import annotations

import functools
import gc
import logging
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest
from oslo_config import cfg

from tests.unit.sources.drivers import TIME, Talkative, event_of
from tests.waiting import deadline, wait_until
from watcher_sync.conf import engine as engine_options
from watcher_sync.events import Event
from watcher_sync.sources.base import IntakeClosed, SourceState
from watcher_sync.sources.subprocess import protocol
from watcher_sync.sources.subprocess import source as subprocess_source
from watcher_sync.sources.subprocess.source import SubprocessSource

pytestmark = pytest.mark.slow

Host = Callable[..., SubprocessSource]


class Taking:
    """An engine's intake, which stores what it gets."""

    def __init__(self) -> None:
        self.lots: list[list[Event]] = []
        self.closed = False

    def emit(self, events: Sequence[Event]) -> None:
        if self.closed:
            raise IntakeClosed
        self.lots.append(list(events))

    @property
    def events(self) -> list[Event]:
        return [event for lot in self.lots for event in lot]


PYTHON = sys.executable
_SILENCE_SECONDS = protocol.SILENCE_SECONDS
_CHILD = (
    "from watcher_sync.sources.subprocess import __main__, protocol; protocol.SILENCE_SECONDS = {}; __main__.main()"
)


def have_patience(seconds: float, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Neither process takes the other one for frozen or dead within these seconds."""
    monkeypatch.setattr(protocol, "SILENCE_SECONDS", seconds)
    python = folder / "python"
    python.write_text(f'#!/bin/sh\nshift 3\nexec {PYTHON} -P -c "{_CHILD.format(seconds)}" "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that pauses for some seconds is no reason to kill a process, nor to miss its exit status."""
    have_patience(120.0, monkeypatch, tmp_path)
    monkeypatch.setattr(subprocess_source, "_STOP_MARGIN_SECONDS", 30.0)


@pytest.fixture
def diary(tmp_path: Path) -> Path:
    path = tmp_path / "diary"
    path.touch()
    return path


@pytest.fixture
def host(diary: Path) -> Iterator[Host]:
    made: list[SubprocessSource] = []

    def make(*, most: int = 100, cursor: str | None = None, **options: Any) -> SubprocessSource:
        conf = cfg.ConfigOpts()
        engine_options.register_opts(conf)
        conf.register_opts(Talkative.options, group="source_dcm")
        conf([], default_config_files=[], default_config_dirs=[])
        for name, value in {"diary": str(diary), **options}.items():
            conf.set_override(name, value, group="source_dcm")
        made.append(SubprocessSource(Talkative, "dcm", conf, cursor=cursor, most=most))
        return made[-1]

    yield make
    for source in made:
        source.stop(time.monotonic() + deadline(5))
        if source._process is not None:
            assert source._process.returncode is not None


def process_of(source: SubprocessSource) -> psutil.Process:
    assert source._process is not None
    return psutil.Process(source._process.pid)


def test_events_come_as_they_were_emitted_in_their_order(host: Host) -> None:
    taking = Taking()
    host().start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    assert [len(lot) for lot in taking.lots] == [4, 4, 2]
    expected = [event_of(number) for number in range(10)]
    for came, meant in zip(taking.events, expected, strict=True):
        fields = set(Event.__struct_fields__) - {"position"}
        assert {f: getattr(came, f) for f in fields} == {f: getattr(meant, f) for f in fields}
        assert type(came.data) is bytes
        assert type(came.sequence) is tuple


def test_the_driver_has_the_options_as_they_are(host: Host, diary: Path) -> None:
    source = host(secret="a$$b$$$$c")
    source.start(Taking().emit)
    wait_until(lambda: "secret" in diary.read_text())
    # oslo.config takes $$ for $, once.
    assert diary.read_text().startswith("secret a$b$$c 500 ")


def test_the_driver_collects_garbage_as_rarely_as_the_engine(
    host: Host, diary: Path, request: pytest.FixtureRequest
) -> None:
    request.addfinalizer(functools.partial(gc.set_threshold, *gc.get_threshold()))
    gc.set_threshold(50_001, 21, 51)
    host().start(Taking().emit)
    wait_until(lambda: " (50001, 21, 51)\n" in diary.read_text())


def test_acks_and_releases_reach_the_driver_whatever_their_order(host: Host, diary: Path) -> None:
    taking = Taking()
    source = host()
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    events = taking.events
    source.ack([])
    source.nack([events[9]], 1.5)
    source.ack(events[4:8])
    source.ack([events[0], events[1], events[3], events[2]])
    wait_until(lambda: len(diary.read_text().splitlines()) == 4)
    assert diary.read_text().splitlines()[1:] == [
        "released 1.5 e-9",
        "acked e-4 e-5 e-6 e-7",
        "acked e-0 e-1 e-3 e-2",
    ]


def test_a_position_is_that_of_the_lot_that_has_the_last_event(host: Host) -> None:
    taking = Taking()
    source = host(cursor="c", has_position=True)
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    events = taking.events
    assert source.cursor([]) is None
    # The lots are 0 to 3, 4 to 7, 8 and 9. A part of a lot has the position of the whole, which is never behind.
    found = [source.cursor(events[first:last]) for first, last in ((0, 2), (2, 4), (4, 9), (9, 10))]
    assert found == ["c e-3", "c e-3", "c e-9", "c e-9"]


def test_a_driver_without_a_position_has_none_here(host: Host) -> None:
    taking = Taking()
    source = host()
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    assert source.cursor(taking.events) is None


def test_a_driver_is_rewound_before_it_starts(host: Host, diary: Path) -> None:
    source = host(cursor="c")
    assert source.rewind_to_cursor()
    diary.write_text("")
    source.start(Taking().emit)
    wait_until(lambda: "secret" in diary.read_text())
    assert diary.read_text().startswith("rewound to c\nsecret ")


def test_a_driver_waits_while_there_is_enough_in_hand(host: Host) -> None:
    taking = Taking()
    source = host(most=6, count=100)
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 8)
    # A status comes by the same pipe as the events, so more of them would have come before it.
    wait_until(lambda: source.status().lag == 8)
    assert len(taking.events) == 8
    source.ack(taking.events[:2])
    wait_until(lambda: source.status().redelivered == 2)
    assert len(taking.events) == 8
    source.nack(taking.events[2:3], 0)
    wait_until(lambda: len(taking.events) == 12)


def test_its_status_is_the_drivers(host: Host) -> None:
    source = host()
    assert source.status().state is SourceState.STARTING
    source.start(Taking().emit)
    wait_until(lambda: source.status().lag == 10)
    status = source.status()
    assert (status.state, status.detail, status.last_event_at) == (SourceState.CONNECTED, "well", TIME)


def test_what_it_logs_is_logged_here(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    host().start(Taking().emit)
    wait_until(lambda: "talks" in caplog.text)
    (record,) = [record for record in caplog.records if record.name == "watcher_sync.tests.drivers"]
    assert record.levelno == logging.WARNING
    assert record.getMessage() == "dcm talks to nats://one,nats://two"


def test_it_is_reached_from_here(host: Host, diary: Path) -> None:
    host().probe()
    assert diary.read_text() == "reached\n"


def test_a_driver_that_cannot_start_has_failed_and_says_why(host: Host) -> None:
    source = host(fails="start")
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "RuntimeError: no such stream"


def test_a_driver_that_cannot_tell_its_status_has_failed(host: Host) -> None:
    source = host(fails="status")
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its status is unknown: RuntimeError: no idea"


def test_a_bug_in_a_driver_ends_its_process(host: Host) -> None:
    taking = Taking()
    source = host(fails="ack")
    source.start(taking.emit)
    wait_until(lambda: taking.events)
    source.ack(taking.events)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its process died, exit status 1"


def test_a_process_that_is_not_understood_has_failed_and_ends(host: Host) -> None:
    """As one of another release may be: packages are replaced under a running engine."""
    taking = Taking()
    source = host(fails="garbage")
    source.start(taking.emit)
    process = process_of(source)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail.startswith("its process sent an unknown message: ")
    wait_until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    assert len(taking.events) == 10


def test_a_process_that_ends_unasked_has_failed(host: Host) -> None:
    source = host(fails="end")
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its process died, exit status 0"


def test_a_process_that_is_killed_has_failed_and_nothing_raises(host: Host) -> None:
    taking = Taking()
    source = host()
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    process_of(source).kill()
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its process died, exit status -9"
    source.ack(taking.events)
    source.nack(taking.events, 1)


def test_signals_that_are_sent_to_all_do_not_end_it(host: Host, diary: Path) -> None:
    taking = Taking()
    source = host()
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        process_of(source).send_signal(number)
    source.ack(taking.events)
    wait_until(lambda: "acked" in diary.read_text())


def test_a_stop_lets_the_driver_finish(host: Host, diary: Path) -> None:
    taking = Taking()
    source = host(stops_when_settled=True)
    source.start(taking.emit)
    wait_until(lambda: len(taking.events) == 10)
    process = process_of(source)
    stopping = threading.Thread(target=source.stop, args=(time.monotonic() + deadline(60),))
    stopping.start()
    wait_until(lambda: "stopping" in diary.read_text())
    source.ack(taking.events)
    stopping.join(deadline(90))
    assert not stopping.is_alive()
    acked = "acked " + " ".join(f"e-{n}" for n in range(10))
    assert diary.read_text().splitlines()[1:] == ["stopping", acked, "stopped True"]
    assert source.status().state is SourceState.STOPPED
    assert not process.is_running()


def test_a_driver_that_does_not_stop_is_killed_at_the_deadline(host: Host, caplog: pytest.LogCaptureFixture) -> None:
    source = host(stops_when_settled=True)
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    began = time.monotonic()
    process = process_of(source)
    source.stop(began + 1)
    assert 0.9 < time.monotonic() - began < deadline(30)
    assert not process.is_running()
    assert "source dcm: stop timed out; the driver's process is killed" in caplog.text


def test_what_the_engine_does_not_take_any_more_is_given_back_at_the_stop(host: Host, diary: Path) -> None:
    taking = Taking()
    taking.closed = True
    source = host(most=6)
    source.start(taking.emit)
    wait_until(lambda: "closed" in diary.read_text())
    assert "released" not in diary.read_text()
    source.stop(time.monotonic() + deadline(60))
    released = [line for line in diary.read_text().splitlines() if line.startswith("released")]
    (refused,) = [line.removeprefix("closed e-") for line in diary.read_text().splitlines() if "closed" in line]
    assert released == ["released 0.0 " + " ".join(f"e-{n}" for n in range(int(refused)))]


def test_a_process_that_is_frozen_is_killed(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    source = host()
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    process_of(source).suspend()
    monkeypatch.setattr(protocol, "SILENCE_SECONDS", 2.0)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its process is silent"
    wait_until(lambda: not process_of_or_none(source))


def test_a_pause_of_the_machine_is_no_silence_of_the_process(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """The watching thread runs before the other one has read what waits."""
    source = host()
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    process_of(source).suspend()
    wait_until(lambda: process_of(source).status() == psutil.STATUS_STOPPED)
    pause = 10 * protocol.SILENCE_SECONDS
    resumed = types.SimpleNamespace(monotonic=lambda: time.monotonic() + pause)  # wait: a clock ahead of this one
    for module in (subprocess_source, protocol):
        monkeypatch.setattr(module, "time", resumed)
    time.sleep(2.5 * protocol.KEEPALIVE_SECONDS)
    assert source.status().state is SourceState.CONNECTED
    process_of(source).resume()
    wait_until(lambda: source._waiting_since > time.monotonic())
    assert source.status().state is SourceState.CONNECTED
    monkeypatch.undo()


def test_a_silence_counts_the_time_in_which_this_process_was_awake(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(protocol, "time", types.SimpleNamespace(monotonic=lambda: now))
    silence = protocol.Silence(1.0)
    found = []
    for seconds, heard_at in (
        (1, 100.0),
        (1, 100.0),
        (500, 100.0),  # a pause
        (1, 100.0),
        (1, float("inf")),  # a message is handled
        (1, 105.5),
        (1, 505.5),
        (1, 505.5),
        (300, 505.5),
    ):
        now += seconds
        found.append(silence.check(heard_at))
    assert found == [1, 2, 4, 5, 0, 1, 1, 2, 4]


@pytest.mark.rare
def test_a_process_that_starts_slowly_is_not_killed_for_its_silence_and_waits_for_the_engine(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The process reads no command before its driver has started. The engine is not silent because of that."""
    have_patience(15.0, monkeypatch, tmp_path)  # longer than a pause of the machine
    source = host(starts_with=str(tmp_path / "started"))
    began = time.monotonic()
    source.start(Taking().emit)
    wait_until(lambda: time.monotonic() - began > 1.4 * protocol.SILENCE_SECONDS)
    assert source.status().state is SourceState.STARTING
    (tmp_path / "started").touch()
    wait_until(lambda: source.status().state is not SourceState.STARTING)
    assert source.status().state is SourceState.CONNECTED


def test_a_process_that_never_gets_to_its_start_is_killed(
    host: Host, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(protocol, "START_SECONDS", 2.0)
    source = host(starts_with=str(tmp_path / "never"))
    source.start(Taking().emit)
    wait_until(lambda: source.status().state is SourceState.FAILED)
    assert source.status().detail == "its process does not start"
    wait_until(lambda: not process_of_or_none(source))


def process_of_or_none(source: SubprocessSource) -> psutil.Process | None:
    try:
        return process_of(source)
    except psutil.NoSuchProcess:
        return None


_ENGINE = """
    import sys, time
    from oslo_config import cfg
    from tests.unit.sources.drivers import Talkative
    from watcher_sync.conf import engine
    from watcher_sync.sources.subprocess.source import SubprocessSource

    conf = cfg.ConfigOpts()
    engine.register_opts(conf)
    conf.register_opts(Talkative.options, group="source_dcm")
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("diary", sys.argv[1], group="source_dcm")
    conf.set_override("count", 1_000_000, group="source_dcm")
    source = SubprocessSource(Talkative, "dcm", conf, most=50_000)
    source.start(lambda events: None)
    print(source._process.pid, flush=True)
    time.sleep(60)
"""


@pytest.fixture
def engine(diary: Path) -> Iterator[tuple[subprocess.Popen[str], psutil.Process]]:
    """A process with a source, which emits more than anybody reads; and the source's process."""
    program = [PYTHON, "-c", textwrap.dedent(_ENGINE), str(diary)]
    path = os.pathsep.join(entry for entry in sys.path if entry)
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path}) as process:
        try:
            assert process.stdout is not None
            child = psutil.Process(int(process.stdout.readline()))
            wait_until(diary.read_text)
            yield process, child
        finally:
            process.kill()


def test_a_driver_does_not_outlive_its_engine(engine: tuple[subprocess.Popen[str], psutil.Process]) -> None:
    process, child = engine
    process.kill()
    process.wait()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.rare
def test_a_driver_keeps_nothing_on_behalf_of_an_engine_that_is_frozen(
    engine: tuple[subprocess.Popen[str], psutil.Process],
) -> None:
    process, child = engine
    process.send_signal(signal.SIGSTOP)
    began = time.monotonic()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert time.monotonic() - began > _SILENCE_SECONDS / 2
