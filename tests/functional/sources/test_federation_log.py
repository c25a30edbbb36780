# SPDX-License-Identifier: Apache-2.0
"""An engine that follows the log of a region: the region's outlet and the engine, as executables over two databases."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.engine.driving import EngineProcess, Installation
from tests.functional.sources.federated import has_union
from tests.functional.sources.jetstream import dcm_of
from tests.services.ensure import url_of
from tests.simulated import cloud, nova
from tests.waiting import wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.extensions.log.cursors import read_outlet
from watcher_sync.model.changes import Upsert, Version

SITE = "north"


class Region:
    """A database with a simulated cloud, and its outlet."""

    def __init__(self, site: Installation) -> None:
        self.site = site
        self.cycle = CommitCycle(site.store, site.store.load(), nova())
        self.events: list[Event] = cloud(seed=7, n=400)[0]

    def commit(self, first: int, end: int) -> None:
        """These events, as an engine would."""
        for start in range(first, end, 25):
            self.cycle.run(Batch(events=self.events[start : min(end, start + 25)]))

    def outlet(self) -> EngineProcess:
        """Start the outlet, and return at once."""
        log = self.site.folder / f"outlet-{len(self.site.engines) + 1}.log"
        process = EngineProcess(
            self.site.command("watcher-sync-outlet", self.site.config()), log, self.site.environment
        )  # fmt: skip
        self.site.engines.append(process)
        return process


@pytest.fixture
def stream() -> Iterator[str]:
    name = f"watcher-sync-test-{secrets.token_hex(6)}"
    yield name
    with dcm_of(url_of("nats")) as dcm:
        dcm.delete_stream(f"{name}-model")
        dcm.delete_stream(name)


@pytest.fixture
def region(tmp_path: Path, stream: str) -> Iterator[Region]:
    options = {
        "outlet_webhook.enabled": "false",
        "outlets.enabled": "bus",
        "database.lease_time": 2,
        "outlet_bus.driver": "nats_jetstream",
        "outlet_bus.servers": url_of("nats"),
        "outlet_bus.stream": stream,
        "outlet_bus.subject_prefix": stream,
        "outlet_bus.partition": SITE,
        "outlet_bus.stream_mode": "create",
    }
    folder = tmp_path / "region"
    folder.mkdir()
    with Installation(folder, f"sqlite:///{folder / 'region.sqlite'}", options) as site:
        site.upgrade()
        yield Region(site)


@pytest.fixture
def overall(tmp_path: Path, stream: str, sqlite_url: str) -> Iterator[Installation]:
    """The global installation; its engine is not started."""
    folder = tmp_path / "global"
    folder.mkdir()
    options = {
        "engine.enabled_sources": SITE,
        f"source_{SITE}.driver": "federation_log",
        f"source_{SITE}.servers": url_of("nats"),
        f"source_{SITE}.stream": stream,
        "monitoring.status_interval": 0.2,
    }
    with Installation(folder, sqlite_url, options) as made:
        made.upgrade()
        yield made


def started(overall: Installation) -> EngineProcess:
    return overall.engine(overall.config())


def wait_until_equal(region: Region, overall: Installation) -> None:
    wait_until(
        lambda: has_union(overall.store, {SITE: region.site.store}, versions=False), 60, "the same entities"
    )  # fmt: skip


def test_the_global_model_equals_the_region_after_its_model_its_changes_and_kills(
    region: Region, overall: Installation
) -> None:
    region.commit(0, 200)
    outlet, engine = region.outlet(), started(overall)
    wait_until_equal(region, overall)
    for number, start in enumerate(range(200, 400, 20)):
        region.commit(start, start + 20)
        if number % 4 == 1:
            engine.kill()
            engine = started(overall)
        if number % 4 == 3:
            outlet.kill()
            outlet = region.outlet()
    wait_until_equal(region, overall)
    outlet.kill()
    engine.terminate()
    overall.check_journal()
    assert not engine.logged("ERROR")


def test_an_engine_that_was_away_beyond_the_retention_of_the_log_reads_the_model_again(
    region: Region, overall: Installation, stream: str
) -> None:
    region.commit(0, 200)
    region.outlet()
    engine = started(overall)
    wait_until_equal(region, overall)
    engine.terminate()
    region.commit(200, 400)
    head = region.site.head()
    wait_until(lambda: published(region) >= head)
    with dcm_of(url_of("nats")) as dcm:
        dcm.do(dcm.js.purge_stream(stream))
    engine = started(overall)
    wait_until_equal(region, overall)
    engine.wait_for_log("reading the model of the region")
    assert "went back in time" not in engine.log


def test_the_reconciler_deletes_what_the_log_does_not_have(region: Region, overall: Installation) -> None:
    region.commit(0, 100)
    region.outlet()
    engine = started(overall)
    wait_until_equal(region, overall)
    engine.terminate()
    with DirectWriter(overall.store, nova()).begin() as cycle:
        lost = Upsert("aggregate", f"{SITE}:lost", Version("0"), {"state": {}})
        cycle.write(Event(id="lost", type="test", source=SITE), [lost])
    overall.manage("reconcile", "--allow-deletes", SITE, config=overall.config())
    wait_until_equal(region, overall)


def published(region: Region) -> int:
    """Up to which seq the log has the journal."""
    cursor = read_outlet(region.site.store.database, "bus")
    return cursor.published_seq if cursor is not None else 0
