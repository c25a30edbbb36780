# SPDX-License-Identifier: Apache-2.0
"""Watcher's own compute model of a real cloud beside that which watcher-sync-watcher builds from our model of it."""

from __future__ import annotations

import os
from typing import Any

import pytest

from tests.real_nova.cloud import Cloud
from tests.real_nova.modes import Follower
from tests.real_nova.recording import Recorder
from tests.real_nova.settings import COMPUTES, HOSTS
from tests.real_nova.stage import Stage
from tests.watcher_comparison import compare, needs_watcher

pytestmark = [pytest.mark.timeout(1200), needs_watcher]

_OPTIONS: dict[str, dict[str, Any]] = {
    "compute_model": {"enable_extended_attributes": True},
    "placement": {},
    "nova": {"api_version": "2.96"},
}
_STRATEGIES: dict[str, dict[str, Any]] = {
    # Low thresholds, so that a small cloud needs actions, and no choice at random.
    "workload_stabilization": {
        "host_choice": "fullsearch",
        "thresholds": {"instance_cpu_usage": 0.01, "instance_ram_usage": 0.01},
        "metrics": ["instance_cpu_usage", "instance_ram_usage"],
    },
    "vm_workload_consolidation": {},
}
_SERVERS = int(os.environ.get("WATCHER_SYNC_TEST_WATCHER_SERVERS", "12"))
"""Servers of the cloud, at least 12. Each takes about two seconds."""


@pytest.fixture
def busy(cloud: Cloud, followed: Follower) -> None:
    """Servers in many states, of which the model knows by notifications and one comparison."""
    with Recorder(cloud.transport_urls) as recorder:
        stage = Stage(cloud, recorder)
        zone = stage.create_aggregate("blue", zone="blue")
        stage.act_on_aggregate(zone, "add_host", host=COMPUTES[2])
        for number in range(_SERVERS):
            zoned = {"by": stage.tenant, "zone": "blue"} if number % 6 == 5 else {"host": COMPUTES[number % 3]}
            stage.boot(f"w-{number}", flavor="large" if number % 4 == 3 else "small", **zoned)  # type: ignore[arg-type]
        stage.do("w-0", "os-stop", status="SHUTOFF", event="instance.power_off.end")
        stage.do("w-1", "pause", status="PAUSED", event="instance.pause.end")
        stage.act("w-2", "lock")
        stage.do("w-3", "shelve", status="SHELVED", event="instance.shelve.end")
        stage.do("w-3", "shelveOffload", status="SHELVED_OFFLOADED", event="instance.shelve_offload.end")
        stage.do("w-4", "migrate", status="VERIFY_RESIZE", event="instance.resize_finish.end")
        stage.delete("w-6")
        stage.update_service(COMPUTES[1], status="disabled", disabled_reason="fan")
        recorder.await_silence()
        followed.settle(recorder.count)
        followed.reconcile()


@pytest.fixture
def compared(cloud: Cloud, followed: Follower, busy: None) -> dict[str, Any]:
    """What the script says of both models."""
    return compare("compute", followed.installation.store, cloud.login, _OPTIONS, _STRATEGIES)


def test_both_models_are_equal_attribute_by_attribute_and_lead_to_the_same_plans(
    compared: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    theirs, ours = compared["theirs"], compared["ours"]
    with capsys.disabled():
        for name, side in (("Watcher's collector", theirs), ("watcher-sync-watcher", ours)):
            sizes = f"{len(side['model']['ComputeNode'])} hosts, {len(side['model']['Instance'])} servers"
            print(f"\n{name}: {sizes}, {side['requests']} requests, {side['seconds']:.2f} s")
        print({name: f"{len(plans[0])} actions" for name, plans in compared["plans"].items()})
    assert len(theirs["model"]["ComputeNode"]) == len(HOSTS)
    # The story leaves servers of its own.
    booted = [one for one in theirs["model"]["Instance"].values() if one["name"].startswith("w-")]
    assert len(booted) == _SERVERS - 2
    assert ours["model"] == theirs["model"]
    assert [path for _, path in ours["asked"]] == ["/v1/compute_model"]
    assert theirs["requests"] > len(HOSTS) * 2
    for name, (of_theirs, of_ours) in compared["plans"].items():
        assert of_theirs == of_ours, name
        assert of_theirs, name
