# SPDX-License-Identifier: Apache-2.0
"""A database that goes back in time under a running engine: a late standby, a backup, a deleted file."""

from __future__ import annotations

import datetime
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import EngineProcess, Installation, Line
from tests.functional.engine.late_standby import LateStandby
from tests.services.servers import PostgreSQL, Server
from tests.setting_back import Backup
from tests.waiting import wait_until
from watcher_sync.model.kinds import Entity
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.writing.journal import add_remark
from watcher_sync.testing.nova.cloud import CloudSimulator

BACK = "The database went back in time, or was replaced"


def position(site: Installation) -> Position:
    """Where the database is."""
    with site.store.database.connect() as connection:
        return read_position(connection, site.store.tables)


class Cloud:
    """A cloud whose first half of events is known before the database goes back."""

    def __init__(self, site: Installation, nova: Line, events: int = 600) -> None:
        self.site, self.nova = site, nova
        self.simulator = CloudSimulator(seed=71, hosts=10, instances=60)
        self.history = list(self.simulator.history(events))
        self.half = events // 3

    def publish(self, begin: int, end: int | None = None) -> None:
        """Publish a part, and wait until it is committed."""
        self.nova.publish(self.history[begin:end])
        self.site.settle(self.nova)


def start(
    install: Callable[..., Installation], line: Callable[[str], Line], url: str
) -> tuple[Installation, Cloud, EngineProcess, Path]:
    """An engine that leads, and its cloud."""
    nova = line("nova")
    site = install(url, engine__enabled_sources="nova", engine__batch_size=100)
    site.options |= nova.source("nova")
    site.upgrade()
    config = site.config()
    engine = site.engine(config)
    engine.wait_until_leading()
    return site, Cloud(site, nova), engine, config


def finish(site: Installation, cloud: Cloud, engine: EngineProcess, config: Path, lost: int) -> None:
    """The engine has noticed once, and goes on in the history that the database has.

    :param lost: the index of the first event of the cloud that the database lost.
    """
    engine.wait_for_log(BACK)
    wait_until(lambda: engine.logged("Leading the engine group") == 2, what="the second lead")
    cloud.nova.publish(cloud.history[lost:])  # what a source that can rewind brings again
    site.settle(cloud.nova)
    site.drain(config, cloud.nova, engine=engine)
    assert engine.logged(BACK) == 1, "the engine notices once, and not in a loop"
    assert engine.logged("source nova: what the database lost is acknowledged") == 1
    assert engine.logged("Traceback") == 0, engine.log[-6000:]
    site.check(cloud.simulator.reported())


@pytest.mark.rare
def test_a_fail_over_to_a_standby_that_was_behind_is_noticed(
    install: Callable[..., Installation], line: Callable[[str], Line], own_postgresql: Server
) -> None:
    assert isinstance(own_postgresql, PostgreSQL)
    site, cloud, engine, config = start(install, line, own_postgresql.url)
    cloud.publish(0, cloud.half)
    standby = LateStandby(own_postgresql)
    standby.fall_behind()
    before = position(site)
    cloud.publish(cloud.half, 2 * cloud.half)
    acknowledged = position(site)
    assert acknowledged.seq > before.seq
    site.store.database.dispose()
    standby.take_over()
    finish(site, cloud, engine, config, cloud.half)
    assert position(site).epoch != before.epoch
    assert f"no commit at seq {acknowledged.seq} of epoch {before.epoch}" in engine.log


@pytest.mark.parametrize(
    ("database", "writer"),
    [
        ("postgresql", "overtaken"),
        *(pytest.param("sqlite", each, marks=pytest.mark.rare) for each in ("alone", "overtaken")),
        pytest.param("postgresql", "alone", marks=pytest.mark.rare),
        *(pytest.param("mariadb", each, marks=pytest.mark.rare) for each in ("alone", "overtaken")),
    ],
)
def test_a_backup_that_is_restored_under_a_running_engine_is_noticed(
    install: Callable[..., Installation],
    line: Callable[[str], Line],
    request: pytest.FixtureRequest,
    database: str,
    writer: str,
) -> None:
    site, cloud, engine, config = start(install, line, request.getfixturevalue(f"{database}_url"))
    cloud.publish(0, cloud.half)
    backup, before = Backup(site.store), position(site)
    instance = next(site.store.load().snapshot().all("instance"))
    cloud.publish(cloud.half, 2 * cloud.half)
    more = position(site).seq - before.seq + 3 if writer == "overtaken" else 0
    backup.restore(lambda connection: overtake(site, connection, instance, more))
    finish(site, cloud, engine, config, cloud.half)
    assert position(site).epoch != before.epoch


def overtake(site: Installation, connection: sa.Connection, entity: Entity, rows: int) -> None:
    """Write rows as another writer of the restored database does, which is faster than the engine."""
    for number in range(rows):
        add_remark(
            connection, site.store.tables, entity, "instance", event_type="test.remark", event_id=f"other-{number}",
            source="other", now=datetime.datetime.now(datetime.UTC),
        )  # fmt: skip


def backed_up(path: Path) -> Path:
    """A consistent copy of an SQLite file, beside it."""
    backup = path.with_suffix(".backup")
    with sqlite3.connect(path) as source, sqlite3.connect(backup) as target:
        source.backup(target)
    return backup


def test_an_sqlite_file_that_is_replaced_by_a_backup_takes_no_further_event(
    install: Callable[..., Installation], line: Callable[[str], Line], sqlite_url: str
) -> None:
    site, cloud, engine, config = start(install, line, sqlite_url)
    path = Path(str(sa.make_url(sqlite_url).database))
    cloud.publish(0, cloud.half)
    backup = backed_up(path)
    before = position(site)
    cloud.publish(cloud.half, 2 * cloud.half)
    site.store.database.dispose()
    os.replace(backup, path)
    cloud.nova.publish(cloud.history[2 * cloud.half :])
    finish(site, cloud, engine, config, cloud.half)
    assert position(site).epoch != before.epoch


def test_an_sqlite_file_that_is_deleted_takes_no_further_event(
    install: Callable[..., Installation], line: Callable[[str], Line], sqlite_url: str
) -> None:
    site, cloud, engine, config = start(install, line, sqlite_url)
    path = Path(str(sa.make_url(sqlite_url).database))
    cloud.publish(0, cloud.half)
    backup = backed_up(path)
    site.store.database.dispose()
    for suffix in ("", "-wal", "-shm"):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    cloud.nova.publish(cloud.history[cloud.half :])
    engine.wait_for_log("was deleted")
    assert not path.exists(), "an empty database would look like one without events"
    engine.terminate()  # what it acknowledges is acknowledged when it has ended
    # The broker takes back what the engine held when it notices that the connection has ended.
    wait_until(lambda: cloud.nova.waiting() == len(cloud.history) - cloud.half, what="the events in the queue")
    os.replace(backup, path)
    site.drain(config, cloud.nova)
    site.check(cloud.simulator.reported())
