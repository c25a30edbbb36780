# SPDX-License-Identifier: Apache-2.0
"""A log gets a snapshot and then each change once and in order, whatever ends its publisher."""

from __future__ import annotations

import datetime
import random
from collections.abc import Iterator, Sequence

import pytest
import sqlalchemy as sa

from tests.functional.log.memory_log import (
    Cloud,
    MemoryLog,
    MemoryOutlet,
    Process,
    cursor_of,
    gone,
    instance,
    publishing,
    wait_for_seq,
)
from tests.functional.storage.conftest import opened
from tests.setting_back import Backup
from tests.waiting import wait_until
from watcher_sync.exceptions import HistoryChanged
from watcher_sync.extensions.log import cursors
from watcher_sync.extensions.log.base import LogChange, LogPositions, OutletError
from watcher_sync.storage.stored.retention import Retention, purge
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def store(one_migrated_url: str) -> Iterator[Store]:
    store = opened(one_migrated_url, builtin_kinds())
    yield store
    store.dispose()


@pytest.fixture
def cloud(store: Store) -> Cloud:
    return Cloud(store)


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def test_a_new_log_gets_the_model_and_then_each_change_once(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(instance(1, state="active"), instance(2, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        cloud.write(instance(1, state="stopped"), instance(3, state="building"))
        head = cloud.write(gone(2))
        wait_for_seq(log, head)
    assert log.model() == cloud.rows()
    assert log.seqs() == [3, 4, 5]
    updated = log.changes[-3]
    assert (list(updated.delta["state"]), updated.previous_seq) == (["active", "stopped"], 1)
    assert [each.ends_commit for each in log.changes[-3:]] == [False, True, True]
    assert cursor_of(store).state == cursors.STOPPED
    assert cursor_of(store).seq == head


def test_a_change_of_versions_only_is_read_and_not_published(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        cloud.write(instance(1, state="active"))
        wait_for_seq(log, cloud.write(instance(1, state="stopped")))
    assert log.seqs() == [3]
    assert log.changes[-1].previous_seq == 2


@pytest.mark.parametrize("seed", range(2))
def test_publishers_that_die_at_any_moment_leave_each_change_once(store: Store, seed: int) -> None:
    """A dead publisher leaves its cursor where it was last written, and what it published in the log."""
    rng, cloud, log = random.Random(seed), Cloud(store), MemoryLog()

    def some() -> int:
        changes = [
            gone(number) if rng.random() < 0.2 else instance(number, state=rng.choice("abc"), host=rng.choice("xy"))
            for number in rng.sample(range(12), rng.randint(1, 6))
        ]
        return cloud.write(*changes, instance(99, state=str(rng.random())))  # the last one changes something

    for _ in range(6):
        some()
        with publishing(store, log):
            wait_for_seq(log, some())
            old = cursor_of(store)
            for _ in range(rng.randint(0, 3)):
                head = some()
                wait_for_seq(log, head)
            log.failures = rng.randint(0, 2)
            wait_for_seq(log, some())
        for _ in range(rng.randint(0, 4)):
            some()
        t = store.tables.outlet_cursors
        with store.database.begin() as connection:
            values = {"seq": old.seq, "published_seq": old.published_seq, "state": cursors.PUBLISHING}
            connection.execute(sa.update(t).values(**values))
    with publishing(store, log):
        wait_for_seq(log, some())
    assert log.model() == cloud.rows()
    assert log.snapshots() == 1


def test_a_log_that_lost_its_end_gets_it_again(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        for state in "abc":
            wait_for_seq(log, cloud.write(instance(1, state=state)))
    del log.changes[-2:]
    with publishing(store, log):
        wait_for_seq(log, cloud.write(instance(1, state="d")))
    assert log.model() == cloud.rows()
    assert log.seqs() == [2, 3, 4, 5]


def test_a_commit_that_is_published_in_portions_is_continued_within_it(
    store: Store, cloud: Cloud, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.log.fitting.PORTION_BYTES", 5_000)
    cloud.write(instance(0, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        log.failures = 3
        head = cloud.write(*(instance(number, state="active") for number in range(1, 40)))
        wait_for_seq(log, head)
    del log.changes[-20:]
    with publishing(store, log):
        wait_for_seq(log, cloud.write(instance(0, state="stopped")))
    assert log.model() == cloud.rows()
    assert log.seqs() == list(range(2, 42))
    assert log.snapshots() == 1
    assert max(log.batches) < 10


@pytest.mark.parametrize("left", [0, 2], ids=["nothing", "half of a snapshot"])
def test_a_log_without_a_whole_snapshot_gets_one(store: Store, cloud: Cloud, log: MemoryLog, left: int) -> None:
    cloud.write(instance(1, state="active"), instance(2))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    del log.changes[left:]
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    assert log.model() == cloud.rows()


def test_a_snapshot_that_was_interrupted_begins_again(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(*(instance(number, state="active") for number in range(600)))
    log.failures = 2  # the first of the two batches is published and fails, as does the second attempt
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        cloud.write(gone(5))
        wait_for_seq(log, 601)
    assert log.model() == cloud.rows()


def test_another_selection_needs_a_new_snapshot(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(instance(1, project_id="a"), instance(2, project_id="b"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    with publishing(store, log, projects=["a"]):
        wait_until(lambda: log.snapshots() == 2)
    assert set(log.model()) == {("instance", "i1")}


@pytest.mark.parametrize("why", ["new readers need one", "another selection", "no cursor"])
def test_what_was_committed_before_a_new_snapshot_is_published_first(
    store: Store, cloud: Cloud, log: MemoryLog, why: str
) -> None:
    """A reader that is up to date sees each change, also those of entities that the snapshot does not have."""
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    for state in "abc":
        cloud.write(instance(1, state=state), instance(2, state=state))
    cloud.write(gone(2))
    head = cloud.cycle.model.generation
    log.lacks_snapshot = why == "new readers need one"
    if why == "no cursor":
        with store.database.begin() as connection:
            connection.execute(sa.delete(store.tables.outlet_cursors))
    with publishing(store, log, **({"fields": ["state"]} if why == "another selection" else {})):
        wait_until(lambda: log.snapshots() == 2)
        wait_for_seq(log, cloud.write(instance(1, state="d")))
    assert log.seqs() == list(range(2, head + 2))
    assert [each.seq for each in log.changes if each.change == "snapshot_end"] == [1, head]
    assert log.model() == cloud.rows()


def test_a_snapshot_without_the_changes_before_it_follows_where_the_journal_has_purged_them(
    store: Store, cloud: Cloud, log: MemoryLog
) -> None:
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    for state in "abc":
        cloud.write(instance(1, state=state))
    in_an_hour, hour = store.time.now() + datetime.timedelta(hours=2), datetime.timedelta(hours=1)
    purge(store.database, store.tables, Retention(hour, None, hour, None), in_an_hour)
    log.lacks_snapshot = True
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 2)
    assert log.seqs() == []
    assert log.model() == cloud.rows()


def test_an_entity_that_changes_its_project_is_created_or_deleted_for_the_readers(
    store: Store, cloud: Cloud, log: MemoryLog
) -> None:
    cloud.write(instance(1, project_id="a"), instance(2, project_id="b"))
    with publishing(store, log, projects=["a"], fields=["state", "project_id"]):
        wait_until(lambda: log.snapshots() == 1)
        cloud.write(instance(1, project_id="b"), instance(2, project_id="a"))
        cloud.write(instance(2, name="new"))
        wait_for_seq(log, cloud.write(instance(1, state="lost"), instance(2, state="seen")))
        wait_until(lambda: cursor_of(store).seq == cloud.cycle.model.generation)
    assert [(each.id, each.change, each.ends_commit) for each in log.changes if each.kind][1:] == [
        ("i1", "deleted", False),
        ("i2", "created", True),
        ("i2", "updated", True),
    ]


def test_rows_that_the_journal_purged_are_replaced_by_a_snapshot(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    """The log does not answer for an hour, and the journal has half an hour."""
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        wait_for_seq(log, cloud.write(instance(1, state="a")))
        log.is_down = True
        for number in range(2, 8):
            cloud.write(instance(number, state="active"))
        cloud.write(gone(1))
        wait_until(lambda: cursor_of(store).state == cursors.FAILED)
    in_an_hour = store.time.now() + datetime.timedelta(hours=1)
    half_an_hour = datetime.timedelta(minutes=30)
    purge(store.database, store.tables, Retention(half_an_hour, None, half_an_hour, None), in_an_hour)
    log.is_down = False
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 2)
        wait_for_seq(log, cloud.write(instance(2, state="stopped")))
    assert log.model() == cloud.rows()
    assert ("instance", "i1") not in log.model()


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
def test_a_database_that_went_back_in_time_publishes_a_snapshot_of_its_new_epoch(
    store: Store, cloud: Cloud, log: MemoryLog, is_running: bool
) -> None:
    cloud.write(instance(1, state="active"))
    epoch = cloud.cycle.model.epoch
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        wait_until(lambda: cursor_of(store).epoch == epoch)
        backup = Backup(store)
        wait_for_seq(log, cloud.write(instance(1, state="lost"), instance(2, state="lost")))
        if is_running:
            backup.restore()
            wait_until(lambda: log.changes[-1].epoch != epoch)
    if not is_running:
        backup.restore()
    with publishing(store, log, seconds=1.0):  # the restored lease is that of this process, which is alive
        wait_until(lambda: log.changes[-1].epoch != epoch)
        with pytest.raises(HistoryChanged):
            cloud.cycle.follow()
        wait_for_seq(log, cloud.write(instance(3, state="new")))
    assert log.model() == cloud.rows()
    assert ("instance", "i2") not in log.model()


@pytest.mark.parametrize("is_late", [False, True], ids=["the reader has the lost commit", "the reader has it not"])
def test_the_history_of_another_writer_is_not_published_as_what_follows(
    store: Store, cloud: Cloud, log: MemoryLog, is_late: bool
) -> None:
    """A writer that starts after the restoration passes the old end of the journal before the next poll."""
    cloud.write(instance(1, state="active"))
    epoch = cloud.cycle.model.epoch
    process = Process(store, poll_seconds=1.0)
    try:
        process.publisher(log)
        wait_until(lambda: log.snapshots() == 1)
        backup = Backup(store)
        wait_for_seq(log, cloud.write(instance(1, state="lost"), instance(2, state="lost")))
        wait_until(lambda: is_late or process.reader.seen() == 3)
        backup.restore()
        other = Cloud(store)
        for number in range(4, 10):
            try:
                other.write(instance(number, state="new"))
            except HistoryChanged:  # the outlet was faster, and has renewed the epoch
                other = Cloud(store)
                other.write(instance(number, state="new"))
        wait_until(lambda: log.changes[-1].epoch != epoch)
        wait_for_seq(log, 7)
    finally:
        process.stop()
    assert log.model() == other.rows()


def test_a_running_publisher_continues_in_a_database_whose_lease_is_older_than_its_own(
    store: Store, cloud: Cloud, log: MemoryLog
) -> None:
    """Each publisher has a greater token than the one before, and the backup has that of the first."""
    cloud.write(instance(1, state="active"))
    epoch = cloud.cycle.model.epoch
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    backup = Backup(store)
    with publishing(store, log):
        wait_for_seq(log, cloud.write(instance(1, state="a")))
    with publishing(store, log, seconds=1.0):
        wait_for_seq(log, cloud.write(instance(1, state="lost"), instance(2, state="lost")))
        backup.restore()
        wait_until(lambda: log.changes[-1].epoch != epoch)
        with pytest.raises(HistoryChanged):
            cloud.cycle.follow()
        wait_for_seq(log, cloud.write(instance(3, state="new")))
        wait_until(lambda: cursor_of(store).seq == 2)
    assert log.model() == cloud.rows()


def test_a_failing_log_is_reported_and_gets_all_when_it_answers_again(
    store: Store, cloud: Cloud, log: MemoryLog
) -> None:
    cloud.write(instance(1, state="active"))
    with publishing(store, log) as publisher:
        wait_until(lambda: log.snapshots() == 1)
        log.failures = 3
        head = cloud.write(instance(1, state="stopped"))
        wait_until(lambda: cursor_of(store).state == cursors.FAILED)
        assert cursor_of(store).detail == "the log does not answer"
        wait_for_seq(log, head)
        wait_until(lambda: cursor_of(store).state == cursors.PUBLISHING)
        assert publisher.stats.failures >= 2
    assert log.model() == cloud.rows()
    assert log.snapshots() == 1


def test_an_outlet_that_raises_when_it_is_closed_is_opened_again(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    log.fails_to_close = True
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        log.failures = 1
        wait_for_seq(log, cloud.write(instance(1, state="a")))
        wait_for_seq(log, cloud.write(instance(1, state="b")))
    assert log.seqs() == [2, 3]


@pytest.mark.parametrize("is_busy", [False, True], ids=["idle", "busy"])
def test_a_log_that_is_damaged_gets_a_new_snapshot_also_while_nothing_changes(
    store: Store, cloud: Cloud, log: MemoryLog, monkeypatch: pytest.MonkeyPatch, is_busy: bool
) -> None:
    publish = MemoryOutlet.publish

    def publish_and_write(outlet: MemoryOutlet, changes: Sequence[LogChange]) -> LogPositions:
        positions = publish(outlet, changes)
        if log.snapshots() == 1:  # so the next change is there already
            cloud.write(instance(1, state=f"s{len(log.changes)}"))
        return positions

    if is_busy:
        monkeypatch.setattr(MemoryOutlet, "publish", publish_and_write)
    monkeypatch.setattr("watcher_sync.extensions.log.publisher._VERIFY_SECONDS", 0.02)
    cloud.write(instance(1, state="active"))
    with publishing(store, log) as publisher:
        wait_until(lambda: log.snapshots() == 1)
        log.is_damaged = True
        wait_until(lambda: log.snapshots() == 2)
        head = cloud.write(instance(1, state="last"))
        wait_for_seq(log, head)
        assert publisher.stats.failures == 1
    assert log.model() == cloud.rows()
    assert log.snapshots() == 2


def test_a_log_that_stays_damaged_gets_snapshots_with_longer_pauses(
    store: Store, cloud: Cloud, log: MemoryLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    def verify(_outlet: MemoryOutlet) -> None:
        cloud.write(instance(1, state=f"s{log.snapshots()}"))  # the changes before a snapshot are no progress
        log.lacks_snapshot = True
        raise OutletError("the log is damaged")

    monkeypatch.setattr(MemoryOutlet, "verify", verify)
    cloud.write(instance(1, state="active"))
    with publishing(store, log) as publisher:
        wait_until(lambda: publisher._backoff.failures >= 3)
    assert log.snapshots() >= 3
    assert len(log.seqs()) >= 2


def test_one_of_two_processes_publishes_and_the_other_takes_over(store: Store, cloud: Cloud, log: MemoryLog) -> None:
    cloud.write(instance(1, state="active"))
    first, second = Process(store, holder="first"), Process(store, holder="second", seconds=1.0)
    try:
        one = first.publisher(log)
        wait_until(lambda: log.snapshots() == 1)
        other = second.publisher(log)
        wait_for_seq(log, cloud.write(instance(1, state="a")))
        assert (one.stats.is_publishing, other.stats.is_publishing) == (True, False)
        first.stop()
        wait_for_seq(log, cloud.write(instance(1, state="b")))
        assert other.stats.is_publishing
    finally:
        first.stop()
        second.stop()
    assert log.model() == cloud.rows()
    assert log.snapshots() == 1


def test_a_publisher_that_was_frozen_past_its_lease_is_refused_and_ends(
    store: Store, cloud: Cloud, log: MemoryLog
) -> None:
    """It has sent a batch that arrives when another publisher has published."""
    cloud.write(instance(1, state="active"))
    frozen, other = Process(store, holder="frozen", seconds=4.0), Process(store, holder="other", seconds=1.0)
    try:
        one = frozen.publisher(log)
        wait_until(lambda: log.snapshots() == 1)
        log.gate.clear()
        cloud.write(instance(1, state="a"))
        wait_until(lambda: log.waiting)
        with store.database.begin() as connection:  # as if it had not renewed the lease
            connection.execute(sa.update(store.tables.leases).values(holder=""))
        twin = MemoryLog()
        twin.changes = log.changes
        other.publisher(twin)
        wait_for_seq(twin, 2)
        log.gate.set()
        wait_until(lambda: not one.stats.is_publishing)
        wait_for_seq(log, cloud.write(instance(1, state="b")))
    finally:
        frozen.stop()
        other.stop()
    assert log.seqs() == [2, 3]
    assert (log.refused, one.stats.failures) == (1, 1)


def test_a_slow_log_does_not_slow_down_a_fast_one_and_misses_nothing(
    store: Store, cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.log.change_log.MAX_ROWS", 20)
    monkeypatch.setattr("watcher_sync.extensions.log.change_log._ROWS_AT_ONCE", 5)
    monkeypatch.setattr("watcher_sync.extensions.log.publisher.BATCH", 5)
    fast, slow = MemoryLog(), MemoryLog()
    cloud.write(instance(1, state="active"))
    process = Process(store)
    try:
        process.publisher(fast)
        process.publisher(slow, "slow")
        wait_until(lambda: fast.snapshots() == slow.snapshots() == 1)
        slow.gate.clear()
        for number in range(40):
            head = cloud.write(instance(number % 7, state=f"s{number}"))
        wait_for_seq(fast, head)
        slow.gate.set()
        wait_for_seq(slow, head)
        head = cloud.write(gone(3))
        wait_for_seq(fast, head)
        wait_for_seq(slow, head)
    finally:
        process.stop()
    assert slow.model() == fast.model() == cloud.rows()
    assert slow.snapshots() == 1
