# SPDX-License-Identifier: Apache-2.0
"""A commit writes exactly the replica, and every other replica becomes the same from the journal."""

from __future__ import annotations

import random
import threading

import pytest

from tests.functional.storage.writing import commit, cycle_on, followed, head, journal, meter, rows, seqs, without_heard
from tests.simulated import NOON, batches, cloud, event, nova, shown, told, whole
from tests.waiting import deadline
from watcher_sync.commit.batch import Batch
from watcher_sync.dispatch import Dispatcher
from watcher_sync.exceptions import HeadMoved, JournalPurged
from watcher_sync.model.changes import Delete, Seen, Upsert
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.writing.commits import Commit


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.rare)])
def test_tables_and_journal_both_give_back_the_model_after_any_batches(store, seed):
    rng = random.Random(seed)
    events, truth = cloud(seed, 700)
    cycle = cycle_on(store, nova())
    for batch in batches(rng.sample(events, len(events)), rng, most=120):
        cycle.run(Batch(events=batch))
        if rng.random() < 0.3:
            assert without_heard(whole(store.load())) == without_heard(whole(cycle.model))
    expected = without_heard(whole(cycle.model))
    assert without_heard(whole(store.load())) == expected
    assert without_heard(whole(followed(store))) == expected
    assert seqs(store) == list(range(1, cycle.model.generation + 1))
    store.persist_last_seen({"compute_node": cycle.model.last_seen("compute_node")})
    assert {k: v for k, v in shown(store.load().snapshot()).items() if k in truth} == truth


def test_two_writers_in_turn_each_read_what_the_other_wrote_and_end_equal(new_store):
    rng = random.Random(3)
    events, truth = cloud(3, 600)
    writers = [cycle_on(new_store(), nova()) for _ in range(2)]
    for batch in batches(rng.sample(events, len(events)), rng, most=40):
        rng.choice(writers).run(Batch(events=batch))
    for writer in writers:
        writer.catch_up()
    one, other = (without_heard(whole(w.model)) for w in writers)
    assert one == other
    assert sum(w.stats.conflicts for w in writers) > 3
    store = writers[0].store
    assert without_heard(whole(store.load())) == one
    assert seqs(store) == list(range(1, head(store) + 1))
    for kind in ("instance", "aggregate"):
        assert shown(writers[0].model.snapshot())[kind] == truth[kind]


def test_a_writer_that_dispatches_slower_than_another_commits_does_not_starve(new_store):
    """The other writer always has a backlog. In every dispatch of this one, it commits once more if it can."""
    ended, committed, commits = threading.Event(), threading.Condition(), [0]

    def write_on():
        for i in range(200):
            if ended.is_set():
                return
            commit(other, told(i, meter("theirs", f"{i:04}", reading=i)))
            with committed:
                commits[0] += 1
                committed.notify_all()

    class Slow:
        events = {"slow": "slow"}  # noqa: RUF012

        def slow(self, event, view):
            with committed:
                before = commits[0]
                committed.wait_for(lambda: commits[0] > before, 0.5)
            yield meter(event.read(), "1", owner="slow")

    writer, other = cycle_on(new_store(), Dispatcher([("slow", Slow())])), cycle_on(new_store())
    thread = threading.Thread(target=write_on, daemon=True)
    thread.start()
    try:
        commit(writer, event(1, "slow", data="ours"))
    finally:
        ended.set()
        thread.join(deadline(60))
    assert writer.stats.conflicts <= 3
    other.catch_up()
    writer.catch_up()
    assert whole(other.model) == whole(writer.model) == whole(writer.store.load())
    assert other.model.get("meter", "ours").owner == "slow"
    assert seqs(writer.store) == list(range(1, head(writer.store) + 1))


def test_four_writers_at_once_lose_nothing_and_leave_no_gap(new_store):
    """Each writer counts its own meters and one that all of them write; the newest version wins."""
    count, size = 12, 5
    cycles = [cycle_on(new_store()) for _ in range(4)]
    failures = []
    barrier = threading.Barrier(4)

    def write(number, cycle):
        try:
            barrier.wait(deadline(60))
            for i in range(count):
                version = f"{i:04}-{number}"
                own = [told(i, meter(f"m{number}-{i}-{j}", version, owner=f"w{number}")) for j in range(size)]
                cycle.run(Batch(events=[*own, told(i, meter("shared", version, owner=version))]))
        except BaseException as exc:  # noqa: BLE001 - reported by the test
            failures.append(exc)

    threads = [threading.Thread(target=write, args=pair, daemon=True) for pair in enumerate(cycles)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    assert not failures
    assert not any(thread.is_alive() for thread in threads)
    store = cycles[0].store
    assert seqs(store) == list(range(1, head(store) + 1))
    loaded = whole(store.load())
    for cycle in cycles:
        cycle.catch_up()
        assert whole(cycle.model) == loaded
    assert whole(followed(store)) == loaded
    assert len(loaded["meter"]["dump"]) == 4 * count * size + 1
    assert store.load().get("meter", "shared").owner == f"{count - 1:04}-3"


def test_a_replica_that_follows_while_others_write_never_finds_the_journal_purged(new_store):
    writer, reader = cycle_on(new_store()), new_store()
    done, failures = threading.Event(), []
    model = Model(reader.kinds)

    def follow():
        try:
            while not done.is_set():
                reader.catch_up(model)
        except JournalPurged as exc:
            failures.append(exc)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    for i in range(60):
        writer.run(Batch(events=[told(i, meter(f"m{i % 5}", f"{i:05}", owner="x"))]))
    done.set()
    thread.join(deadline(60))
    assert not failures
    reader.catch_up(model)
    assert whole(model) == whole(writer.model)


def test_a_commit_on_an_old_generation_is_refused_and_writes_nothing(new_store):
    store, other = new_store(), cycle_on(new_store())
    model = store.load()
    other.run(Batch(events=[told(1, meter("a"))]))
    transaction = Transaction(model)
    transaction.apply(told(2), [meter("b")])
    with pytest.raises(HeadMoved):
        store.commit(Commit(generation=0, staged=transaction.staged(), cursors={"s": "1"}))
    assert [row.id for row in rows(store, "meters")] == ["a"]
    assert store.cursors() == {}
    assert seqs(store) == [1]


def test_a_journal_row_says_what_changed_who_said_so_and_how_much_it_sums_up(store):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, meter("a", "1", owner="x", reading=1)), told(2, meter("a", "2", owner="y"))]))
    cycle.run(Batch(events=[told(3, meter("a", "3", owner="y"))]))
    cycle.run(Batch(events=[told(4, Delete("meter", "a", "4"))]))
    created, moved, deleted = journal(store)
    assert (created.change, created.delta, created.merged) == (
        "created",
        {"owner": [None, "y"], "reading": [None, 1]},
        2,
    )
    assert (created.event_id, created.event_type, created.source) == ("event-2", "told", "test")
    assert (moved.change, moved.delta, moved.versions) == ("updated", {}, {"state": "3"})
    assert (deleted.change, deleted.delta) == ("deleted", {"owner": ["y", None], "reading": [1, None]})
    assert [r.seq for r in (created, moved, deleted)] == [1, 2, 3]
    assert [(t.id, t.seq) for t in rows(store, "tombstones")] == [("a", 3)]
    assert rows(store, "meters") == []


def test_a_tombstone_goes_when_the_id_is_used_again(store):
    cycle = cycle_on(store)
    service = {"service": {"status": "enabled"}}
    for number, change in enumerate(
        [
            Upsert("compute_node", "h", "1", service),
            Delete("compute_node", "h", "2"),
            Upsert("compute_node", "h", "3", service),
        ]
    ):
        cycle.run(Batch(events=[told(number, change)]))
    assert rows(store, "tombstones") == []
    assert whole(store.load()) == whole(cycle.model) == whole(followed(store))


def test_an_entity_deleted_and_made_again_in_one_batch_loses_what_is_not_reported_again(store):
    cycle = cycle_on(store)
    old, new = {"state": {"state": "connected", "version": "1.30"}}, {"state": {"state": "connected"}}
    cycle.run(Batch(events=[told(1, Upsert("cluster", "edge", "1", old))]))
    again = [told(2, Delete("cluster", "edge", "2")), told(3, Upsert("cluster", "edge", "3", new))]
    cycle.run(Batch(events=again))
    assert cycle.model.get("cluster", "edge").version is None
    assert journal(store)[-1].delta == {"version": ["1.30", None]}
    assert whole(store.load()) == whole(cycle.model) == whole(followed(store))


def test_the_newest_sign_of_life_is_stored_and_moves_no_seq(store):
    cycle = cycle_on(store)
    cycle.run(
        Batch(events=[told(1, Upsert("compute_node", "h", "1", {"service": {}}), Seen("compute_node", "h", NOON))])
    )
    later, latest = NOON.replace(hour=13, microsecond=5), NOON.replace(hour=14)
    for time in (later, NOON, latest, later):
        store.persist_last_seen({"compute_node": {"h": time, "unknown": time}})
        cycle.run(Batch(events=[told(2, Upsert("compute_node", "h", f"{time}", {"service": {"status": "disabled"}}))]))
    assert store.read_last_seen() == {"compute_node": {"h": latest}}
    assert store.load().last_seen("compute_node") == {"h": latest}


NAMES = [
    "Compute1",
    "compute1",
    "CÓMPUTE1",
    "cómpute1",
    "straße",
    "strasse",
    "🦊",
    "🐻",
    "e\u0301",
    "é",
    "n" * 255,
    "🦊" * 255,
    "a'b\"c`d\\e%s?:x",
]


def test_names_that_differ_in_case_accent_or_script_are_different_and_come_back_as_they_were(store):
    cycle = cycle_on(store)
    cycle.run(
        Batch(
            events=[
                told(i, Upsert("compute_node", name, "1", {"service": {}, "zone": {"service_zone": name}}))
                for i, name in enumerate(NAMES)
            ]
        )
    )
    cycle.run(
        Batch(
            events=[
                told(
                    i,
                    Upsert(
                        "instance",
                        f"vm{i}",
                        "1",
                        {"state": {}, "details": {"name": name, "metadata": {name: name}}, "placement": {"host": name}},
                    ),
                )
                for i, name in enumerate(NAMES)
            ]
        )
    )
    assert not rows(store, "quarantine")
    loaded = store.load()
    assert loaded.snapshot().ids("compute_node") == sorted(NAMES)
    assert whole(loaded) == whole(cycle.model)
    for i, name in enumerate(NAMES):
        assert [e.id for e in loaded.snapshot().by("instance", "host", name)] == [f"vm{i}"]
        assert loaded.get("instance", f"vm{i}").metadata == {name: name}


def test_a_plugin_that_hands_over_tuples_writes_one_row_whatever_replica_is_at_work(new_store):
    """Another writer has the same values as lists, and a new replica reads lists."""
    store = new_store()
    commit(cycle_on(store), told(1, meter("m", "1", readings=(1, 2), ratio=3)))
    first = head(store)
    for version in range(2, 6):
        value = [1, 2] if version % 2 else (1, 2)
        commit(cycle_on(store), told(version, meter("m", str(version), readings=value, ratio=3)))
    assert [row.delta for row in journal(store, first) if row.delta] == []
    assert store.load().snapshot().get("meter", "m").readings == [1, 2]
