# SPDX-License-Identifier: Apache-2.0
"""How Cinder's answers become entities. A real Cinder answers in ``tests/real_cinder``."""

from __future__ import annotations

import time

import pytest
from watcher_sync_cinder.kinds import KINDS
from watcher_sync_cinder.reconciler import CinderReconciler

from tests.simulated import telling
from tests.sites import Site
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.doubts import Doubts
from watcher_sync.exceptions import ConfigError, ReconcileError
from watcher_sync.model.kinds import Kinds
from watcher_sync.reconcile.plugins import make_reconciler

SERVICES, POOLS = "/os-services?binary=cinder-volume", "/scheduler-stats/get_pools?detail=true"
EMPTY = {"/types": "volume_types", "/volumes/detail": "volumes", "/snapshots/detail": "snapshots"}
UP = {"host": "h@fast", "status": "enabled", "state": "up", "disabled_reason": None, "zone": "nova"}


class Answers(CinderReconciler):
    """Answers from a table: path -> document."""

    def _get(self, path, deadline):
        known = {SERVICES: {"services": []}, POOLS: {"pools": []}, **self.answers}
        for prefix, key in EMPTY.items():
            if path not in known and path.startswith(prefix):
                return {key: []}
        return known[path]


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path, kinds=Kinds(*KINDS))
    context = make_context(made.conf, made.store, telling(made.store.kinds), lambda: made.model, doubts=Doubts())
    made.reconciler = make_reconciler("cinder", Answers, made.conf, context)
    yield made
    made.close()


def run(site, **answers):
    site.reconciler.answers = answers
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
    assert run(site, **{SERVICES: {"services": [UP]}})["storage_pool"] == {}


def test_an_answer_of_another_form_changes_nothing(site):
    with pytest.raises(ReconcileError):
        run(site, **{SERVICES: {"services": [{"host": "h@fast"}]}})


def test_all_pages_are_read(site):
    def page(start, size):
        return [
            {"id": f"t-{number:04}", "name": "t", "is_public": True, "extra_specs": {}}
            for number in range(start, start + size)
        ]

    first, more = "/types?is_public=None&limit=1000", "/types?is_public=None&limit=1000&marker=t-0999"
    found = run(site, **{first: {"volume_types": page(0, 1000)}, more: {"volume_types": page(1000, 3)}})
    assert len(found["volume_type"]) == 1003


def test_without_an_account_there_is_no_scope_and_with_two_there_is_an_error(site):
    assert site.reconciler.scopes() == []
    site.conf.set_override("cloud", "story", group="reconciler_cinder")
    assert site.reconciler.scopes() == ["cinder"]
    site.conf.set_override("auth_type", "password", group="reconciler_cinder")
    with pytest.raises(ConfigError):
        site.reconciler.scopes()
