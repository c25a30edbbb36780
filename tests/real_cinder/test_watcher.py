# SPDX-License-Identifier: Apache-2.0
"""Watcher's own storage model of a real Cinder beside that which watcher-sync-watcher builds from ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.real_cinder.cloud import Cloud
from tests.real_cinder.settings import figures
from tests.real_cinder.stage import Stage
from tests.real_nova.processes import wait_for
from tests.watcher_comparison import compare, needs_watcher, reconciled

pytestmark = [pytest.mark.timeout(600), needs_watcher]

_FAST_A, _FAST_B, _SLOW = "volume-1@fast#fast-a", "volume-1@fast#fast-b", "volume-1@slow#slow-a"
_STRATEGIES: dict[str, dict[str, Any]] = {
    "zone_migration": {
        "storage_pools": [{"src_pool": _FAST_A, "dst_pool": _FAST_B}, {"src_pool": _SLOW, "dst_type": "fast"}],
        "parallel_per_pool": 3,
    },
    "storage_capacity_balance": {},
}


@pytest.fixture
def stage(cloud: Cloud) -> Stage:
    """Volumes in three pools of two backends: attached, with a snapshot, of a snapshot, and bootable."""
    stage = Stage(cloud)
    for name in ("w-0", "w-1", "w-2", "w-3"):
        stage.create(name, metadata={"of": name})
    stage.create("w-4", by_tenant=True, size=2, volume_type="slow")
    stage.create("w-5", volume_type="slow", multiattach=False)
    stage.attach("w-0")
    stage.attach("w-4")
    stage.snapshot("s-1", "w-1")
    stage.create("w-6", snapshot_id=stage.ids["s-1"])
    stage.act("w-2", "os-set_bootable", bootable=True)
    cloud.set_pools("fast", {"fast-a": figures(free=10.0), "fast-b": figures(free=90.0)})
    stage.await_pool(_FAST_A, "free_capacity_gb", 10.0)
    stage.await_pool(_SLOW, "allocated_capacity_gb", 3)
    wait_for(lambda: _allocated(stage) == 8, 60, "figures of all volumes")
    return stage


def _allocated(stage: Stage) -> int:
    return sum(int(pool["capabilities"]["allocated_capacity_gb"]) for pool in stage.admin.pools_of_scheduler())


def test_both_models_are_equal_attribute_by_attribute_and_lead_to_the_same_plans(
    cloud: Cloud, stage: Stage, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with reconciled("cinder", cloud.login, tmp_path) as store:
        compared = compare("storage", store, cloud.login, {"cinder": {}}, _STRATEGIES)
    theirs, ours = compared["theirs"], compared["ours"]
    with capsys.disabled():
        for name, side in (("Watcher's collector", theirs), ("watcher-sync-watcher", ours)):
            print(f"\n{name}: {side['requests']} requests, {side['seconds']:.2f} s", end="")
        print(f"\n{ {name: len(plans[0]) for name, plans in compared['plans'].items()} }")
    assert set(theirs["model"]["Pool"]) == {_FAST_A, _FAST_B, _SLOW}
    volumes = theirs["model"]["Volume"]
    assert {volume["host"] for volume in volumes.values()} == {_FAST_A, _FAST_B, _SLOW}
    assert [one["attachment_id"] for one in volumes[stage.ids["w-0"]]["attachments"]]
    assert ours["model"] == theirs["model"]
    assert list(ours["model"]["Volume"]) == list(volumes)
    for name, (of_theirs, of_ours) in compared["plans"].items():
        assert of_theirs == of_ours, name
        assert of_theirs, name
