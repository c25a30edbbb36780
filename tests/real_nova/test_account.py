# SPDX-License-Identifier: Apache-2.0
"""The account that is no administrator, with exactly the rules of our documentation, against a real Nova."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.real_nova.cloud import Cloud
from tests.real_nova.hosted.network import NETWORK_ID
from tests.real_nova.modes import RECONCILIATION, Follower
from tests.real_nova.settings import AUDITOR, COMPUTES, login
from tests.real_nova.stage import Stage
from tests.real_nova.truth import differences, read_truth
from watcher_sync.storage.groups.source_status import read_inventory

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def stage(cloud: Cloud) -> Iterator[Stage]:
    """Servers of two projects, one of them soft-deleted, one resized, one in a group, one with a private flavor."""
    made = Stage(cloud, None)
    seeded = cloud.seeded
    assert seeded is not None
    body: dict[str, Any] = {"name": "a-private", "vcpus": 1, "ram": 512, "disk": 1, "os-flavor-access:is_public": False}
    seeded.flavors["a-private"] = made.admin.post("nova", "/v2.1/flavors", {"flavor": body})["flavor"]["id"]
    for name, flavor, by in (
        ("a-plain", "small", made.tenant),
        ("a-hidden", "a-private", None),
        ("a-soft", "large", None),
        ("a-gone", "small", made.tenant),
    ):
        made.boot(name, flavor=flavor, host=None if by else COMPUTES[0], by=by, event=None)
    made.boot("a-resized", host=COMPUTES[0], event=None)
    group = made.tenant.post("nova", "/v2.1/os-server-groups", {"server_group": {"name": "a", "policy": "affinity"}})
    hints = {"group": group["server_group"]["id"]}
    server = {"name": "a-grouped", "flavorRef": seeded.flavors["small"], "imageRef": seeded.images["first"]}
    server["networks"] = [{"uuid": NETWORK_ID}]
    answer = made.tenant.post("nova", "/v2.1/servers", {"server": server, "os:scheduler_hints": hints})
    made.servers["a-grouped"] = answer["server"]["id"]
    made.await_status("a-grouped", "ACTIVE")
    made.admin.call("DELETE", "nova-soft", f"/v2.1/servers/{made.servers['a-soft']}")
    made.await_status("a-soft", "SOFT_DELETED")
    made.act("a-resized", "resize", {"flavorRef": seeded.flavors["large"]})
    made.await_status("a-resized", "VERIFY_RESIZE")
    yield made
    for name in list(made.servers):
        made.delete(name)


@pytest.fixture
def follower(cloud: Cloud, tmp_path: Path) -> Iterator[Follower]:
    """An installation that compares with that account."""
    options = {f"reconcile_nova.{name}": value for name, value in login(cloud.site, AUDITOR).items()}
    made = Follower(RECONCILIATION, cloud, tmp_path / AUDITOR, options=options)
    try:
        yield made
    finally:
        made.stop()


def test_an_account_with_the_documented_rules_sees_all_but_what_the_inventory_names(
    stage: Stage, follower: Follower
) -> None:
    reports = follower.reconcile()
    assert [report.failures for report in reports] == [{}, {}]
    wrong = {(d.entity_id, d.field) for d in differences(read_truth(stage.admin), follower.model())}
    assert wrong == {(stage.servers["a-hidden"], "flavor_id")}
    assert follower.model()["instance"][stage.servers["a-grouped"]]["server_group"] is None
    inventory = read_inventory(follower.installation.store.database, "nova")
    assert inventory is not None
    assert inventory.complete_since is not None
    assert inventory.problem == "unknown: server groups and private flavors of other projects (context_is_admin)"
    stage.delete("a-gone")
    assert follower.reconcile()[0].deleted == 1
    assert not [d for d in differences(read_truth(stage.admin), follower.model()) if d.field is None]
