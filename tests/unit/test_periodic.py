# SPDX-License-Identifier: Apache-2.0
"""One log line for each outage, and threads that an error does not end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import pytest

from tests.waiting import deadline
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.periodic import Outage, PeriodicThread

LOG = logging.getLogger("tests.periodic")


def outage() -> Outage:
    return Outage(LOG, "the row cannot be written", "the row is written again")


# Outages


def test_the_first_failure_of_an_outage_and_its_end_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    database = outage()
    for _ in range(2):
        database.failed(DatabaseUnavailable("no answer"))
    assert database.reason == "no answer"
    database.succeeded()
    database.succeeded()
    database.failed(DatabaseUnavailable("no answer"))
    failure = "the row cannot be written, retrying: no answer"
    assert [each.getMessage() for each in caplog.records] == [failure, "the row is written again", failure]


def test_an_unexpected_error_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        raise KeyError("a defect")

    outage().attempt(fail)
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.exc_info is not None


@pytest.mark.parametrize("base", [OSError, Exception])
def test_an_error_whose_text_cannot_be_read_ends_no_attempt(
    caplog: pytest.LogCaptureFixture, base: type[Exception]
) -> None:
    class Unprintable(base):  # type: ignore[misc, valid-type]
        def __str__(self) -> str:
            raise SystemExit("not even this")

    def fail() -> None:
        raise Unprintable

    database = outage()
    database.attempt(fail)
    assert database.reason == "(its text cannot be read)"
    assert [each.getMessage() for each in caplog.records] == [
        "the row cannot be written, retrying: (its text cannot be read)"
    ]


def test_work_that_was_left_out_says_nothing_about_the_outage(caplog: pytest.LogCaptureFixture) -> None:
    database = outage()
    database.failed(DatabaseUnavailable("no answer"))
    database.attempt(lambda: False)
    assert database.reason == "no answer"


# Threads


def counting(calls: list[str], enough: threading.Event, *, until: int) -> Callable[[], None]:
    """Fails at every call, and says when there were enough of them."""

    def work() -> None:
        calls.append("work")
        if len(calls) >= until:
            enough.set()
        raise RuntimeError("a defect")

    return work


def test_an_error_does_not_end_the_thread_and_the_end_has_its_own_work() -> None:
    calls: list[str] = []
    enough = threading.Event()
    work = counting(calls, enough, until=3)
    thread = PeriodicThread("t", work, 0.001, outage(), at_end=lambda: calls.append("end"))
    thread.start()
    assert enough.wait(deadline(60))
    thread.stop(deadline(60))
    assert not thread.is_alive()
    assert calls[-1] == "end"
    assert calls.count("end") == 1


def test_a_wake_ends_a_pause_and_a_thread_can_wait_before_its_first_call() -> None:
    calls: list[str] = []
    enough = threading.Event()
    thread = PeriodicThread("t", counting(calls, enough, until=1), 3600.0, outage(), at_once=False)
    thread.start()
    assert calls == []
    thread.wake()
    assert enough.wait(deadline(60))
    thread.stop(deadline(60))
    assert calls == ["work"]


def test_a_stop_before_the_start_does_nothing() -> None:
    thread = PeriodicThread("t", bool, 3600.0, outage())
    thread.stop(deadline(60))
    assert not thread.is_alive()


def test_a_stop_between_two_calls_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    thread = PeriodicThread("t", lambda: calls.append("work"), 3600.0, outage(), at_once=False)

    class StopsAtClear(threading.Event):
        """A stop arrives just before the wake is forgotten."""

        def clear(self) -> None:
            thread.begin_stop()
            super().clear()

    monkeypatch.setattr(thread, "_due", StopsAtClear())
    thread.start()
    thread.wake()
    thread.stop(deadline(10))
    assert not thread.is_alive()
    assert calls == []
