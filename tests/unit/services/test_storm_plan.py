# SPDX-License-Identifier: Apache-2.0
"""The plan of a storm: a seed decides it, and each of its faults exists."""

from __future__ import annotations

import itertools

import pytest

from tests.faults.storm.ingredients import Ingredients
from tests.faults.storm.plan import ACCIDENTS, CONNECTIONS, LOSING, OPTIONAL, WAYS, Settings, plan


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


def test_the_number_of_faults_has_a_bound() -> None:
    assert sum(map(len, plan(Settings(seconds=600, most=10)))) == 10


def test_an_unknown_ingredient_is_named() -> None:
    with pytest.raises(ValueError, match="no such ingredient: rain"):
        plan(Settings(also=("rain",)))


@pytest.mark.parametrize("name", [*ACCIDENTS, *OPTIONAL])
def test_each_fault_can_happen(name: str) -> None:
    assert callable(getattr(Ingredients, name))
    assert name not in LOSING or name in OPTIONAL
