# SPDX-License-Identifier: Apache-2.0
"""Engines on a schema that another release changes under them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import Installation, Line
from tests.functional.engine.next_release import NextRelease
from tests.waiting import wait_until
from watcher_sync.storage.schema import schema
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.fixture(
    params=["postgresql_url", *(pytest.param(name, marks=pytest.mark.rare) for name in ("sqlite_url", "mariadb_url"))]
)
def site(install: Callable[..., Installation], request: pytest.FixtureRequest) -> Installation:
    """One source, engines that stand by."""
    url = request.getfixturevalue(request.param)
    made = install(url, engine__enabled_sources="nova", engine__standby="true", engine__batch_size=100)
    made.tolerate_pauses()
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
        NextRelease(site.folder / "next").db_sync(site)
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
    following = NextRelease(site.folder / "next")
    following.db_sync(site)
    following.db_sync(site, "--contract")
    engine.wait_for_log("Standing by until the schema is one of this release again")
    head = site.head()
    nova.publish(cloud.history(200))
    refused = site.run("watcher-sync-manage", "db_sync")
    assert refused.returncode == 1
    assert "this release knows" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
    assert site.head() == head, "it commits though it does not lead"
    assert engine.logged("install the newer release") == 2, "once when it stops leading, once as a standby"
    with site.store.database.begin() as connection:
        connection.execute(sa.update(site.store.tables.schema_compatibility).values(oldest_revision=schema.HEAD))
    wait_until(lambda: site.head() > head, what="a commit after that")
    site.drain(site.config(), nova, engine=engine)
    site.check(cloud.reported())
    with contextlib.suppress(ProcessLookupError):
        engine.signal(signal.SIGTERM)
