# SPDX-License-Identifier: Apache-2.0
"""The plan of a storm: a seed decides it, and each of its faults exists."""

from __future__ import annotations

import itertools

import pytest

from tests.faults.storm.ingredients import Ingredients
from tests.faults.storm.plan import (
    ACCIDENTS,
    CONNECTIONS,
    LOSING_DATABASE,
    LOSING_STREAM,
    OPTIONAL,
    WAYS,
    Settings,
    bursts,
    plan,
)  # fmt: skip


def test_the_same_settings_give_the_same_plan_and_another_seed_gives_another() -> None:
    assert plan(Settings(seed=7)) == plan(Settings(seed=7))
    assert plan(Settings(seed=7)) != plan(Settings(seed=8))


def test_the_faults_of_a_lane_are_in_the_duration_and_do_not_overlap() -> None:
    for lane in plan(Settings(seconds=300)):
        assert lane[-1].at < 300
        assert all(one.at + one.seconds <= other.at for one, other in itertools.pairwise(lane))


def test_a_long_storm_has_every_fault_that_is_on() -> None:
    names = {fault.name for lane in plan(Settings(seconds=600)) for fault in lane}
    assert names == {*ACCIDENTS, *(f"{way} {connection}" for way in WAYS for connection in CONNECTIONS)}
    also = {fault.name for lane in plan(Settings(seconds=600, also=tuple(OPTIONAL))) for fault in lane}
    assert also - names == OPTIONAL.keys()


def test_without_a_database_server_nothing_happens_to_one() -> None:
    settings = Settings(seconds=900, database="sqlite", also=tuple(OPTIONAL))
    names = {fault.name for lane in plan(settings) for fault in lane}
    assert {"kill_leader", "cut rabbitmq", "restored_database"} <= names
    assert not names & {"restart_database", "terminate_sessions", "silent_connections", "cut database"}


def test_the_bursts_of_a_storm_have_all_its_faults_in_order_and_each_counts_from_its_own_start() -> None:
    lanes = plan(Settings(seconds=300))
    parts = bursts(lanes, 20.0)
    assert len(parts) == 15
    assert all(0 <= fault.at < 20 for part in parts for lane in part for fault in lane)
    for number, lane in enumerate(lanes):
        assert [fault.name for part in parts for fault in part[number]] == [fault.name for fault in lane]


def test_the_number_of_faults_has_a_bound() -> None:
    assert sum(map(len, plan(Settings(seconds=600, most=10)))) == 10


def test_an_unknown_ingredient_is_named() -> None:
    with pytest.raises(ValueError, match="no such ingredient: rain"):
        plan(Settings(also=("rain",)))


@pytest.mark.parametrize("name", [*ACCIDENTS, *OPTIONAL])
def test_each_fault_can_happen(name: str) -> None:
    assert callable(getattr(Ingredients, name))
    assert (name in OPTIONAL) == (name in (*LOSING_STREAM, *LOSING_DATABASE))
