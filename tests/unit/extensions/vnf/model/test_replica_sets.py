# SPDX-License-Identifier: Apache-2.0
"""A VDU whose workload is a ReplicaSet, and workloads of which no status is known."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.extensions.vnf.model.world import Sync, World, registered
from watcher_sync.extensions.vnf.model.evaluation import Result
from watcher_sync.extensions.vnf.model.matching import is_settling, read_vdu

REPLICA_SET = {"VDU1": {"workload": {"kind": "ReplicaSet", "name": "vdu1"}, "initial": 1, "min": 1, "max": 3}}


@pytest.fixture
def world() -> World:
    return World()


def settles(world: World, kind: str = "ReplicaSet") -> bool:
    workload = {"kind": kind, "name": "vdu1"}
    return is_settling(read_vdu(world.model.snapshot(), cluster="edge", namespace="default", workload=workload))


@pytest.mark.parametrize("kind", ["ReplicaSet", "Deployment", "StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(
    ("generation", "observed", "behind"),
    [(2, None, False), (None, None, False), (None, 1, False), (2, 1, True), (2, 2, False), (2, 0, True)],
)
def test_an_unknown_generation_is_never_behind(
    world: World, kind: str, generation: Any, observed: Any, behind: bool
) -> None:
    world.workload("w", kind, "vdu1", generation=generation, observed_generation=observed)
    assert settles(world, kind) is behind


def test_a_vdu_of_kind_replica_set_whose_status_is_unknown_has_its_level(world: World) -> None:
    world.pod("a", world.workload("rs", "ReplicaSet", "vdu1", generation=4))
    observation = Sync(world, registered(REPLICA_SET))()
    assert observation.results == {"VDU1": Result.SYNCED}
    assert observation.values["scale_level"] == {"vdu1_aspect": 0}


@pytest.mark.parametrize("made", [1, 3])
def test_a_replica_set_settles_until_all_its_pods_run(world: World, made: int) -> None:
    counts = {"generation": 2, "observed_generation": 2, "replicas": 2, "updated_replicas": made}
    world.pod("a", world.workload("rs", "ReplicaSet", "vdu1", **counts))
    assert settles(world)
    world.pod("b", "rs")
    assert not settles(world)


def test_zone_and_reservation_that_are_unknown_are_absent(world: World) -> None:
    world.pod("a", world.deployment())
    sync = Sync(world, registered())
    assert {"zoneId", "reservationId"}.isdisjoint(sync().values["vnfc_resource_info"][0])
