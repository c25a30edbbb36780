# SPDX-License-Identifier: Apache-2.0
"""By how many seconds the model is behind a source, and that this survives a restart."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from tests.simulated import NOON, told
from tests.unit.engine.conftest import Spoken, until
from watcher_sync.engine.source_reporter import Moments, Timeliness
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.groups.source_status import SourceRow, behind_of, list_sources

SECOND = datetime.timedelta(seconds=1)


def status(state="connected", **fields):
    return SourceStatus(state=SourceState(state), **fields)


class Observed:
    """A source, observed once a second."""

    def __init__(self):
        self.timeliness = Timeliness()
        self.now = NOON

    def after(self, seconds, given, in_hand=0, published_at=None):
        """Seconds that the model is behind when this much time has passed."""
        self.now += seconds * SECOND
        moments = self.timeliness.observe("a", given, in_hand=in_hand, published_at=published_at, now=self.now)
        until = moments.current_until
        return None if until is None else (self.now - until).total_seconds()


def test_a_connected_source_without_waiting_events_is_current_however_long_it_is_silent():
    source = Observed()
    assert source.after(0, status()) == 0
    assert source.after(7200, status(lag=0)) == 0


def test_a_disconnected_source_falls_behind_by_a_second_each_second():
    source = Observed()
    assert source.after(0, status("starting")) is None
    assert source.after(0, status()) == 0
    assert source.after(5, status("disconnected")) == 5
    assert source.after(60, status("failed")) == 65
    assert source.after(1, status("stopped")) == 66
    assert source.after(1, status()) == 0


def test_a_source_that_catches_up_is_behind_by_the_age_of_the_last_committed_event():
    source = Observed()
    source.after(0, status())
    assert source.after(100, status("disconnected")) == 100
    assert source.after(0, status(lag=9), published_at=NOON - SECOND) == 100
    assert source.after(2, status(lag=5), published_at=NOON + 40 * SECOND) == 62
    assert source.after(0, status(lag=0), in_hand=3, published_at=NOON + 90 * SECOND) == 12
    assert source.after(0, status(lag=0), published_at=NOON + 100 * SECOND) == 0


def test_a_source_that_stops_with_a_backlog_is_not_current():
    source = Observed()
    source.after(0, status())
    source.after(4, status(lag=9))
    assert source.after(0, status("stopped")) == 4
    assert source.after(0, status("stopped", lag=0)) == 0


def test_a_publisher_whose_clock_is_ahead_brings_no_source_into_the_future():
    source = Observed()
    assert source.after(0, status(lag=1), published_at=NOON + 999 * SECOND) == 0
    assert source.after(5, status("disconnected")) == 5


def row(**fields):
    given = {"source": "a", "engine_group": "g", "host": "h", "pid": 1, "state": "connected"}
    return SourceRow(**given, **{"since": NOON, "updated_at": NOON, **fields})


@pytest.mark.parametrize(
    ("current_until", "age", "behind"),
    [
        (None, 0, None),
        (NOON, 3, 0.0),
        (NOON, 20, 0.0),
        (NOON, 21, 21.0),
        (NOON - 5 * SECOND, 3, 8.0),
    ],
)
def test_a_source_of_a_dead_engine_is_behind_since_its_last_report(current_until, age, behind):
    assert behind_of(row(current_until=current_until), NOON + age * SECOND, stale_after=20) == behind


def test_what_an_engine_stored_continues_after_a_restart():
    timeliness = Timeliness()
    timeliness.restore([row(current_until=NOON, last_event_at=NOON - SECOND)])
    found = timeliness.observe("a", status("starting"), in_hand=0, published_at=None, now=NOON + 9 * SECOND)
    assert found == Moments(NOON, NOON - SECOND)


def test_the_age_of_the_last_event_survives_a_restart_of_the_engine(run, conf, store):
    conf.set_override("status_interval", 0.1, group="monitoring")
    source = Spoken()
    source.status = lambda: SourceStatus(state=SourceState.CONNECTED, last_event_at=NOON)
    first = run(source)
    assert until(lambda: [r.last_event_at for r in list_sources(store.database)] == [NOON])
    assert first.stop()
    run(Spoken())
    assert until(lambda: [r.state for r in list_sources(store.database)] == ["connected"])
    assert [r.last_event_at for r in list_sources(store.database)] == [NOON]


def test_the_delay_from_publication_to_commit_is_measured_per_source(run):
    source = Spoken()
    running = run(source)
    now = datetime.datetime.now(datetime.UTC)
    times = (now - 7 * SECOND, now + 60 * SECOND, None)
    source.say(*(msgspec.structs.replace(told(n), source="spoken", time=at) for n, at in enumerate(times)))
    assert until(lambda: len(source.acked) == 3)
    delays = running.engine.stats.delays["spoken"]
    assert sum(delays.counts) == 2
    assert 7 <= delays.sum < 60
    assert running.engine.stats.published == {"spoken": now + 60 * SECOND}
