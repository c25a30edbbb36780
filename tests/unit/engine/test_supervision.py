# SPDX-License-Identifier: Apache-2.0
"""The supervisor stops a source that fails and builds another one, as often as necessary."""

from __future__ import annotations

import functools
import itertools
import time

import pytest

from tests.unit.engine.conftest import Spoken, until
from tests.waiting import deadline
from watcher_sync.backoff import Backoff
from watcher_sync.engine import supervision
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.sources.base import SourceState

pytestmark = pytest.mark.slow


def supervised(make):
    supervisor = Supervisor("s", make, lambda source: lambda events: None)
    supervisor.start()
    return supervisor


def end(supervisor):
    supervisor.begin_stop(time.monotonic() + deadline(30))
    supervisor.join(deadline(60))
    return not supervisor.is_alive()


def test_a_source_that_cannot_start_is_tried_again_and_its_trouble_is_shown():
    good, attempts = Spoken(), []

    def make():
        attempts.append(1)
        if len(attempts) == 1:
            raise ValueError("no such broker")
        return good

    supervisor = supervised(make)
    assert until(lambda: supervisor.status().detail == "ValueError: no such broker")
    assert supervisor.status().state is SourceState.FAILED
    assert until(lambda: supervisor.status().state is SourceState.CONNECTED)
    assert end(supervisor)
    assert (good.started, good.stopped, supervisor.restarts) == (1, 1, 1)


@pytest.mark.parametrize("method", ["start", "status", "stop"])
@pytest.mark.parametrize("raised", [SystemExit(1), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_a_source_that_raises_what_ends_a_thread_is_replaced(method, raised):
    class Leaving(Spoken):
        pass

    def leave(*_arguments):
        raise raised

    setattr(Leaving, method, leave)
    leaving, good = Leaving(), Spoken()
    if method == "stop":
        leaving.state = SourceState.FAILED
    lives = iter([leaving, good])
    supervisor = supervised(lambda: next(lives))
    assert until(lambda: good.started == 1)
    assert end(supervisor)


def test_a_source_that_gives_up_or_whose_status_raises_is_stopped_and_made_again():
    class Mute(Spoken):
        def status(self):
            raise RuntimeError("a driver's bug")

    failed, mute, good = Spoken(), Mute(), Spoken()
    failed.state = SourceState.FAILED
    lives = iter([failed, mute, good])
    supervisor = supervised(lambda: next(lives))
    assert until(lambda: good.started == 1)
    assert (failed.stopped, mute.stopped) == (1, 1)
    assert end(supervisor)
    assert good.stopped == 1


def test_a_restart_on_request_makes_a_new_one_at_once():
    made = []

    def make():
        made.append(Spoken())
        return made[-1]

    supervisor = supervised(make)
    assert until(lambda: made and made[0].started == 1 and supervisor.status().state is SourceState.CONNECTED)
    supervisor.restart()
    assert until(lambda: len(made) == 2 and made[1].started == 1)
    assert made[0].stopped == 1
    assert end(supervisor)


@pytest.mark.parametrize(
    ("failure", "most"), [(DatabaseUnavailable("no server"), 4.0), (ValueError("no such broker"), 60.0)]
)
def test_a_source_that_waits_for_the_database_starts_soon_after_its_return(monkeypatch, failure, most):
    delays = []

    def at_once(_low, high):
        delays.append(high)
        return 0.0

    def make():
        raise failure

    monkeypatch.setattr(supervision, "Backoff", functools.partial(Backoff, uniform=at_once))
    supervisor = supervised(make)
    assert until(lambda: len(delays) > 10)
    assert end(supervisor)
    assert delays[0] == 1.0
    assert max(delays) == most


def test_an_outage_of_the_database_does_not_delay_the_restart_of_a_source_that_fails_later(monkeypatch):
    delays, attempts = [], []
    failed, good = Spoken(), Spoken()
    failed.state = SourceState.FAILED
    lives = iter([failed, good])

    def at_once(_low, high):
        delays.append(high)
        return 0.0

    def make():
        attempts.append(1)
        if len(attempts) < 10:
            raise DatabaseUnavailable("no server")
        return next(lives)

    monkeypatch.setattr(supervision, "Backoff", functools.partial(Backoff, uniform=at_once))
    supervisor = supervised(make)
    assert until(lambda: good.started == 1)
    assert end(supervisor)
    assert delays[-1] == 1.0


def test_a_stop_that_begins_just_before_a_source_is_made_ends_it(monkeypatch):
    """The event of the stop must not be cleared as one of a restart."""
    failed, last = Spoken(), Spoken()
    failed.state = SourceState.FAILED
    lives = iter([failed, last])
    supervisor = Supervisor("s", lambda: next(lives), lambda source: lambda events: None)
    clear = supervisor._restarting.clear
    clears = itertools.count(1)

    def stop_and_clear():
        if next(clears) == 2:
            supervisor.begin_stop(time.monotonic() + deadline(5))
        clear()

    monkeypatch.setattr(supervisor._restarting, "clear", stop_and_clear)
    supervisor.start()
    supervisor.join(deadline(60))
    assert not supervisor.is_alive()
    assert last.started == last.stopped
