# SPDX-License-Identifier: Apache-2.0
"""How Cinder's answers become entities. A real Cinder answers in ``tests/real_cinder``."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from watcher_sync_cinder.kinds import KINDS
from watcher_sync_cinder.reconciler import CinderReconciler

from tests.json_api import JsonApi
from tests.simulated import telling
from tests.sites import Site, parsed
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.doubts import Doubts
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.model.kinds import Kinds
from watcher_sync.reconcile.plugins import make_reconciler
from watcher_sync.storage.groups.source_status import list_inventories

SERVICES, POOLS, TYPES = "/os-services", "/scheduler-stats/get_pools", "/types"
EMPTY = {
    SERVICES: {"services": []},
    POOLS: {"pools": []},
    TYPES: {"volume_types": []},
    "/volumes/detail": {"volumes": []},
    "/snapshots/detail": {"snapshots": []},
}
UP = {"host": "h@fast", "status": "enabled", "state": "up", "disabled_reason": None, "zone": "nova", "cluster": None}


@pytest.fixture
def api():
    with JsonApi(lambda asked: (200, EMPTY)) as made:
        yield made


@pytest.fixture
def site(api, tmp_path):
    made = Site(tmp_path, kinds=Kinds(*KINDS))
    made.api, made.folder = api, tmp_path
    made.reconciler = reconciler(made, f"auth_type = none\nendpoint = {api.url}\n")
    yield made
    made.close()


def reconciler(site, text):
    file = Path(site.folder, "watcher-sync.conf")
    file.write_text(f"[reconciler_cinder]\n{text}")
    conf = parsed(["--config-file", str(file)])
    context = make_context(conf, site.store, telling(site.store.kinds), lambda: site.model, doubts=Doubts())
    return make_reconciler("cinder", CinderReconciler, conf, context)


def compare(site, **answers):
    """The report of a run; an answer is a document, or what makes one of the query. What is None is not found."""

    def answer(asked):
        if "watcher_sync" in asked.query:  # as Cinder answers an administrator about an unknown filter
            return answers.get("filter", (200, {"volumes": []}))
        found = (EMPTY | answers).get(asked.path)
        found = found(asked.query) if callable(found) else found
        return (404, {}) if found is None else (200, found)

    site.api.answer = answer
    return site.reconciler.run("cinder", allow_deletes=True, deadline=time.monotonic() + deadline(30))


def run(site, **answers):
    """The model after a run."""
    compare(site, **answers)
    snapshot = site.store.load().snapshot()
    return {kind: {row["id"]: row for row in snapshot.dump(kind)} for kind in snapshot.kinds}


def capabilities(**more):
    return {
        "total_capacity_gb": "infinite",
        "free_capacity_gb": "unknown",
        "max_over_subscription_ratio": "auto",
        **more,
    }


def test_a_capacity_that_is_no_number_is_unknown(site):
    pool = {"name": "h@fast#a", "capabilities": capabilities(reserved_percentage=5, provisioned_capacity_gb="7.5")}
    found = run(site, **{SERVICES: {"services": [UP]}, POOLS: {"pools": [pool]}})["storage_pool"]["h@fast#a"]
    assert (found["total_capacity_gb"], found["free_capacity_gb"], found["max_over_subscription_ratio"]) == (None,) * 3
    assert (found["provisioned_capacity_gb"], found["reserved_percentage"]) == (7.5, 5)
    assert (found["backend_id"], found["name"]) == ("h@fast", "a")


@pytest.mark.parametrize("hidden", [{"status": "disabled"}, {"state": "down"}])
def test_a_pool_that_the_scheduler_hides_stays_as_it_is(site, hidden):
    pool = {"name": "h@fast#a", "capabilities": capabilities(reserved_percentage=5)}
    before = run(site, **{SERVICES: {"services": [UP]}, POOLS: {"pools": [pool]}})
    after = run(site, **{SERVICES: {"services": [{**UP, **hidden}]}})
    assert after["storage_pool"] == before["storage_pool"]
    assert after["storage_backend"]["h@fast"] != before["storage_backend"]["h@fast"]


@pytest.mark.parametrize("answer", [{}, {"services": None}, {"services": {}}])
def test_an_answer_of_another_form_changes_nothing(site, answer):
    with pytest.raises(ReconcileError, match="/os-services: services is not a list"):
        run(site, **{SERVICES: answer})


def test_all_pages_are_read_with_the_microversion(site):
    def page(query):
        start = int(query.get("marker", "t-0")[2:])
        found = [
            {"id": f"t-{n}", "name": "t", "is_public": True, "extra_specs": {}} for n in range(start + 1, start + 4)
        ]
        return {"volume_types": found, **({"volume_type_links": [{"rel": "next"}]} if start < 3 else {})}

    assert len(run(site, **{TYPES: page})["volume_type"]) == 6
    assert {asked.headers["OpenStack-API-Version"] for asked in site.api.asked} == {"volume 3.65"}
    assert {asked.query["all_tenants"] for asked in site.api.asked if asked.path.endswith("/detail")} == {"1"}


def test_without_an_account_there_is_no_scope_and_with_two_there_is_an_error(site):
    assert reconciler(site, "interval = 5\n").scopes() == []
    with pytest.raises(ConfigError, match="cloud, auth_type: are both set"):
        reconciler(site, "auth_type = password\ncloud = story\n")


@pytest.mark.parametrize("cluster", [None, "c@fast"])
def test_a_pool_stays_while_the_scheduler_has_no_report_of_its_backend(site, cluster):
    """A scheduler lists no pool of a backend that has not reported since the scheduler started."""
    name = f"{cluster or 'h@fast'}#a"
    up, pool = {**UP, "cluster": cluster}, {"name": name, "capabilities": capabilities()}
    assert name in run(site, **{SERVICES: {"services": [up]}, POOLS: {"pools": [pool]}})["storage_pool"]
    assert name in run(site, **{SERVICES: {"services": [up]}})["storage_pool"]
    other = {**pool, "name": pool["name"].replace("#a", "#b")}
    assert list(run(site, **{SERVICES: {"services": [up]}, POOLS: {"pools": [other]}})["storage_pool"]) == [
        other["name"]
    ]
    assert run(site)["storage_pool"] == {}


def test_volumes_are_listed_in_an_order_that_no_migration_changes(site):
    """A migration changes ``created_at``, by which Cinder sorts: a volume would be in no page, and deleted."""
    run(site)
    [_, asked] = [asked for asked in site.api.asked if asked.path == "/volumes/detail"]
    assert asked.query["sort"] == "id:asc"


@pytest.mark.parametrize("number", [b"Infinity", b"-Infinity", b"NaN", b'"inf"', b'"nan"', b"1e999", b"[]"])
def test_a_capability_without_a_finite_number_is_unknown(site, number):
    pool = {"name": "h@fast#a", "capabilities": capabilities(total_volumes="@", reserved_percentage="@", free="@")}
    text = json.dumps({"pools": [pool]}).encode().replace(b'"@"', number)
    found = run(site, **{SERVICES: {"services": [UP]}, POOLS: text})["storage_pool"]["h@fast#a"]
    assert (found["total_volumes"], found["reserved_percentage"], found["backend_id"]) == (None, None, "h@fast")


def volume(number, **more):
    return {
        "id": f"v{number}", "name": "v", "status": "available", "size": 1, "user_id": "u",
        "os-vol-tenant-attr:tenant_id": f"p{number % 3}", "availability_zone": "nova", "volume_type_id": "t",
        "snapshot_id": None, "created_at": "2026-01-01T00:00:00", "metadata": {}, "os-vol-host-attr:host": "h@fast#a",
        "attachments": [], "bootable": "true", "multiattach": False, "source_volid": None, "migration_status": None,
        "os-vol-mig-status-attr:name_id": None, "consumes_quota": True, **more,
    }  # fmt: skip


def volumes(*found):
    return {"/volumes/detail": {"volumes": list(found)}}


ALL = [volume(n) for n in range(12)]


def test_a_cinder_that_is_too_old_is_named_by_its_inventory(site):
    site.api.answer = lambda asked: (406, {"computeFault": {"message": "Version 3.65 is not supported by the API."}})
    with pytest.raises(ReconcileError):
        site.reconciler.run("cinder", deadline=time.monotonic() + deadline(30))
    [inventory] = list_inventories(site.store.database)
    assert (inventory.source, inventory.complete_since) == ("cinder", None)
    assert inventory.problem.endswith("406: Version 3.65 is not supported by the API.")
    run(site)
    [inventory] = list_inventories(site.store.database)
    assert inventory.complete_since is not None
    assert inventory.problem == ""


def test_a_temporary_volume_is_left_out(site):
    assert list(run(site, **volumes(volume(0), volume(1, consumes_quota=False)))["volume"]) == ["v0"]


def test_an_account_whose_filters_are_refused_sees_its_project_alone_and_changes_nothing(site):
    run(site, **volumes(*ALL))
    refused = (400, {"badRequest": {"message": "Invalid filters watcher_sync are found in query options."}})
    with pytest.raises(ReconcileError, match=r"Invalid filters watcher_sync.*the account needs the role admin"):
        compare(site, filter=refused, **volumes(*ALL[:3]))
    assert len(list(site.model.dump("volume"))) == 12


def test_without_that_proof_a_listing_of_one_project_deletes_no_volume_of_another(site):
    run(site, **volumes(*ALL))
    own = [one for one in ALL if one["os-vol-tenant-attr:tenant_id"] == "p0"]
    report = compare(site, filter=(200, {"volumes": [volume(0)]}), **volumes(*own[1:]))
    assert not report.complete
    assert "is listed: to see all projects, the account needs the role admin" in report.failures["volume"]
    assert {row["id"] for row in site.model.dump("volume")} >= {one["id"] for one in ALL[1:]}


def test_a_volume_that_the_list_lacks_and_that_exists_stays(site):
    run(site, **volumes(*ALL))
    report = compare(site, **volumes(*ALL[2:]), **{"/volumes/v0": {"volume": volume(0, name="renamed")}})
    assert (report.deleted, report.failures) == (1, {"volume": "the listing lacks 1 that exist, such as v0"})
    found = {row["id"]: row["name"] for row in site.model.dump("volume")}
    assert (found["v0"], len(found)) == ("renamed", 11)


def test_a_volume_that_is_the_marker_of_a_page_may_be_deleted(site):
    existing = list(ALL)

    def page(query):
        ids = [one["id"] for one in existing]
        if "marker" in query and len(existing) == 12:
            existing.remove(next(one for one in existing if one["id"] == query["marker"]))
        if query.get("marker", "v0") not in [one["id"] for one in existing]:
            return None
        begin = ids.index(query["marker"]) + 1 if "marker" in query else 0
        shown = existing[begin : begin + 5]
        return {"volumes": shown, **({"volumes_links": [{"rel": "next"}]} if len(shown) == 5 else {})}

    assert compare(site, **{"/volumes/detail": page}).complete
    run(site, **{"/volumes/detail": page})
    assert {row["id"] for row in site.model.dump("volume")} == {one["id"] for one in existing}


def test_a_volume_in_two_pages_with_different_contents_is_asked_for(site):
    answers = volumes(*ALL, volume(0, name="stale")) | {"/volumes/v0": {"volume": volume(0)}}
    run(site, **answers)
    report = compare(site, **answers)
    assert (report.complete, report.differences) == (True, ())


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from([*volume(0), None]), JSON)
def test_any_value_in_any_field_of_one_volume_leaves_the_others_as_they_are(site, field, value):
    found = ALL[:6]
    expected = {row["id"]: row for row in run(site, **volumes(*found))["volume"].values() if row["id"] != "v3"}
    odd = {**found[3], field: value} if field else value
    answers = volumes(*found[:3], odd, *found[4:]) | {"/volumes/v3": {"volume": odd}}
    after = {row["id"]: row for row in run(site, **answers)["volume"].values()}
    assert {key: row for key, row in after.items() if key in expected} == expected


@pytest.mark.parametrize(
    ("path", "key", "entry"),
    [
        (SERVICES, "services", {**UP, "host": "h@slow", "zone": []}),
        (POOLS, "pools", {"name": "h@fast#b", "capabilities": None}),
        (TYPES, "volume_types", {"id": "t2", "name": {}, "is_public": True, "extra_specs": {}}),
        ("/snapshots/detail", "snapshots", {"id": "s2", "name": "s"}),
    ],
)
def test_an_odd_entry_of_any_list_is_named_and_costs_no_other(site, path, key, entry):
    answers = {SERVICES: {"services": [UP]}, POOLS: {"pools": [{"name": "h@fast#a", "capabilities": capabilities()}]}}
    before = run(site, **answers)
    document = (EMPTY | answers)[path]
    report = compare(site, **answers | {path: {key: [*document[key], entry]}})
    assert (report.complete, report.differences, len(report.refused_writes)) == (True, (), 1)
    assert before["storage_pool"]
