# SPDX-License-Identifier: Apache-2.0
"""An engine writes its own row while it leads and while it stands by, and its end when it ends."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from tests.unit.engine.conftest import Spoken, until
from watcher_sync.engine import leadership
from watcher_sync.engine.leadership import EnginePresence
from watcher_sync.storage.groups.engines import end_engine, list_engines, read_lag


@pytest.fixture
def conf(conf):
    conf.set_override("status_interval", 0.1, group="monitoring")
    conf.set_override("standby", True, group="engine")
    return conf


def listed(store):
    return list_engines(store.database, gone_after=20)


def states(store):
    return [engine.state for engine in listed(store)]


def test_leader_and_standby_are_listed_and_how_they_ended(run, conf, store, monkeypatch):
    first = run(Spoken())
    assert until(lambda: states(store) == ["leading"])
    (leader,) = listed(store)
    assert (leader.group, leader.sources, leader.lag_seconds) == ("default", ["spoken"], 0.0)
    monkeypatch.setattr("watcher_sync.storage.groups.leases.process_name", lambda: "other/boot/1/8/9")
    second = run(Spoken())
    assert until(lambda: states(store) == ["leading", "standby"])
    standby = listed(store)[1]
    assert until(lambda: listed(store)[1].heartbeat_at > standby.heartbeat_at)
    assert first.stop()
    assert until(lambda: states(store) == ["leading", "stopped"])
    assert second.stop()
    assert states(store) == ["stopped", "stopped"]


def test_only_the_start_of_an_engine_ends_what_is_known_of_a_stopped_one(conf, store):
    """An engine that leads no more, because it is stopped itself, does not start."""
    first, second = (EnginePresence(conf, store, f"h/{n}", sources=[], seq=int) for n in (1, 2))
    first.report()
    second.report()
    end_engine(store.database, "h/1", store.time.observe())
    second.stand_by()
    second.report()
    assert sorted(states(store)) == ["standby", "stopped"]
    EnginePresence(conf, store, "h/3", sources=[], seq=int).report()
    assert states(store) == ["standby", "standby"]


@pytest.mark.slow
def test_an_engine_that_lost_its_lease_is_a_standby_again(run, conf, store):
    running = run(Spoken())
    assert until(lambda: states(store) == ["leading"])
    assert until(lambda: running.engine.is_ready()[0])  # from now on it renews its lease
    since = listed(store)[0].since
    running.lose_lease("other/boot/1/8/9")
    assert until(lambda: [(e.host == "other", e.state) for e in listed(store)][-1] == (False, "standby"))
    assert until(lambda: listed(store)[-1].since > since)


def test_a_row_that_cannot_be_written_is_survived(run, conf, store, caplog):
    with store.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE engines RENAME TO away"))
    running = run(Spoken())
    assert until(lambda: "row of this engine cannot be written" in caplog.text)
    assert until(lambda: running.engine.is_ready()[0])
    with store.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE away RENAME TO engines"))
    assert until(lambda: states(store) == ["leading"])
    assert caplog.text.count("row of this engine cannot be written") == 1


def test_a_model_is_behind_since_the_first_change_that_it_misses(store):
    now = datetime.datetime.now(datetime.UTC)
    with store.database.begin() as connection:
        for seq, age in ((1, 30), (2, 20), (3, 10)):
            connection.execute(
                sa.insert(store.tables.journal).values(
                    seq=seq, time=now - datetime.timedelta(seconds=age), kind="instance", entity_id="a",
                    change="updated", delta={}, versions={}, event_id="", event_type="", source="", merged=1,
                )
            )  # fmt: skip
    assert [round(read_lag(store.database, seq, now)) for seq in range(4)] == [30, 20, 10, 0]


def test_the_database_is_not_asked_while_the_engine_knows_that_it_is_unavailable(conf, store, monkeypatch):
    written, unavailable = [], [True]
    monkeypatch.setattr(leadership.engines, "write_engine", lambda _database, row, _began: written.append(row))
    reporting = EnginePresence(conf, store, "h/1", sources=[], seq=lambda: 0, is_unavailable=lambda: unavailable[0])
    reporting.report()
    assert written == []
    unavailable[0] = False
    reporting.report()
    assert [row.id for row in written] == ["h/1"]


def test_an_unexpected_error_does_not_end_the_reports(run, conf, store, monkeypatch, caplog):
    errors, write = [RuntimeError("not translated")], leadership.engines.write_engine

    def write_or_fail(database, row, began):
        if errors:
            raise errors.pop()
        write(database, row, began)

    monkeypatch.setattr(leadership.engines, "write_engine", write_or_fail)
    run(Spoken())
    assert until(lambda: states(store) == ["leading"])
    assert until(lambda: listed(store)[0].seq is not None)  # its own row, not that of the lease alone
    assert "not translated" in caplog.text
