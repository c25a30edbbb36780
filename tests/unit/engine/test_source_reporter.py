# SPDX-License-Identifier: Apache-2.0
"""A leading engine writes the states of its sources, survives a failed write, and records the stop when it ends."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from tests.unit.engine.conftest import Spoken, until
from watcher_sync.commit.stats import CommitStats
from watcher_sync.engine.retention import RetentionWorker
from watcher_sync.engine.source_reporter import SourceReporter
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.storage.groups.source_status import SourceRow, behind_of, list_sources, problem_of, write_sources

SECOND = datetime.timedelta(seconds=1)


def states(store):
    return {row.source: row.state for row in list_sources(store.database)}


def test_a_change_of_state_is_in_the_table_with_its_time_and_the_end_is_too(run, conf, store):
    conf.set_override("status_interval", 0.1, group="monitoring")
    source = Spoken()
    running = run(source)
    assert until(lambda: states(store) == {"spoken": "connected"})
    connected = list_sources(store.database)[0]
    assert connected.engine_group == "default"
    source.state = SourceState.DISCONNECTED
    assert until(lambda: states(store) == {"spoken": "disconnected"})
    lost = list_sources(store.database)[0]
    assert lost.since > connected.since
    assert until(lambda: list_sources(store.database)[0].updated_at > lost.updated_at)
    assert list_sources(store.database)[0].since == lost.since
    assert running.stop()
    assert states(store) == {"spoken": "stopped"}


def test_sources_that_the_engine_has_no_more_are_removed(run, store):
    plain = list_sources(store.database)
    assert plain == []
    source = Spoken()
    running = run(source)
    assert until(lambda: states(store))
    known = list_sources(store.database)[0]
    assert running.stop()
    write_sources(store.database, [SourceRow(**{**_fields(known), "source": "old"})])
    run(Spoken())
    assert until(lambda: states(store) == {"spoken": "connected"})
    everything = {row.source: row.state for row in list_sources(store.database, removed=True)}
    assert everything == {"old": "removed", "spoken": "connected"}


def test_a_table_that_cannot_be_written_is_survived(run, conf, store, caplog):
    conf.set_override("status_interval", 0.1, group="monitoring")
    with store.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE source_status RENAME TO away"))
    running = run(Spoken())
    assert until(lambda: "status of the sources cannot be written" in caplog.text)
    assert until(lambda: running.engine.is_ready()[0])
    with store.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE away RENAME TO source_status"))
    assert until(lambda: states(store) == {"spoken": "connected"})
    assert caplog.text.count("status of the sources cannot be written") == 1


@pytest.mark.slow
def test_an_engine_that_lost_its_lease_leaves_the_rows_to_the_other(run, store):
    running = run(Spoken())
    assert until(lambda: states(store))
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.leases).values(token=99, holder="other/1"))
    assert until(lambda: running.error is not None)
    assert states(store)["spoken"] != "stopped"


def _fields(row):
    return {name: getattr(row, name) for name in row.__struct_fields__}


def test_a_database_that_is_known_to_be_away_is_left_in_peace(conf, store):
    away = [True]
    worker = RetentionWorker(conf, store, CommitStats(), is_unavailable=lambda: away[0])
    reporter = SourceReporter(
        conf, store, {"a": Supervisor("a", Spoken, lambda source: None)}, is_unavailable=lambda: away[0]
    )
    worker.count()
    reporter.report()
    assert (worker.stored_counts, states(store)) == (None, {})
    away[0] = False
    worker.count()
    reporter.report()
    assert (worker.stored_counts.quarantined, states(store)) == (0, {"a": "starting"})


class Connected(Spoken):
    """A driver with an event of now, by this machine's clock."""

    def status(self):
        at = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=3)
        return SourceStatus(state=SourceState.CONNECTED, lag=0, last_event_at=at)


@pytest.mark.parametrize("ahead", [-3600, -30, 30, 3600])
def test_reports_have_the_time_of_the_database(conf, store, ahead):
    """A machine whose clock is wrong reports sources that all others find fresh, and so does it."""
    there = lambda: datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=ahead)  # noqa: E731
    store.time._clock = there
    supervisor = Supervisor("a", Connected, lambda source: None)
    supervisor._source = Connected()
    reporter = SourceReporter(conf, store, {"a": supervisor})
    reporter.report()
    for row in (*list_sources(store.database), *reporter.rows()):
        assert problem_of(row, there(), stale_after=20, idle_after=60) == ""
        assert behind_of(row, there(), stale_after=20) == 0
        assert 2 <= (there() - row.last_event_at).total_seconds() < 20
    before, observed, after = there(), store.time.observed(), there()
    assert before - 5 * SECOND < observed < after + 5 * SECOND


def test_a_leap_of_the_database_is_followed_at_the_next_report(conf, store):
    """Rows are not deleted in a leap; a report that others compare with the clock follows it at once."""
    ahead = [0]
    there = lambda: datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead[0])  # noqa: E731
    store.time._clock = there
    supervisor = Supervisor("a", Connected, lambda source: None)
    supervisor._source = Connected()
    reporter = SourceReporter(conf, store, {"a": supervisor})
    store.time.read()
    reporter.report()
    ahead[0] = 7200
    reporter.report()
    assert problem_of(list_sources(store.database)[0], there(), stale_after=20) == ""


def test_a_source_without_entities_of_its_own_says_so(conf, store):
    """Nothing said means everything."""
    supervisor = Supervisor("a", Connected, lambda source: None)
    supervisor._source = Connected()
    (row,) = SourceReporter(conf, store, {"a": supervisor}, scopes={"a": []}).rows()
    assert row.scopes == "[]"
