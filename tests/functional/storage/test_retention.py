# SPDX-License-Identifier: Apache-2.0
"""Old rows are purged, the journal only from its start, and a reader that is too far behind gets an exception."""

from __future__ import annotations

import datetime

import pytest

from tests.functional.storage.writing import commit, cycle_on, head, meter, rows, seqs
from tests.simulated import NOON, told, whole
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.exceptions import JournalPurged
from watcher_sync.model.changes import Delete
from watcher_sync.model.model import Model
from watcher_sync.storage.stored.retention import Retention, purge
from watcher_sync.storage.writing.journal import first_since

DAY = datetime.timedelta(days=1)


def history(store, days=6):
    """One batch a day of two changes; returns the writer, which is at the last day."""
    today = NOON
    store._now = lambda: today
    cycle = cycle_on(store, now=lambda: today)
    for day in range(days):
        today = NOON + day * DAY
        bad = Event(id=f"bad{day}", type="told", source="test", data=b"x", undecodable="no")
        commit(cycle, told(day, meter(f"m{day}")), told(day, Delete("meter", f"gone{day}", "1")), bad)
    return cycle


def keep(**given):
    ages = {"journal_age": None, "journal_rows": None, "tombstone_age": 99 * DAY, "quarantine_age": None}
    return Retention(**{**ages, **given})


CUTS = [
    ({}, 1),
    ({"journal_age": 2.5 * DAY}, 6),
    ({"journal_rows": 6}, 7),
    ({"journal_rows": 6, "journal_age": 1.5 * DAY}, 8),
    ({"journal_rows": 4, "journal_age": 1.5 * DAY}, 9),
    ({"journal_age": datetime.timedelta(0)}, 10),
    ({"journal_rows": 1, "journal_age": 99 * DAY}, 12),
]
"""What is retained, and the first row then. Each cuts more than the one before."""


def test_the_journal_is_cut_at_its_start_and_stays_gapless(store):
    history(store)
    before = 1
    for given, first in CUTS:
        purged = purge(store.database, store.tables, keep(**given), NOON + 5 * DAY)
        assert seqs(store) == list(range(first, 13)), given
        assert purged["journal"] == first - before
        assert head(store) == 12
        before = first


def test_the_first_seq_since_a_time_is_found_in_what_the_journal_still_has(store):
    history(store)
    times = {-1.0: 1, 0.0: 1, 1.0: 3, 1.5: 5, 5.0: 11, 6.0: 13}  # days after the first change
    for purged in (0, 5, 12):
        with store.database.begin() as connection:
            connection.execute(store.tables.journal.delete().where(store.tables.journal.c.seq <= purged))
            for days, seq in times.items():
                assert first_since(connection, store.tables, NOON + days * DAY) == max(seq, purged + 1)


def test_tombstones_and_quarantined_events_go_by_their_age(store):
    history(store)
    retention = keep(tombstone_age=1.5 * DAY, quarantine_age=2.5 * DAY)
    purged = purge(store.database, store.tables, retention, NOON + 5 * DAY)
    assert purged == {"journal": 0, "tombstones": 4, "quarantine": 3, "watch_positions": 0}
    assert sorted(r.id for r in rows(store, "tombstones")) == ["gone4", "gone5"]
    assert sorted(r.event_id for r in rows(store, "quarantine")) == ["bad3", "bad4", "bad5"]


def test_a_replica_that_is_too_far_behind_gets_an_error_and_loads_the_tables(new_store):
    store, reader = new_store(), new_store()
    behind, follower = Model(reader.kinds), CommitCycle(reader, Model(reader.kinds), cycle_on(reader).dispatcher)
    cycle = history(store)
    purge(store.database, store.tables, keep(journal_rows=5), NOON + 5 * DAY)
    with pytest.raises(JournalPurged, match="begins after seq 1"):
        reader.catch_up(behind)
    follower.follow()
    assert whole(follower.model) == whole(cycle.model)
    commit(cycle, told(99, meter("later")))
    follower.follow()
    assert whole(follower.model) == whole(cycle.model)


def test_a_replica_behind_a_journal_of_which_nothing_is_left_gets_the_error_too(store):
    history(store)
    purge(store.database, store.tables, keep(journal_age=datetime.timedelta(0)), NOON + 9 * DAY)
    assert seqs(store) == [12]  # its time tells when the last change was
    with store.database.begin() as connection:
        connection.execute(store.tables.journal.delete())
    with pytest.raises(JournalPurged):
        store.catch_up(Model(store.kinds))
    model = store.load()
    assert store.catch_up(model) == []
    assert model.generation == 12
