# SPDX-License-Identifier: Apache-2.0
"""The comparison of a followed site with its region: deletions, the delete guard, and what came meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from oslo_config import cfg

from tests.simulated import nova
from tests.sites import Site, parsed
from tests.waiting import Deadline, deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.doubts import Doubts
from watcher_sync.conf import opts
from watcher_sync.engine.source_reporter import SourceReporter
from watcher_sync.engine.supervision import Supervisor
from watcher_sync.exceptions import ReconcileError, SourceError
from watcher_sync.extensions.federation.reconcile import FederationReconciler
from watcher_sync.extensions.federation.source.listing import Listing
from watcher_sync.extensions.federation.source.states import RegionCursor
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.reconcile.base import Report
from watcher_sync.reconcile.scheduling import Reconciliation
from watcher_sync.sources.base import Source
from watcher_sync.storage.drifts import list_drifts
from watcher_sync.storage.writing.source_cursors import write_cursor


class Region:
    """What the region answers."""

    def __init__(self) -> None:
        self.ids: dict[str, set[str]] = {"aggregate": set()}
        self.failure = ""
        self.meanwhile: Callable[[], None] = lambda: None
        self.asked = 0
        self.seq = 7
        self.message = 0

    def __call__(self, conf: cfg.ConfigOpts, source: str, kinds: Collection[str], deadline: float) -> Listing:
        self.asked += 1
        self.meanwhile()
        if self.failure:
            raise SourceError(self.failure)
        return Listing({kind: ids for kind, ids in self.ids.items() if kind in kinds}, 3, self.seq, self.message)


@pytest.fixture
def region() -> Region:
    return Region()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    conf = parsed()
    conf.set_override("enabled_sources", ["north", "other"], group="engine")
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
    conf.set_override("driver", "federation", group="source_north")
    made = Site(tmp_path, conf=conf)
    yield made
    made.close()


@pytest.fixture
def doubts() -> Doubts:
    return Doubts()


@pytest.fixture
def reconciler(site: Site, region: Region, doubts: Doubts) -> FederationReconciler:
    context = make_context(site.conf, site.store, nova(), lambda: site.model, doubts=doubts)
    site.conf.register_opts(FederationReconciler.options, group="reconciler_federation")
    return FederationReconciler(site.conf, context, list_region=region)


def upsert(kind: str, entity_id: str, version: str = "1", **values: Any) -> Upsert:
    return Upsert(kind, entity_id, Version(version), {"state": values})


def filled(site: Site, count: int = 10) -> None:
    site.write(*(upsert("aggregate", f"{name}:{n}", name="n") for name in ("north", "other") for n in range(count)))


def run(reconciler: FederationReconciler, **arguments: bool) -> Report:
    return reconciler.run("north", deadline=time.monotonic() + deadline(120), **arguments)


def test_what_the_region_lacks_is_deleted_in_its_site_alone(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    region.ids["aggregate"] = set("23456789")
    report = run(reconciler)
    assert (reconciler.scopes(), report.complete, report.deleted, report.refused_deletes) == (["north"], True, 2, {})
    assert site.model.ids("aggregate") == [*(f"north:{n}" for n in range(2, 10)), *(f"other:{n}" for n in range(10))]
    assert list_drifts(site.store.database) == []


def test_an_entity_that_shows_a_loop_is_none_of_the_region(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    site.write(upsert("aggregate", "north:up:north:1", name="n"))
    region.ids["aggregate"] = {*"0123456789", "up:north:1"}
    assert run(reconciler).deleted == 1
    assert site.model.get("aggregate", "north:up:north:1") is None


def test_an_empty_answer_deletes_nothing_until_the_operator_confirms_it(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    report = run(reconciler)
    assert (report.deleted, report.refused_deletes, report.refused_share("aggregate")) == (
        0,
        {"aggregate": 10},
        "10 of 10",
    )
    assert site.model.count("aggregate") == 20
    drifts = list_drifts(site.store.database, source="north")
    assert [(d.kind, d.entity_id, d.field, d.live_value) for d in drifts] == [
        ("aggregate", f"north:{n}", "", None) for n in range(10)
    ]
    assert reconciler.interval("north") == site.conf.reconcile.interval
    assert run(reconciler, allow_deletes=True).deleted == 10
    assert site.model.ids("aggregate") == [f"other:{n}" for n in range(10)]
    assert list_drifts(site.store.database) == []
    assert reconciler.interval("north") == 3600


def test_a_dry_run_says_what_it_would_delete(site: Site, region: Region, reconciler: FederationReconciler) -> None:
    filled(site)
    region.ids["aggregate"] = set("123456789")
    report = run(reconciler, dry_run=True)
    assert [d.entity_id for d in report.differences] == ["north:0"]
    assert site.model.count("aggregate") == 20


def test_what_was_written_during_the_listing_stays(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    region.ids["aggregate"] = set("23456789")
    region.meanwhile = lambda: site.write(
        upsert("aggregate", "north:0", "2", name="m"), upsert("aggregate", "north:x", name="n")
    )
    assert run(reconciler).deleted == 1
    assert {"north:0", "north:x"} < set(site.model.ids("aggregate"))


def test_an_entity_of_an_old_event_is_deleted_at_the_next_run(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    """Such as one that is replayed from quarantine after its tombstone has expired."""
    filled(site)
    region.ids["aggregate"] = set("0123456789")
    site.write(upsert("aggregate", "north:old", name="n"))
    assert run(reconciler).deleted == 1
    assert "north:old" not in site.model.ids("aggregate")


def test_a_host_goes_with_the_aggregate_whose_deletion_changes_its_zone(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    service = {"service": {"status": "enabled"}}
    site.write(*(Upsert("compute_node", f"north:{name}", Version("1"), service) for name in "ab"))
    facets = {"state": {"name": "g", "availability_zone": "z"}, "hosts": {"hosts": ["north:a", "north:b"]}}
    site.write(Upsert("aggregate", "north:g", Version("1"), facets))
    assert site.model.get("compute_node", "north:a").availability_zone == "z"  # type: ignore[union-attr]
    region.ids = {"aggregate": set(), "compute_node": set()}
    assert run(reconciler, allow_deletes=True).deleted == 3
    assert (site.model.ids("compute_node"), list_drifts(site.store.database)) == ([], [])


@pytest.mark.slow
def test_a_host_that_comes_back_is_newer_than_its_deletion(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    def host(number: int, version: str) -> Upsert:
        return Upsert("compute_node", f"north:{number}", Version(version), {"service": {"status": "enabled"}})

    site.write(*(host(n, "1") for n in range(10)))
    region.ids["compute_node"] = set("123456789")
    assert run(reconciler).deleted == 1
    site.write(host(0, "1"))
    assert site.model.get("compute_node", "north:0") is None
    site.write(host(0, "2"))
    assert site.model.get("compute_node", "north:0") is not None


def test_a_listing_that_fails_deletes_nothing(site: Site, region: Region, reconciler: FederationReconciler) -> None:
    filled(site)
    region.failure = "no route"
    with pytest.raises(ReconcileError, match="north: the region cannot be listed: no route"):
        run(reconciler)
    assert site.model.count("aggregate") == 20


def test_an_api_behind_the_source_deletes_nothing(site: Site, region: Region, reconciler: FederationReconciler) -> None:
    filled(site)
    region.ids["aggregate"] = set("123456789")
    write_cursor(site.store.database, site.store.tables, "north", "8")
    with pytest.raises(ReconcileError, match="the region's API is at sequence 7, and the source at 8"):
        run(reconciler)
    assert site.model.count("aggregate") == 20
    region.seq = 8
    assert run(reconciler).deleted == 1


def test_a_log_is_behind_the_source_by_its_messages_whatever_their_seqs(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    """The last change, a deletion, may have expired, so what is left has a lower seq."""
    filled(site)
    region.ids["aggregate"] = set("123456789")
    write_cursor(site.store.database, site.store.tables, "north", RegionCursor(8, "log/e", message=30).text())
    region.message = 29
    with pytest.raises(ReconcileError, match="the region's log is at message 29, and the source at 30"):
        run(reconciler)
    region.message = 30
    assert run(reconciler).deleted == 1


def test_a_new_database_of_the_region_is_a_matter_of_the_delete_guard(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    write_cursor(site.store.database, site.store.tables, "north", "8")
    region.seq = 0
    assert run(reconciler).refused_deletes == {"aggregate": 10}


def test_a_site_without_entities_costs_no_request(region: Region, reconciler: FederationReconciler) -> None:
    assert run(reconciler).complete
    assert region.asked == 0


def test_a_kind_that_the_region_does_not_have_keeps_its_entities(
    site: Site, region: Region, reconciler: FederationReconciler
) -> None:
    filled(site)
    del region.ids["aggregate"]
    assert run(reconciler, allow_deletes=True).deleted == 0


def test_the_marks_of_other_systems_remain_for_their_reconcilers(
    reconciler: FederationReconciler, doubts: Doubts
) -> None:
    doubts.add("aggregate", "of-this-cloud")
    doubts.add("aggregate", "north:1")
    assert reconciler.wants_run("north")
    assert doubts.take("aggregate", 10) == ["of-this-cloud"]


def test_a_marked_entity_has_its_site_compared_once(reconciler: FederationReconciler, doubts: Doubts) -> None:
    assert not reconciler.wants_run("north")
    doubts.add("aggregate", "other:1")
    assert not reconciler.wants_run("north")
    doubts.add("aggregate", "north:1")
    assert reconciler.wants_run("north")
    assert not reconciler.wants_run("north")


def unused() -> Source:
    raise AssertionError("the source is started")


@pytest.mark.slow
def test_the_source_shows_the_refused_deletions(site: Site, reconciler: FederationReconciler) -> None:
    filled(site)
    reconciliation = Reconciliation(site.conf, [reconciler])
    reconciliation.start()
    try:
        limit = Deadline(60)
        while not reconciliation.source_notes():
            assert not limit.is_over
    finally:
        reconciliation.begin_stop()
        reconciliation.join(deadline(60))
    assert reconciliation.source_notes() == {
        "north": "The delete guard refuses deletions in federation/north: 10 of 10 aggregate, more than [reconcile] "
        "max_delete_percent. watcher-sync-manage reconcile --allow-deletes north confirms them"
    }
    reporter = SourceReporter(
        site.conf, site.store, {"north": Supervisor("north", unused, lambda _: None)}, notes=reconciliation.source_notes
    )
    assert reporter.rows()[0].notes.startswith("The delete guard refuses deletions in federation/north")
