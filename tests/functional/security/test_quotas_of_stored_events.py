# SPDX-License-Identifier: Apache-2.0
"""No source can fill the quarantine: each has a quota of events and bytes, and the others keep theirs."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on, rows
from watcher_sync.commit.stats import CommitStats
from watcher_sync.conf import retention as retention_conf
from watcher_sync.engine.retention import RetentionWorker
from watcher_sync.events import Event
from watcher_sync.storage.stored.quotas import EventQuotas, StoredUsage, surplus


def bad(number: int, source: str = "hostile", size: int = 10) -> Event:
    return Event(id=f"e-{number}", type="t", source=source, data=b"x" * size, undecodable="no JSON")


def limit(a_store, usage: StoredUsage, clock: Callable[[], float] = time.monotonic) -> None:
    """:param clock: monotonic seconds: after some of them, the quota is counted again."""
    quotas = EventQuotas(quarantine_events_per_source=usage.events, quarantine_bytes_per_source=usage.bytes)
    a_store._writer._quarantine_quota._quotas = quotas
    a_store._writer._quarantine_quota._monotonic = clock


def test_a_flood_of_one_source_is_bounded_at_the_commit_and_the_others_keep_their_events(store, caplog):
    limit(store, StoredUsage(200, 0))
    store.dropped._monotonic = lambda: 0.0  # it logs once a minute
    cycle = cycle_on(store)
    commit(cycle, *(bad(n, "honest") for n in range(50)))
    for start in range(0, 2_000, 100):
        commit(cycle, *(bad(n) for n in range(start, start + 100)))
        assert len(rows(store, "quarantine")) <= 250
    left = {
        source: [r.event_id for r in rows(store, "quarantine") if r.source == source]
        for source in ("honest", "hostile")
    }
    assert len(left["honest"]) == 50
    assert left["hostile"] == [f"e-{n}" for n in range(2_000 - len(left["hostile"]), 2_000)]
    assert store.dropped.counts == {("quarantine", "hostile"): 2_000 - len(left["hostile"])}
    warnings = [record.getMessage() for record in caplog.records if "exceeded a quota" in record.getMessage()]
    assert len(warnings) == 1
    assert warnings[0].startswith("source hostile: ")


@on_one_database
def test_a_flood_at_its_quota_is_counted_again_in_one_of_ten_commits(store):
    limit(store, StoredUsage(1_000, 0), lambda: 0.0)
    cycle = cycle_on(store)
    commit(cycle, *(bad(n) for n in range(1_000)))
    counted = []

    def count(_connection, _cursor, statement, *_):
        if "count(*)" in statement and "quarantine" in statement:
            counted.append(statement)

    sa.event.listen(store.database, "before_cursor_execute", count)
    for start in range(1_000, 2_000, 10):
        commit(cycle, *(bad(n) for n in range(start, start + 10)))
    assert 1 <= len(counted) <= 12


def test_a_flood_that_is_relieved_in_the_background_costs_no_commit_a_count_or_a_deletion(store):
    now = 0.0
    limit(store, StoredUsage(1_000, 0), lambda: now)
    cycle = cycle_on(store)
    commit(cycle, *(bad(n, "honest") for n in range(100)), *(bad(n) for n in range(100)))
    costly = []

    def note(_connection, _cursor, statement, *_):
        if "count(*)" in statement or statement.startswith("DELETE FROM quarantine"):
            costly.append(statement)

    for start in range(100, 5_000, 50):
        sa.event.listen(store.database, "before_cursor_execute", note)
        commit(cycle, *(bad(n) for n in range(start, start + 50)))
        sa.event.remove(store.database, "before_cursor_execute", note)
        now += 1  # it is called once a second
        store.relieve_quotas()
        assert len([row for row in rows(store, "quarantine") if row.source == "hostile"]) <= 900
    assert costly == []
    left = {source: [r.event_id for r in rows(store, "quarantine") if r.source == source]
            for source in ("honest", "hostile")}  # fmt: skip
    assert len(left["honest"]) == 100
    assert len(left["hostile"]) >= 800
    assert left["hostile"] == [f"e-{n}" for n in range(5_000 - len(left["hostile"]), 5_000)]
    assert store.dropped.counts == {("quarantine", "hostile"): 5_000 - len(left["hostile"])}


@on_one_database
def test_the_relief_deletes_nothing_that_another_writer_made_room_for(store):
    limit(store, StoredUsage(100, 0))
    cycle = cycle_on(store)
    commit(cycle, *(bad(n) for n in range(95)))
    with store.database.begin() as connection:  # as an operator drops them, through the API
        connection.execute(sa.delete(store.tables.quarantine).where(store.tables.quarantine.c.event_id < "e-50"))
    found = len(rows(store, "quarantine"))
    store.relieve_quotas()
    assert len(rows(store, "quarantine")) == found
    assert store.dropped.counts == {}


def test_a_flood_of_bytes_is_bounded_as_well(store):
    limit(store, StoredUsage(0, 1_000_000))
    cycle = cycle_on(store)
    for n in range(60):
        commit(cycle, bad(n, size=50_000))
        assert sum(row.size for row in rows(store, "quarantine")) <= 1_000_000
    assert rows(store, "quarantine")[-1].event_id == "e-59"


def test_the_retention_worker_enforces_the_quotas_and_the_total(store):
    cycle = cycle_on(store)
    commit(cycle, *(bad(n, "hostile") for n in range(400)), *(bad(n, "honest") for n in range(50)))
    conf = cfg.ConfigOpts()
    conf.register_opts(retention_conf.OPTS, group=retention_conf.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("quarantine_events_per_source", 300, group="retention")
    conf.set_override("quarantine_events", 120, group="retention")
    worker = RetentionWorker(conf, store, CommitStats())
    worker.purge_now()
    left = [(row.source, row.event_id) for row in rows(store, "quarantine")]
    assert len([1 for source, _ in left if source == "honest"]) == 50
    assert [i for source, i in left if source == "hostile"] == [f"e-{n}" for n in range(330, 400)]
    assert store.dropped.counts == {("quarantine", "hostile"): 330}
    worker.count()
    assert {name: found.events for name, found in worker.stored_counts.usage["quarantine"].items()} == {
        "hostile": 70,
        "honest": 50,
    }


@on_one_database
def test_an_event_that_is_delivered_again_and_again_evicts_nothing(store):
    limit(store, StoredUsage(20, 0))
    cycle = cycle_on(store)
    commit(cycle, *(bad(n) for n in range(15)))
    for _ in range(30):
        commit(cycle, *(bad(0) for _ in range(4)))
    assert len(rows(store, "quarantine")) == 15


@pytest.mark.parametrize(
    ("found", "each", "total", "cut"),
    [
        ({"a": 10}, 0, 0, {}),
        ({"a": 10, "b": 3}, 5, 0, {"a": 5}),
        ({"a": 10, "b": 3}, 0, 8, {"a": 5}),
        ({"a": 10, "b": 8, "c": 1}, 0, 7, {"a": 7, "b": 5}),
        ({"a": 10, "b": 8, "c": 1}, 9, 100, {"a": 1}),
    ],
)
def test_the_source_that_has_most_is_reduced_first(found, each, total, cut):
    for field in ("events", "bytes"):
        usage = {name: StoredUsage(**{field: number}) for name, number in found.items()}
        result = surplus(usage, StoredUsage(**{field: each}), StoredUsage(**{field: total}))
        assert {name: getattr(more, field) for name, more in result.items()} == cut


def test_the_quotas_follow_the_configuration():
    conf = cfg.ConfigOpts()
    conf.register_opts(retention_conf.OPTS, group=retention_conf.GROUP)
    conf([], default_config_files=[], default_config_dirs=[])
    defaults = msgspec.structs.asdict(EventQuotas())
    assert {name: conf.retention[name] for name in defaults} == defaults
