# SPDX-License-Identifier: Apache-2.0
"""A database is restored while nothing runs, and written past the end of the log before an outlet starts.

The journal then has other changes at the seqs that the log has already.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.functional.log.memory_log import Cloud, MemoryLog, instance, publishing, wait_for_seq
from tests.functional.storage.conftest import opened
from tests.setting_back import Backup
from tests.waiting import wait_until
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def store(one_migrated_url: str) -> Iterator[Store]:
    store = opened(one_migrated_url, builtin_kinds())
    yield store
    store.dispose()


@pytest.fixture
def log() -> MemoryLog:
    return MemoryLog()


def write_past(store: Store, seq: int) -> Cloud:
    """Write as an engine that starts after the restoration, until the journal ends after a seq."""
    cloud, number = Cloud(store), 10
    while cloud.cycle.model.generation <= seq:
        cloud.write(instance(number, state="new", project_id="b"), instance(number + 1, state="new", project_id="a"))
        number += 2
    return cloud


@pytest.mark.parametrize("last", ["commit", "part of a commit", "selected change", "snapshot"])
def test_changes_that_replace_the_end_of_the_log_are_published_as_a_snapshot_of_a_new_epoch(
    store: Store, log: MemoryLog, last: str
) -> None:
    cloud = Cloud(store)
    cloud.write(instance(1, state="active", project_id="a"))
    epoch = cloud.cycle.model.epoch
    options = {"projects": ["a"]} if last == "selected change" else {}
    with publishing(store, log, **options):
        wait_until(lambda: log.snapshots() == 1)
        backup = Backup(store)
        cloud.write(*(instance(number, state="lost", project_id="a" if number < 3 else "b") for number in (1, 2, 3)))
        wait_until(lambda: log.seqs()[-1:] == [3 if options else 4])
    if last == "part of a commit":
        del log.changes[-1:]
    elif last == "snapshot":
        log.changes = []
        with publishing(store, log):
            wait_until(lambda: log.snapshots() == 1)
    backup.restore()
    other = write_past(store, log.changes[-1].seq + 2)
    with publishing(store, log, seconds=1.0, **options):  # the restored lease is that of this process, which is alive
        wait_for_seq(log, other.cycle.model.generation)
        other = Cloud(store)
        wait_for_seq(log, other.write(instance(90, state="later", project_id="a")))
    wanted = {key: entity for key, entity in other.rows().items() if not options or entity["project_id"] == "a"}
    assert log.model() == wanted
    assert log.changes[-1].epoch != epoch


def test_a_database_from_before_the_outlet_gets_a_new_epoch(store: Store, log: MemoryLog) -> None:
    """Its first snapshot would have a seq that the log has already, or a lower one."""
    cloud = Cloud(store)
    cloud.write(instance(1, state="active"))
    backup = Backup(store)
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        wait_for_seq(log, cloud.write(instance(1, state="lost"), instance(2, state="lost")))
    backup.restore()
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 2)
        other = Cloud(store)
        wait_for_seq(log, other.write(instance(3, state="new")))
    assert log.model() == other.rows()
    assert log.changes[-1].epoch != cloud.cycle.model.epoch


@pytest.mark.parametrize("last", ["snapshot", "commit", "older commit"])
def test_a_database_that_has_all_of_the_log_continues(store: Store, log: MemoryLog, last: str) -> None:
    """The backup is younger than the end of the log."""
    cloud = Cloud(store)
    cloud.write(instance(1, state="active"), instance(2, state="active"))
    with publishing(store, log):
        wait_until(lambda: log.snapshots() == 1)
        if last != "snapshot":
            wait_for_seq(log, cloud.write(instance(1, state="a"), instance(2, state="a")))
    if last == "older commit":
        cloud.write(instance(1, state="b"))
    backup = Backup(store)
    cloud.write(instance(1, state="lost"))
    backup.restore()
    other = write_past(store, cloud.cycle.model.generation)
    with publishing(store, log):
        wait_for_seq(log, other.cycle.model.generation)
    assert log.model() == other.rows()
    assert log.snapshots() == 1
