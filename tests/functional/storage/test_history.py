# SPDX-License-Identifier: Apache-2.0
"""A database that went back in time is noticed by the next commit, and never taken for its own history."""

from __future__ import annotations

import logging

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.test_pipeline import piped
from tests.functional.storage.writing import commit, cycle_on, head, meter, seqs
from tests.setting_back import Backup
from tests.simulated import told, whole
from watcher_sync.commit import cycle as cycle_module
from watcher_sync.commit.batch import Batch
from watcher_sync.exceptions import DatabaseUnavailable, HeadMoved, HistoryChanged
from watcher_sync.storage import epochs
from watcher_sync.storage.epochs import Position, read_position, renew_epoch
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.locked import lock_head


def write(cycle, *numbers, cursors=None):
    """Write one meter for each number, a commit each."""
    for number in numbers:
        event = told(number, meter(f"m{number}", f"{number:04}", reading=number))
        commit(cycle, event, cursors=cursors or {"test": str(number)})
    return cycle


def position(store) -> Position:
    """The position of the database."""
    with store.database.connect() as connection:
        return read_position(connection, store.tables)


def marks(store) -> dict[int, int]:
    """Seq -> mark, of the journal's rows that have one."""
    table = store.tables.journal.c
    with store.database.connect() as connection:
        found = connection.execute(sa.select(table.seq, table.mark).where(table.mark.is_not(None)))
        return {row.seq: row.mark for row in found}


def errors(caplog) -> list[str]:
    """The lines that an operator sees."""
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_last_row_of_each_commit_has_the_mark_of_the_head(store):
    cycle = cycle_on(store)
    assert len(position(store).epoch) == 32
    commit(cycle, *[told(n, meter(f"m{n}", "0001", reading=n)) for n in range(5)])
    first = position(store)
    assert marks(store) == {5: first.mark}
    commit(cycle, told(5, meter("m5", "0001", reading=5)))
    assert marks(store) == {5: first.mark, 6: position(store).mark}
    assert first.mark != position(store).mark
    commit(cycle, told(6), cursors={"test": "6"})
    assert marks(store) == {5: first.mark, 6: position(store).mark}
    assert (cycle.model.epoch, cycle.model.generation, cycle.model.mark) == (first.epoch, 6, position(store).mark)


def test_a_commit_after_the_database_went_back_is_not_written(store, caplog):
    cycle = write(cycle_on(store), 1, 2, 3)
    backup, before = Backup(store), position(store)
    write(cycle, 4, 5)
    backup.restore()
    with pytest.raises(HistoryChanged):
        write(cycle, 6)
    now = position(store)
    assert (now.seq, now.mark) == (before.seq, before.mark)
    assert now.epoch != before.epoch
    assert store.cursors() == {"test": "3"}
    assert whole(cycle.model) == whole(store.load())
    assert cycle.stats.restorations == 1
    assert len(errors(caplog)) == 1
    assert f"no commit at seq 5 of epoch {before.epoch}" in errors(caplog)[0]
    write(cycle, 4, 5, 6, 7)
    assert whole(cycle.model) == whole(store.load())
    assert seqs(store) == list(range(1, 8))
    assert cycle.stats.restorations == 1


@pytest.mark.parametrize("how", ["epoch", "db_sync"])
@on_one_database
def test_a_row_that_a_restoration_in_parts_left_beyond_the_head_stops_no_later_commit(store, caplog, how):
    """A commit between the two tables of a dump: its row is in the journal, and the head of the dump comes after it."""
    caplog.set_level(logging.WARNING)
    cycle = write(cycle_on(store), 1, 2)
    backup = Backup(store)
    write(cycle, 3, 4, 5)
    t = store.tables.journal
    with store.database.connect() as connection:
        orphan = dict(connection.execute(sa.select(t).where(t.c.seq == 5)).one()._mapping)
    backup.restore(lambda connection: connection.execute(sa.insert(t).values(orphan)))
    if how == "epoch":
        with pytest.raises(HistoryChanged):
            write(cycle, 6)
    else:
        schema.upgrade(store.database, store.tables)
        cycle = cycle_on(store)
    assert seqs(store) == [1, 2]
    write(cycle, 3, 4, 5, 6)
    assert seqs(store) == list(range(1, 7))
    assert "had 1 rows beyond its head 2" in caplog.text


def test_db_sync_removes_no_row_of_a_commit_that_it_waited_for(new_store):
    """On MariaDB its transaction has read the head already, and sees the old one in every further read."""
    store, other_store = new_store(), new_store()
    cycle = write(cycle_on(store), 1, 2)
    with other_store.database.connect() as connection:
        isolation = "REPEATABLE READ" if connection.dialect.name == "mysql" else connection.get_isolation_level()
        connection = connection.execution_options(isolation_level=isolation)
        connection.execute(sa.select(store.tables.journal_head.c.seq)).all()
        if connection.dialect.name == "sqlite":
            connection.rollback()  # it has one writer at a time, and reads what that one wrote
        write(cycle, 3, 4)
        epochs.begin_epoch(connection, other_store.tables)
        connection.commit()
    assert seqs(store) == [1, 2, 3, 4]


@pytest.mark.parametrize("more", [1, 2, 3])
def test_the_history_of_another_writer_after_the_restoration_is_not_read_as_ones_own(new_store, more):
    store, other_store = new_store(), new_store()
    cycle = write(cycle_on(store), 1, 2, 3)
    backup, epoch = Backup(store), position(store).epoch
    write(cycle, 4, 5)
    backup.restore()
    other = write(cycle_on(other_store), *range(10, 11 + more))
    with pytest.raises(HistoryChanged):
        cycle.catch_up()
    assert position(store).epoch != epoch
    assert cycle.model.get("meter", "m5") is None
    assert cycle.model.get("meter", "m10") is not None
    with pytest.raises(HistoryChanged):  # it has to tell its sources, too
        write(other, 20)
    renewed = position(store).epoch
    for each in (cycle, other):
        each.catch_up()
        write(each, 30 + each.model.generation)
    assert position(store).epoch == renewed
    other.catch_up(), cycle.catch_up()
    assert whole(cycle.model) == whole(other.model) == whole(store.load())


@on_one_database
def test_a_commit_of_cursors_alone_is_not_written_after_the_database_went_back(store):
    cycle = write(cycle_on(store), 1)
    backup = Backup(store)
    write(cycle, 2)
    backup.restore()
    with pytest.raises(HistoryChanged):
        commit(cycle, told(3), cursors={"test": "3"})
    assert store.cursors() == {"test": "1"}


@on_one_database
def test_a_replica_that_is_behind_learns_of_a_new_epoch(new_store):
    store = new_store()
    write(cycle_on(store), 1)
    behind = cycle_on(new_store())
    with store.database.begin() as connection:
        lost = Position(position(store).epoch, 2, 3)
        assert renew_epoch(connection, store.tables, lost)
    with pytest.raises(HistoryChanged):
        behind.follow()
    behind.follow()


@on_one_database
def test_a_backup_of_an_earlier_epoch_gets_an_epoch_that_it_never_had(new_store):
    """A running process knows the epoch that followed, so it is not another process that has renewed it."""
    store = new_store()
    running, other = write(cycle_on(store), 1), cycle_on(new_store())
    backup, epochs_seen = Backup(store), [position(store).epoch]
    for number in (2, 3):
        write(running, 10 + number)
        other.follow()
        backup.restore()
        for cycle in (running, other):
            with pytest.raises(HistoryChanged):
                cycle.follow()
        epochs_seen.append(position(store).epoch)
        assert {running.model.epoch, other.model.epoch} <= set(epochs_seen)
        for cycle in (running, other):
            cycle.follow()
            assert cycle.model.epoch == epochs_seen[-1]
    assert len(set(epochs_seen)) == 3


@on_one_database
def test_a_server_that_is_behind_for_a_moment_keeps_its_epoch(store, monkeypatch):
    cycle = write(cycle_on(store), 1)
    before = position(store)
    behind = [True]
    real = read_position

    def read(connection, tables):
        found = real(connection, tables)
        return Position(found.epoch, 0, 1) if behind and behind.pop() else found

    monkeypatch.setattr(epochs, "read_position", read)
    with pytest.raises(DatabaseUnavailable, match="was behind"):
        cycle.follow()
    assert position(store) == before
    write(cycle, 2)
    assert cycle.stats.restorations == 0


@on_one_database
def test_a_process_that_starts_after_the_database_went_back_notices_nothing(new_store):
    cycle = write(cycle_on(new_store()), 1)
    backup = Backup(cycle.store)
    write(cycle, 2)
    backup.restore()
    later = write(cycle_on(new_store()), 3)
    assert (later.stats.restorations, head(later.store)) == (0, 2)


@on_one_database
def test_two_processes_that_notice_renew_the_epoch_once(new_store):
    first, second = cycle_on(new_store()), cycle_on(new_store())
    backup = Backup(first.store)
    write(first, 1)
    second.follow()
    backup.restore()
    epochs = set()
    for cycle in (first, second):
        with pytest.raises(HistoryChanged):
            cycle.follow()
        epochs.add(position(first.store).epoch)
    assert len(epochs) == 1


@on_one_database
def test_another_writer_is_no_other_history_even_where_the_journal_is_purged(new_store):
    store = new_store()
    cycle, other = write(cycle_on(store), 1), cycle_on(new_store())
    write(other, 2, 3)
    with store.database.begin() as connection:
        connection.execute(sa.delete(store.tables.journal).where(store.tables.journal.c.seq <= 2))
    write(cycle, 4)
    with lock_head(store) as (held, model):
        held.commit(Commit(generation=model.generation, cursors={"test": "9"}))
    write(other, 5)
    assert (cycle.stats.restorations, other.stats.restorations) == (0, 0)
    assert whole(other.model) == whole(store.load())


@on_one_database
def test_a_pipeline_commits_nothing_of_the_history_before(store):
    cycle = write(cycle_on(store), 1)
    backup = Backup(store)
    write(cycle, 2)
    found = [Batch(events=[told(n, meter(f"m{n}", "0001", reading=n))], cursors={"test": str(n)}) for n in (3, 4, 5)]
    backup.restore()
    with pytest.raises(HistoryChanged):
        piped(cycle, found)
    assert store.cursors() == {"test": "1"}
    assert whole(cycle.model) == whole(store.load())


def test_a_commit_that_locks_the_head_notices_the_restoration_too(store, monkeypatch):
    monkeypatch.setattr(cycle_module, "CONFLICTS_BEFORE_LOCK", 0)
    cycle = write(cycle_on(store), 1)
    backup, epoch = Backup(store), position(store).epoch
    write(cycle, 2)
    backup.restore()
    with pytest.raises(HistoryChanged):
        write(cycle, 3)
    assert position(store).epoch != epoch
    write(cycle, 3)


@on_one_database
def test_a_head_of_the_same_seq_with_another_mark_is_refused(store):
    cycle = write(cycle_on(store), 1)
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.journal_head).values(mark=1))
    commit_of_old = Commit(generation=1, epoch=cycle.model.epoch, mark=cycle.model.mark, cursors={"test": "2"})
    with pytest.raises(HeadMoved, match="of this history"):
        store.commit(commit_of_old)
