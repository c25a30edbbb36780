# SPDX-License-Identifier: Apache-2.0
"""A rolling upgrade under load: two engines and two API processes, one after the other.

The newer release is :class:`NextRelease`. The processes that are not restarted yet are the older release.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import EngineProcess, Installation, Line, scaled
from tests.functional.engine.next_release import NextRelease
from tests.functional.engine.rolling import PATIENCE_SECONDS, ApiProcess, Clients, MeterPlugin
from tests.waiting import deadline, wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator

pytestmark = [pytest.mark.rare, pytest.mark.alone, pytest.mark.timeout(900)]

RATE = 2_000
"""Events a second."""

UNNOTICED_SECONDS = 0.1
"""A p99 below this is no slow API, whatever it was before."""


@pytest.fixture
def site(install: Callable[..., Installation], postgresql_url: str) -> Installation:
    made = install(postgresql_url, engine__standby="true", database__lease_time=3, engine__graceful_shutdown_timeout=10)
    made.upgrade()
    return made


@contextlib.contextmanager
def apis_of(site: Installation) -> Iterator[list[ApiProcess]]:
    apis = [ApiProcess(site, number) for number in (1, 2)]
    try:
        yield apis
    finally:
        for api in apis:
            api.stop()


def started(site: Installation) -> EngineProcess:
    """An engine that stands by with its model."""
    engine = site.engine(site.config())
    engine.wait_for_log("Loaded the model", PATIENCE_SECONDS)
    return engine


def test_nothing_is_lost_and_the_api_serves_while_one_process_after_the_other_is_upgraded(
    site: Installation, line: Callable[[str], Line], figure: Callable[[str], None]
) -> None:
    nova = line("nova")
    site.options |= {"engine.enabled_sources": "nova", **nova.source("nova")}
    cloud = CloudSimulator(seed=181, hosts=50, instances=2_000)
    history = cloud.history(scaled(60_000))
    first = site.engine(site.config())
    first.wait_until_leading(PATIENCE_SECONDS)
    second = started(site)
    following = NextRelease(site.folder / "next")
    with apis_of(site) as apis, Clients(apis) as clients:
        began = time.monotonic()
        with nova.publishing(history, rate=RATE):
            wait_until(lambda: site.head() > 1_000, PATIENCE_SECONDS, "load")
            with clients.phase("before"):
                time.sleep(8)  # wait: the time that is measured
            with clients.phase("upgrade"), following.installed(site):
                site.manage("db_sync")
                assert second.terminate(PATIENCE_SECONDS)[0] == 0
                newer = started(site)
                assert first.terminate(PATIENCE_SECONDS)[0] == 0
                newer.wait_until_leading(PATIENCE_SECONDS)
                standby = started(site)
                for api in apis:
                    api.restart()
            published = time.monotonic()
        wait_until(lambda: not nova.waiting(), PATIENCE_SECONDS, "the end of the queue")
        figure(f"{scaled(60_000) / (time.monotonic() - began):.0f} events/s, upgraded in {published - began:.1f} s")
    standby.terminate(PATIENCE_SECONDS)
    site.drain(site.config(), nova, engine=newer, seconds=PATIENCE_SECONDS)
    site.check(cloud.reported())
    before, after = clients.p99("before"), clients.p99("upgrade")
    figure(
        f"API p99 {before * 1000:.0f} ms before ({len(clients.seconds['before'])} requests), "
        f"{after * 1000:.0f} ms during ({len(clients.seconds['upgrade'])}), {clients.repeated} repeated"
    )
    assert clients.errors == []
    assert after <= max(2 * before, UNNOTICED_SECONDS)
    for engine in (first, second, newer, standby):
        assert not engine.logged("The database is unavailable")
        assert not engine.logged("Traceback")


def test_of_a_plugin_with_a_new_field_only_its_own_events_wait_for_db_sync(
    site: Installation, line: Callable[[str], Line], figure: Callable[[str], None]
) -> None:
    plugin = MeterPlugin(site.folder / "plugin")
    site.environment["PYTHONPATH"] = str(plugin.folder)
    site.manage("db_sync")
    nova, meters = line("nova"), line("meters")
    site.options |= {
        "engine.enabled_sources": "nova, meters", **nova.source("nova"), **meters.source("meters"),
    }  # fmt: skip
    cloud = CloudSimulator(seed=182, hosts=50, instances=2_000)
    history = cloud.history(scaled(60_000))
    ended, numbers = threading.Event(), itertools.count(1)

    def publish() -> None:
        while not ended.wait(0.05):
            meters.publish([plugin.reading(next(numbers))])

    older = site.engine(site.config())
    older.wait_until_leading(PATIENCE_SECONDS)
    publishing = threading.Thread(target=publish, daemon=True)
    publishing.start()
    with nova.publishing(history, rate=RATE):
        wait_until(lambda: count(site, "meters") == 10, PATIENCE_SECONDS, "a reading of each meter")
        plugin.write(field='colour: Annotated[Text | None, In("state")] = None')
        newer = started(site)
        assert newer.logged("entity kind 'meter'")
        assert older.terminate(PATIENCE_SECONDS)[0] == 0
        newer.wait_until_leading(PATIENCE_SECONDS)
        wait_until(lambda: count(site, "quarantine") > 10, PATIENCE_SECONDS, "quarantined readings")
        head = site.head()
        wait_until(lambda: site.head() > head + RATE, PATIENCE_SECONDS, "the events of Nova")
        assert [row[0] for row in read(site, "SELECT DISTINCT source FROM quarantine")] == [meters_source(site)]
        site.manage("db_sync")
        upgraded = started(site)
        assert newer.terminate(PATIENCE_SECONDS)[0] == 0
        upgraded.wait_until_leading(PATIENCE_SECONDS)
    ended.set()
    publishing.join(deadline(30))
    site.drain(site.config(), nova, meters, engine=upgraded, seconds=PATIENCE_SECONDS)
    waited = count(site, "quarantine")
    site.manage("quarantine", "replay", "--all")
    figure(f"{waited} readings of {next(numbers) - 1} waited in quarantine; nothing of Nova did")
    assert count(site, "quarantine") == 0
    last = next(numbers) - 2
    assert max(row[0] for row in read(site, "SELECT reading FROM meters")) == last
    site.check_tables(cloud.reported())
    assert not newer.logged("The database is unavailable")


def meters_source(site: Installation) -> str:
    """The name of the source of readings."""
    return str(site.options["engine.enabled_sources"]).split(", ")[1]


def count(site: Installation, table: str) -> int:
    return int(read(site, f"SELECT COUNT(*) FROM {table}")[0][0])


def read(site: Installation, statement: str) -> list[sa.Row[tuple[object, ...]]]:
    with site.store.database.connect() as connection:
        return list(connection.execute(sa.text(statement)))
