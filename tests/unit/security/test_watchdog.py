# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811 - pytest finds a fixture by the name of a parameter
"""An event that holds the engine's thread is named: in the log, in metrics, in the report, and by the probes."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

import pytest
from oslo_config import cfg
from prometheus_client import generate_latest

from tests.simulated import telling
from tests.unit.engine.asking import ask
from tests.unit.engine.conftest import Spoken, conf, run, store, until  # noqa: F401 - fixtures
from tests.waiting import deadline
from watcher_sync.commit.batch_dispatch import CommitLimits, EventInHand
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.guru_report import make_report
from watcher_sync.engine.metrics import make_registry
from watcher_sync.engine.monitoring_http import make_application
from watcher_sync.engine.watchdog import Watchdog
from watcher_sync.events import Event

OVERLONG = "watcher_sync_overlong_events_total"


class _Waiting(threading.Event):
    """An event that tells when a thread waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.entered = threading.Event()

    def wait(self, timeout: float | None = None) -> bool:
        self.entered.set()
        return super().wait(timeout)


class Holding:
    """A handler that returns when the test says so."""

    events: ClassVar[Mapping[str, str]] = {"hold": "hold", "pass": "pass_on"}

    def __init__(self) -> None:
        self.go_on = _Waiting()
        self.entered = self.go_on.entered

    def hold(self, _event: Event, _view: Any) -> tuple[()]:
        assert self.go_on.wait(deadline(60))
        return ()

    def pass_on(self, _event: Event, _view: Any) -> tuple[()]:
        return ()


def event(event_id: str, event_type: str) -> Event:
    return Event(id=event_id, type=event_type, source="spoken")


@pytest.fixture
def holding() -> Iterator[Holding]:
    handler = Holding()
    yield handler
    handler.go_on.set()


def metric(engine: Any, name: str) -> float:
    lines = generate_latest(make_registry(engine)).decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


@pytest.mark.slow
def test_the_event_that_holds_the_thread_is_named_everywhere_and_is_applied(
    run: Any, conf: cfg.ConfigOpts, holding: Holding, caplog: pytest.LogCaptureFixture
) -> None:
    conf.set_override("event_watchdog", 60.0, group="engine")
    spoken = Spoken()
    running = run(spoken, dispatcher=Dispatcher([("slow", holding)]))
    application = make_application(running.engine)
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    spoken.say(event("poison-1", "hold"), event("innocent", "pass"))
    assert holding.entered.wait(deadline(60))
    conf.set_override("event_watchdog", 0.05, group="engine")  # not before the thread is where the report shows it
    assert until(lambda: any("poison-1" in r.getMessage() for r in caplog.records))
    reports = [r.getMessage() for r in caplog.records if "poison-1" in r.getMessage()]
    assert "source spoken: the event 'poison-1' of type 'hold'" in reports[0]
    assert "in the handler slow.hold" in reports[0]
    assert "self.go_on.wait(" in reports[0], "the stack of the engine's thread"
    assert metric(running.engine, OVERLONG) == 1
    assert metric(running.engine, "watcher_sync_event_in_hand_seconds") > 0.05
    status, body = ask(application, "/readyz")
    assert status == 503
    assert "poison-1" in body["checks"]["watchdog"]["detail"]
    assert "poison-1" in ask(application, "/healthz")[1]["detail"]
    assert until(lambda: ask(application, "/healthz")[0] == 503)
    assert "poison-1" in str(make_report(conf, running.engine)(_Version()).run())

    conf.set_override("event_watchdog", 60.0, group="engine")
    assert until(lambda: running.engine.watchdog.in_hand.limit == 60.0)  # the next event may take its time
    holding.go_on.set()
    assert until(lambda: spoken.acked == ["poison-1", "innocent"])
    assert until(lambda: ask(application, "/readyz")[0] == 200)
    assert ask(application, "/healthz") == (200, {"alive": True})
    assert metric(running.engine, OVERLONG) == 1
    assert running.stop()


class _Version:
    def vendor_string(self) -> str:
        return "v"

    def product_string(self) -> str:
        return "p"

    def version_string_with_package(self) -> str:
        return "1"


class Hand:
    """A watchdog with a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.watchdog = Watchdog(
            CommitLimits(event_watchdog=10.0), lambda _type, _channel: "p.m", clock=lambda: self.now
        )
        self.watchdog.in_hand.limit = 10.0

    def take(self, taken: Event) -> None:
        hand = self.watchdog.in_hand
        hand.since, hand.event = self.now, taken


def test_the_report_is_repeated_at_growing_intervals(caplog: pytest.LogCaptureFixture) -> None:
    hand = Hand()
    hand.take(event("1", "hold"))
    reported_at = []
    for second in range(100):
        hand.now = float(second)
        before = len(caplog.records)
        hand.watchdog.check()
        if len(caplog.records) > before:
            reported_at.append(second)
    assert reported_at == [11, 22, 44, 88]
    assert hand.watchdog.reported == 1


def test_an_event_is_reported_afterwards_if_it_prevented_the_watchdog_from_running(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hand = Hand()
    hand.take(event("1", "hold"))
    hand.now = 61.0
    hand.watchdog.in_hand.end(hand.now)
    assert hand.watchdog.problem == ""
    hand.watchdog.check()
    (record,) = caplog.records
    assert "'1' of type 'hold' has held the engine's thread for 61.0 s" in record.getMessage()
    assert hand.watchdog.reported == 1


def test_events_that_end_in_time_are_not_reported(caplog: pytest.LogCaptureFixture) -> None:
    hand = Hand()
    for number in range(100):
        hand.take(event(str(number), "pass"))
        hand.now += 9
        hand.watchdog.check()
        hand.watchdog.in_hand.end(hand.now)
    assert caplog.records == []
    assert hand.watchdog.reported == 0


def test_the_events_that_wait_for_a_report_are_bounded() -> None:
    hand = EventInHand()
    hand.limit = 1.0
    for number in range(1000):
        hand.since, hand.event = 0.0, event(str(number), "hold")
        hand.end(5.0)
    assert len(hand.late) == 100


def test_without_a_limit_nothing_is_reported(caplog: pytest.LogCaptureFixture) -> None:
    watchdog = Watchdog(CommitLimits(event_watchdog=0.0), lambda _type, _channel: "", clock=lambda: 1e9)
    watchdog.in_hand.since, watchdog.in_hand.event = 0.0, event("1", "hold")
    watchdog.check()
    assert (watchdog.problem, watchdog.is_dead, caplog.records) == ("", False, [])


def test_the_table_that_other_tests_use_is_not_held() -> None:
    assert telling().handler_of("never.seen") == "(none)"
