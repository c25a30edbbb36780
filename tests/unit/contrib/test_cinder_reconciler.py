# SPDX-License-Identifier: Apache-2.0
"""How Cinder's answers become entities. A real Cinder answers in ``tests/real_cinder``."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
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


def run(site, **answers):
    """The model after a run; an answer is a document, or what makes one of the query."""

    def answer(asked):
        found = (EMPTY | answers)[asked.path]
        return 200, found(asked.query) if callable(found) else found

    site.api.answer = answer
    site.reconciler.run("cinder", allow_deletes=True, deadline=time.monotonic() + deadline(30))
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


def test_an_answer_of_another_form_changes_nothing(site):
    with pytest.raises(ReconcileError):
        run(site, **{SERVICES: {"services": [{"host": "h@fast"}]}})


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
    [asked] = [asked for asked in site.api.asked if asked.path == "/volumes/detail"]
    assert asked.query["sort"] == "id:asc"
