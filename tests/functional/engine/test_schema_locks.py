# SPDX-License-Identifier: Apache-2.0
"""``db_sync`` beside processes that work: it names the lock that it waits for, and blocks no other for long."""

from __future__ import annotations

import contextlib
import importlib.metadata
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import Installation
from tests.functional.engine.next_release import NextRelease
from tests.functional.executables import start
from tests.waiting import deadline, wait_until
from watcher_sync.storage.database.database_time import read_clock
from watcher_sync.storage.groups.engines import EngineRow, write_engine
from watcher_sync.storage.schema import schema


@pytest.fixture(params=["postgresql_url", "mariadb_url"])
def site(install: Callable[..., Installation], request: pytest.FixtureRequest) -> Installation:
    made = install(request.getfixturevalue(request.param))
    made.upgrade()
    return made


def at_work(site: Installation, release: str) -> None:
    """An engine of a release reports itself."""
    database = site.store.database
    now = read_clock(database)
    row = EngineRow(
        id="compute-1/x/y/4711/z", engine_group="default", host="compute-1", pid=4711, release=release, since=now,
        heartbeat_at=now, seq=0, lag_seconds=0.0, sources=["nova"],
    )  # fmt: skip
    write_engine(database, row)


def test_a_lock_of_another_process_is_named_at_once_and_the_others_work_on(site: Installation) -> None:
    at_work(site, "0.0.9")
    following, log = NextRelease(site.folder / "next"), site.folder / "db_sync.log"
    aggregates = site.store.tables.metadata.tables["aggregates"]
    idle = sa.create_engine(site.url)  # without limits of time
    other = idle.connect()
    other.execute(sa.select(sa.func.count()).select_from(aggregates))  # its transaction stays open
    with following.installed(site):
        running = start([*site.command("watcher-sync-manage", site.config()), "db_sync"], log, site.environment)
    try:
        wait_until(lambda: "compute-1" in log.read_text(), what="a line of what it waits for")
        assert "waits for a lock" in log.read_text()
        assert "0.0.9" in log.read_text()
        with site.store.database.connect() as reader:  # each attempt ends, and with it the queue behind it
            reader.execute(sa.select(aggregates).limit(1)).all()
        assert running.poll() is None
    finally:
        other.close()
        idle.dispose()
    assert running.wait(deadline(60)) == 0, log.read_text()
    assert "waits for a lock" in log.read_text()
    with site.store.database.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one() == following.revision


def test_a_lock_that_does_not_end_ends_db_sync_in_time_and_nothing_is_changed(site: Installation) -> None:
    following = NextRelease(site.folder / "next")
    idle = sa.create_engine(site.url)
    with contextlib.closing(idle.connect()) as other, following.installed(site):
        other.execute(sa.select(site.store.tables.journal.c.seq))
        done = site.run("watcher-sync-manage", "db_sync", seconds=180)
    idle.dispose()
    assert done.returncode == 1
    assert "waits for a lock" in done.stderr
    with site.store.database.connect() as connection:
        assert connection.execute(sa.text("SELECT version_num FROM alembic_version")).scalar_one() == schema.HEAD


def test_nothing_is_waited_for_where_nothing_is_to_be_done(site: Installation) -> None:
    idle = sa.create_engine(site.url)
    with contextlib.closing(idle.connect()) as other:
        other.execute(sa.select(site.store.tables.journal.c.seq))
        done = site.run("watcher-sync-manage", "db_sync")
    idle.dispose()
    assert done.returncode == 0, done.stderr
    assert "waits for a lock" not in done.stderr


def test_an_account_of_mariadb_that_may_lock_no_tables_upgrades_without_the_trial(
    install: Callable[..., Installation], mariadb_url: str
) -> None:
    site = install(mariadb_url)
    site.upgrade()
    url = sa.make_url(mariadb_url)
    admin = sa.create_engine(mariadb_url)
    rights = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES"
    with admin.begin() as connection:
        connection.exec_driver_sql(f"CREATE USER '{url.database}'@'%%' IDENTIFIED BY 'pw'")
        connection.exec_driver_sql(f"GRANT {rights} ON `{url.database}`.* TO '{url.database}'@'%%'")
    try:
        restricted = url.set(username=url.database, password="pw").render_as_string(hide_password=False)
        site.options["database.connection"] = restricted
        following = NextRelease(site.folder / "next")
        assert following.revision in following.db_sync(site)
    finally:
        with admin.begin() as connection:
            connection.exec_driver_sql(f"DROP USER '{url.database}'@'%%'")
        admin.dispose()


@pytest.mark.parametrize("options", [(), ("--contract",)], ids=["expand", "contract"])
def test_engines_of_another_release_are_named(site: Installation, options: tuple[str, ...]) -> None:
    at_work(site, "0.0.9")
    printed = site.manage("db_sync", *options)
    assert "The engine compute-1:4711 of release 0.0.9 is at work: restart it with this release." in printed


def test_engines_of_this_release_are_not_named(site: Installation) -> None:
    at_work(site, importlib.metadata.version("watcher-sync"))
    assert "compute-1" not in site.manage("db_sync")
