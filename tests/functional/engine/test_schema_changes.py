# SPDX-License-Identifier: Apache-2.0
"""Engines on a schema that another release changes under them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import Installation, Line
from tests.waiting import wait_until
from watcher_sync.storage import schema
from watcher_sync.storage.conflicts import run_with_retries
from watcher_sync.storage.database import translated
from watcher_sync.testing.nova.cloud import CloudSimulator

EXPANSION = (
    "ALTER TABLE journal ADD COLUMN of_a_newer_release VARCHAR(32)",
    "ALTER TABLE journal_head ADD COLUMN of_a_newer_release VARCHAR(32)",
    "ALTER TABLE instances ADD COLUMN of_a_newer_release BIGINT DEFAULT 7 NOT NULL",
    "ALTER TABLE leases ADD COLUMN of_a_newer_release VARCHAR(32)",
    "CREATE TABLE of_a_newer_release (id BIGINT PRIMARY KEY)",
    "CREATE INDEX ix_of_a_newer_release ON instances (of_a_newer_release)",
    "UPDATE alembic_version SET version_num = '9999'",
)
"""What a migration of a newer release may do."""


def execute(site: Installation, *statements: str) -> None:
    """Run these statements in one transaction where the database has such, again after a deadlock, as ``db_sync``."""

    def run() -> None:
        with translated(), site.store.database.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    run_with_retries(run)


@pytest.fixture(
    params=["postgresql_url", *(pytest.param(name, marks=pytest.mark.rare) for name in ("sqlite_url", "mariadb_url"))]
)
def site(install: Callable[..., Installation], request: pytest.FixtureRequest) -> Installation:
    """One source, engines that stand by."""
    url = request.getfixturevalue(request.param)
    made = install(url, engine__enabled_sources="nova", engine__standby="true", engine__batch_size=100)
    made.upgrade()
    return made


def test_a_release_works_on_while_a_newer_one_expands_the_schema_and_starts_on_it(
    site: Installation, line: Callable[[str], Line]
) -> None:
    nova = line("nova")
    site.options |= nova.source("nova")
    cloud = CloudSimulator(seed=18, hosts=20, instances=200)
    leader = site.engine(site.config())
    leader.wait_until_leading()
    with nova.publishing(cloud.events(), rate=400, most=4_000):
        wait_until(lambda: site.head() > 200, what="load")
        execute(site, *EXPANSION)
        started = site.engine(site.config())
        started.wait_for_log("Loaded the model")
        leader.terminate()
        started.wait_until_leading()
    site.drain(site.config(), nova, engine=started)
    site.check(cloud.reported())
    for engine in (leader, started):
        assert not engine.logged("The database is unavailable")


def test_an_engine_stops_leading_on_a_schema_that_it_cannot_work_on_and_says_so_once(
    site: Installation, line: Callable[[str], Line]
) -> None:
    nova = line("nova")
    site.options |= nova.source("nova")
    cloud = CloudSimulator(seed=19, hosts=5, instances=20)
    engine = site.engine(site.config())
    engine.wait_until_leading()
    nova.publish(cloud.history(200))
    wait_until(lambda: site.head() > 0 and not nova.waiting(), what="the first events")
    execute(site, *EXPANSION, "UPDATE schema_compatibility SET oldest_revision = '9999'")
    engine.wait_for_log("Standing by until the schema is one of this release again")
    head = site.head()
    nova.publish(cloud.history(200))
    refused = site.run("watcher-sync-manage", "db_sync")
    assert refused.returncode == 1
    assert "this release knows" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert site.head() == head, "it commits though it does not lead"
    assert engine.logged("install the newer release") == 2, "once when it stops leading, once as a standby"
    execute(site, f"UPDATE schema_compatibility SET oldest_revision = '{schema.HEAD}'")
    wait_until(lambda: site.head() > head, what="a commit after that")
    site.drain(site.config(), nova, engine=engine)
    site.check(cloud.reported())
    with contextlib.suppress(ProcessLookupError):
        engine.signal(signal.SIGTERM)
