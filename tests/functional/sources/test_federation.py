# SPDX-License-Identifier: Apache-2.0
"""An engine that follows a region: the region's API and outlet, and the engine, as executables over two databases."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa

from tests.functional.client.conftest import Site, running_site
from tests.functional.client.outlet import Outlet
from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.sources.federated import Sampler, dumped, has_union, quantile
from tests.simulated import nova
from tests.waiting import wait_until
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.storage.drifts import list_drifts
from watcher_sync.storage.groups.source_status import list_sources
from watcher_sync.storage.stored.retention import Retention, purge
from watcher_sync.storage.writing.journal import read_since

SITE = "north"


@pytest.fixture
def region(tmp_path: Path) -> Iterator[Site]:
    folder = tmp_path / "region"
    folder.mkdir()
    with running_site(folder) as site:
        yield site


@pytest.fixture
def outlet(region: Site) -> Iterator[Outlet]:
    made = Outlet(region)
    made.start()
    try:
        yield made
    finally:
        made.kill()


@pytest.fixture
def overall(tmp_path: Path, region: Site, outlet: Outlet, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """The global installation, on SQLite if the test names no other database; its engine is not started."""
    folder = tmp_path / "global"
    folder.mkdir()
    options = {
        "engine.enabled_sources": SITE,
        f"source_{SITE}.driver": "federation",
        f"source_{SITE}.endpoint": region.url,
        f"source_{SITE}.address": f"127.0.0.1:{outlet.port}",
        f"source_{SITE}.page_size": 7,
        f"source_{SITE}.backoff_max": 0.5,
    }
    url = request.getfixturevalue(f"{getattr(request, 'param', 'sqlite')}_url")
    with Installation(folder, url, options) as made:
        made.upgrade()
        yield made


def started(overall: Installation) -> EngineProcess:
    return overall.engine(overall.config())


def stored(overall: Installation) -> int:
    """Events in quarantine, and parked ones."""
    tables = overall.store.tables
    with overall.store.database.connect() as connection:
        return sum(
            connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one()
            for table in (tables.quarantine, tables.parked)
        )


def deletion(region: Site) -> Event:
    """The deletion of a server that the region has had from the beginning."""
    known = set(region.store.load().snapshot().ids("instance"))
    for event in region.events[:200]:
        if event.type.startswith("instance.") and event.time is not None:
            payload = event.read(dict[str, Any])
            if payload["nova_object.data"].get("uuid") in known:
                later = event.time + datetime.timedelta(days=1)
                stamp = later.strftime("%Y-%m-%dT%H:%M:%SZ")
                gone = {"state": "deleted", "deleted_at": stamp, "updated_at": stamp}
                payload["nova_object.data"] = {**payload["nova_object.data"], **gone}
                return msgspec.structs.replace(event, id="deletion", time=later, data=payload)
    raise AssertionError("the region has no server")


def wait_until_equal(region: Site, overall: Installation) -> None:
    wait_until(lambda: has_union(overall.store, {SITE: region.store}), 60, "the same entities")


@pytest.mark.parametrize(
    "overall", ["sqlite", *(pytest.param(name, marks=pytest.mark.rare) for name in ("postgresql", "mariadb"))],
    indirect=True,
)  # fmt: skip
def test_the_global_model_equals_the_region_after_the_listing_and_after_its_changes(
    region: Site, overall: Installation, figure: Callable[[str], None]
) -> None:
    engine = started(overall)
    wait_until_equal(region, overall)
    engine.wait_for_log(": connected")
    before = region.store.load().generation
    lags: list[float] = []
    medians: list[float] = []
    starts = range(200, len(region.events), 10)
    size = len(starts) // 5
    with Sampler(overall.store) as sampler:
        for first in range(0, len(starts), size):
            for start in starts[first : first + size]:
                region.commit(region.events[start : start + 10])
            with region.store.connect() as connection:
                rows = read_since(connection, region.store.tables, before, 10_000)
            wait_until(lambda: not rows or sampler.has(SITE, rows[-1]), what="the last change")  # noqa: B023
            if rows:
                before = rows[-1].seq
                lags += (lot := sampler.lags(SITE, rows))
                medians.append(quantile(lot, 0.5))
        wait_until_equal(region, overall)
    median, p99 = quantile(lags, 0.5), quantile(lags, 0.99)
    name = overall.store.database.dialect.name
    figure(f"{name}: {len(lags)} changes of a region, lag median {median:.3f} s, p99 {p99:.3f} s")
    # A pause of the machine delays all that is under way, but not every lot.
    assert min(medians) < 4, "the changes came without the stream"
    assert dumped(overall.store, "instance")
    assert not engine.logged("ERROR")
    assert stored(overall) == 0


def test_the_model_is_equal_after_kills_of_the_engine_and_of_the_outlet(
    region: Site, outlet: Outlet, overall: Installation
) -> None:
    engine = started(overall)
    for number, start in enumerate(range(200, len(region.events), 5)):
        region.commit(region.events[start : start + 5])
        if number % 6 == 2:
            engine.kill()
            engine = started(overall)
        if number % 6 == 4:
            outlet.kill()
            outlet.start()
    wait_until_equal(region, overall)
    assert stored(overall) == 0


def test_a_purged_position_is_healed_by_a_listing_with_deletions(region: Site, overall: Installation) -> None:
    engine = started(overall)
    wait_until_equal(region, overall)
    wait_until(lambda: SITE in overall.store.cursors(), what="the position after the listing")
    engine.kill()
    before = {each["id"] for each in dumped(overall.store, "instance")}
    region.commit([*region.events[200:], deletion(region)])
    retention = Retention(
        journal_rows=1, journal_age=None, tombstone_age=datetime.timedelta(days=1), quarantine_age=None
    )
    purge(region.store.database, region.store.tables, retention, datetime.datetime.now(datetime.UTC))

    engine = started(overall)
    wait_until_equal(region, overall)
    assert before - {each["id"] for each in dumped(overall.store, "instance")}, "no instance was deleted"
    engine.wait_for_log("listing again")


def test_a_change_of_versions_alone_follows_without_an_event_of_the_stream(region: Site, overall: Installation) -> None:
    """The stream skips it. A copy that lacked it would order what comes late differently from the region."""
    engine = started(overall)
    wait_until_equal(region, overall)
    engine.wait_for_log(": connected")
    model = region.store.load()
    entity = next(each for each in model.snapshot().all("instance") if each.versions)
    facet = next(iter(model.kinds["instance"].facets))
    with DirectWriter(region.store, nova()).begin() as cycle:
        newer = Version(f"{entity.versions[0]}!")
        upsert = Upsert("instance", entity.id, newer, {facet: {}})
        cycle.write(Event(id="version", type="test", source="test"), [upsert])
    assert region.store.load().get("instance", entity.id).versions[0] == newer  # type: ignore[union-attr]
    wait_until_equal(region, overall)


@pytest.mark.rare
@pytest.mark.timeout(300)
def test_a_region_with_an_empty_database_deletes_nothing_until_the_operator_confirms_it(
    region: Site, outlet: Outlet, overall: Installation
) -> None:
    overall.options |= {"monitoring.status_interval": 0.2, "reconcile.interval": 1}
    engine = started(overall)
    wait_until_equal(region, overall)
    before = dumped(overall.store, "instance")
    assert len(before) > 3
    outlet.kill()
    region.stop()
    forget_everything(region)
    region.start()
    outlet.start()
    engine.wait_for_log("The delete guard refuses deletions in federation/north", 90)
    engine.wait_for_log("listing again")
    assert dumped(overall.store, "instance") == before

    def notes() -> str:
        return next(row.notes or "" for row in list_sources(overall.store.database) if row.source == SITE)

    wait_until(lambda: f"{len(before)} of {len(before)} instance" in notes(), what="the notes of the source")
    drifts = {d.entity_id for d in list_drifts(overall.store.database, kind="instance", source=SITE)}
    assert drifts == {each["id"] for each in before}
    refused = overall.run("watcher-sync-manage", "reconcile", SITE)
    assert refused.returncode == 1
    assert "refused to delete" in refused.stderr
    assert dumped(overall.store, "instance") == before

    overall.manage("reconcile", "--allow-deletes", SITE)
    assert dumped(overall.store, "instance") == []
    wait_until(lambda: "guard" not in notes(), what="the end of the refusal")
    assert not list_drifts(overall.store.database, source=SITE)


def forget_everything(region: Site) -> None:
    """Leave the region a new database: no entities, a short journal, and the topics."""
    tables = region.store.tables
    with region.store.database.begin() as connection:
        for table in (*tables.entities.values(), tables.tombstones, tables.journal):
            connection.execute(table.delete())
        connection.execute(tables.journal_head.update().values(seq=0))
    region.cycle = CommitCycle(region.store, region.store.load(), nova())
    created = next(event for event in region.events if event.type == "aggregate.create.end")
    region.commit([created])
