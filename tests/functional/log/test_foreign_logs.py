# SPDX-License-Identifier: Apache-2.0
"""Two databases on one log: the second one is refused by name, until an operator says that it continues the log."""

from __future__ import annotations

import itertools
import os
import sqlite3
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.executables import run_preloaded
from tests.functional.log.memory_log import Cloud, MemoryLog, Process, cursor_of, instance, publishing, wait_for_seq
from tests.functional.storage.conftest import opened
from tests.setting_back import Backup
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.extensions.log import cursors
from watcher_sync.extensions.log.base import SNAPSHOT_BEGIN
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def store(one_migrated_url: str) -> Iterator[Store]:
    store = opened(one_migrated_url, builtin_kinds())
    yield store
    store.dispose()


@pytest.fixture
def original(tmp_path: Path) -> Iterator[Store]:
    """A database in a file, which can be copied."""
    store = opened(f"sqlite:///{tmp_path / 'original.sqlite'}", builtin_kinds())
    schema.upgrade(store.database, store.tables)
    yield store
    store.dispose()


def copy_of(store: Store, path: Path) -> Store:
    """A copy of a database, as of production for a trial."""
    with sqlite3.connect(str(store.database.url.database)) as source, sqlite3.connect(path) as target:
        source.backup(target)
    return opened(f"sqlite:///{path}", builtin_kinds())


def epoch_of(store: Store) -> str:
    with store.database.connect() as connection:
        return read_position(connection, store.tables).epoch


def test_the_command_gives_the_epoch_that_it_prints_and_refuses_what_is_none(original: Store, tmp_path: Path) -> None:
    conf = tmp_path / "ws.conf"
    conf.write_text(f"[database]\nconnection = {original.database.url.render_as_string()}\n")
    before = epoch_of(original)
    for after, status in (("no epoch", 2), ("a" * 33, 2), ("f" * 32, 0), ("", 0)):
        done = run_preloaded(
            "watcher-sync-manage",
            ["--config-file", str(conf), "epoch", "renew", "--after", after],
            program=str(Path(sys.executable).parent / "watcher-sync-manage"),
            environment=os.environ,
            timeout=deadline(240),
        )
        assert done.returncode == status, done.stderr
        if status:
            assert f"{after!r} is no epoch" in done.stderr
            assert epoch_of(original) == before
        else:
            assert done.stdout == f"The epoch of the database is {epoch_of(original)}.\n"
            assert epoch_of(original) != before


def is_refused(store: Store, why: str) -> bool:
    cursor = cursors.read_outlet(store.database, "bus")
    return cursor is not None and cursor.state == cursors.FAILED and why in cursor.detail


@pytest.mark.parametrize("left", ["whole", "half of a snapshot"])
def test_a_log_that_ends_in_an_unknown_epoch_is_refused_until_the_database_continues_it(
    store: Store, original: Store, left: str
) -> None:
    log, other, cloud = MemoryLog(), Cloud(original), Cloud(store)
    other.write(instance(1, state="theirs"))
    with publishing(original, log):
        wait_until(lambda: log.snapshots() == 1)
    if left != "whole":
        del log.changes[-1:]
    before = list(log.changes)
    cloud.write(instance(1, state="ours"))
    with publishing(store, log):
        wait_until(lambda: is_refused(store, epoch_of(original)))
        assert log.changes == before
        assert f"epoch renew --after {epoch_of(original)}" in cursor_of(store).detail
        store.begin_epoch(after=epoch_of(original))
        wait_until(lambda: log.changes[-1].epoch == epoch_of(store))
        cloud = Cloud(store)
        wait_for_seq(log, cloud.write(instance(2, state="ours")))
    assert log.model() == cloud.rows()


def test_a_copy_of_a_database_is_refused_while_the_original_publishes(original: Store, tmp_path: Path) -> None:
    log, cloud, ended = MemoryLog(), Cloud(original), threading.Event()
    cloud.write(instance(1, state="active"))

    def change() -> None:
        for number in itertools.count():
            if ended.wait(0.01):
                return
            cloud.write(instance(1, state=f"s{number}"))

    writer = threading.Thread(target=change)
    with publishing(original, log):
        wait_until(lambda: log.snapshots() == 1)
        copied = copy_of(original, tmp_path / "copy.sqlite")
        writer.start()
        try:
            wait_until(lambda: len(log.seqs()) > 3)
            process = Process(copied, seconds=1.0, quiet_seconds=1.0)  # the copied lease is that of this process
            process.publisher(log)
            try:
                wait_until(lambda: is_refused(copied, "another installation publishes"))
            finally:
                process.stop()
        finally:
            ended.set()
            writer.join()
        wait_for_seq(log, cloud.cycle.model.generation)
    assert epoch_of(copied) == epoch_of(original)  # nothing was written there
    copied.dispose()
    assert log.snapshots() == 1
    assert {each.epoch for each in log.changes} == {epoch_of(original)}
    assert log.model() == cloud.rows()


def test_a_copy_that_is_stopped_before_the_log_is_known_to_be_quiet_has_its_epoch_still(
    original: Store, tmp_path: Path
) -> None:
    log, cloud = MemoryLog(), Cloud(original)
    cloud.write(instance(1, state="active"))
    with publishing(original, log):
        wait_until(lambda: log.snapshots() == 1)
        copied = copy_of(original, tmp_path / "copy.sqlite")
        wait_for_seq(log, cloud.write(instance(1, state="stopped")))
    process = Process(copied, seconds=1.0, quiet_seconds=PATIENCE_SECONDS)
    publisher = process.publisher(log)
    wait_until(lambda: publisher.stats.is_publishing)
    process.stop()
    assert epoch_of(copied) == epoch_of(original)
    copied.dispose()
    assert log.snapshots() == 1


def test_a_copy_publishes_on_a_log_of_its_own_also_if_that_tells_no_position(original: Store, tmp_path: Path) -> None:
    log, own, cloud = MemoryLog(), MemoryLog(), Cloud(original)
    cloud.write(instance(1, state="active"))
    with publishing(original, log):
        wait_until(lambda: log.snapshots() == 1)
    copied = copy_of(original, tmp_path / "copy.sqlite")
    copied.begin_epoch()
    own.tells_position = False
    with publishing(copied, own):
        wait_until(lambda: own.snapshots() == 1)
    copied.dispose()
    assert own.model() == cloud.rows()


def test_a_copy_with_an_epoch_of_its_own_is_refused_also_while_the_original_is_stopped(
    original: Store, tmp_path: Path
) -> None:
    log, cloud = MemoryLog(), Cloud(original)
    cloud.write(instance(1, state="active"))
    with publishing(original, log):
        wait_until(lambda: log.snapshots() == 1)
    copied = copy_of(original, tmp_path / "copy.sqlite")
    assert copied.begin_epoch() != epoch_of(original)
    with publishing(copied, log):
        wait_until(lambda: is_refused(copied, epoch_of(original)))
    copied.dispose()
    assert log.snapshots() == 1


def test_a_database_that_is_restored_twice_from_one_backup_uses_no_epoch_twice(store: Store) -> None:
    log, cloud = MemoryLog(), Cloud(store)
    cloud.write(instance(1, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
    backup, first = Backup(store), epoch_of(store)
    cloud.write(instance(1, state="lost"))
    with publishing(store, log):
        wait_for_seq(log, 2)
    backup.restore()
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 2)
    second = epoch_of(store)
    backup.restore()
    assert epoch_of(store) == first != second
    with publishing(store, log):
        wait_until(lambda: is_refused(store, second))
        store.begin_epoch(after=second)
        wait_until(lambda: log.snapshots() == 3)
    begins = [each.epoch for each in log.changes if each.change == SNAPSHOT_BEGIN]
    assert begins == [first, second, epoch_of(store)]
    assert len(set(begins)) == 3
