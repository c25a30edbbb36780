# SPDX-License-Identifier: Apache-2.0
"""The supervisor stops a source that fails and builds another one, as often as necessary."""

from __future__ import annotations

import time

import pytest

from tests.unit.engine.conftest import Spoken, until
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.sources.base import SourceState

pytestmark = pytest.mark.slow


def supervised(make):
    supervisor = Supervisor("s", make, lambda source: lambda events: None)
    supervisor.start()
    return supervisor


def end(supervisor):
    supervisor.begin_stop(time.monotonic() + 5)
    supervisor.join(10)
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


def test_a_source_that_gives_up_or_whose_status_raises_is_stopped_and_made_anew():
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
