# SPDX-License-Identifier: Apache-2.0
"""A level is a row of a table that is made at registration."""

from __future__ import annotations

import itertools

import pytest

from watcher_sync.model.vnf.levels import BadRegistration, expand, level_of, nearest_lower


def vdus(**initial):
    return {name: {"initial": number} for name, number in initial.items()}


@pytest.mark.parametrize(
    ("steps", "deltas", "table"),
    [
        (0, {"A": 1}, [{"A": 1}]),
        (2, {"A": 1}, [{"A": 1}, {"A": 2}, {"A": 3}]),
        (2, {"A": 2}, [{"A": 1}, {"A": 3}, {"A": 5}]),
        (2, {"A": [1, 4]}, [{"A": 1}, {"A": 2}, {"A": 6}]),
        (1, {"A": [1, 4]}, [{"A": 1}, {"A": 2}]),
        (2, {"A": 1, "B": [2, 1]}, [{"A": 1, "B": 0}, {"A": 2, "B": 2}, {"A": 3, "B": 3}]),
    ],
)
def test_a_level_is_the_initial_number_and_the_deltas_up_to_it(steps, deltas, table):
    assert expand(vdus(A=1, B=0), {"x": {"max_scale_level": steps, "deltas": deltas}}) == {"x": table}


@pytest.mark.parametrize(
    ("vdu", "aspect", "path"),
    [
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": 0}}, ("aspects", "x", "deltas", "A")),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": -1}}, ("aspects", "x", "deltas", "A")),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": [1, 0]}}, ("aspects", "x", "deltas", "A", 1)),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": [1]}}, ("aspects", "x", "deltas", "A")),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": 1, "Z": 1}}, ("aspects", "x", "deltas", "Z")),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {}}, ("aspects", "x", "deltas")),
        ({"initial": 1}, {"max_scale_level": -1, "deltas": {"A": 1}}, ("aspects", "x", "max_scale_level")),
        ({"initial": 1, "max": 2}, {"max_scale_level": 2, "deltas": {"A": 1}}, ("aspects", "x", "max_scale_level")),
        ({"initial": 1}, {"max_scale_level": 2, "deltas": {"A": 2**31}}, ("aspects", "x", "max_scale_level")),
        ({"initial": 1, "min": 2}, {"max_scale_level": 0, "deltas": {"A": 1}}, ("vdus", "A", "initial")),
        ({"initial": 4, "max": 3}, {"max_scale_level": 0, "deltas": {"A": 1}}, ("vdus", "A", "initial")),
        ({"initial": 4, "min": 4, "max": 3}, {"max_scale_level": 0, "deltas": {"A": 1}}, ("vdus", "A", "max")),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_naming_the_field(vdu, aspect, path):
    with pytest.raises(BadRegistration) as refused:
        expand({"A": vdu}, {"x": aspect})
    assert [found for found, _ in refused.value.errors] == [path]


def test_no_vdu_is_scaled_by_two_aspects():
    aspect = {"max_scale_level": 1, "deltas": {"A": 1}}
    with pytest.raises(BadRegistration, match=r"aspects/y/deltas/A: is scaled by the aspect x already"):
        expand(vdus(A=1), {"x": aspect, "y": aspect})


def test_every_level_is_recognised_and_nothing_else_is():
    table = expand(vdus(A=1, B=0), {"x": {"max_scale_level": 3, "deltas": {"A": 2, "B": [1, 1, 5]}}})["x"]
    for a, b in itertools.product(range(10), repeat=2):
        vector = {"A": a, "B": b}
        assert level_of(table, vector) == (table.index(vector) if vector in table else None)


def test_an_aspect_over_two_vdus_does_not_depend_on_their_order():
    aspect = {"max_scale_level": 2, "deltas": {"A": 1, "B": 2}}
    turned = {"max_scale_level": 2, "deltas": {"B": 2, "A": 1}}
    one, other = (expand(vdus(A=1, B=1), {"x": a})["x"] for a in (aspect, turned))
    for a, b in itertools.product(range(7), repeat=2):
        assert level_of(one, {"A": a, "B": b}) == level_of(other, {"B": b, "A": a})
        assert nearest_lower(one, {"A": a, "B": b}) == nearest_lower(other, {"B": b, "A": a})
    assert level_of(one, {"A": 2, "B": 3}) == 1
    assert level_of(one, {"A": 2, "B": 1}) is None


@pytest.mark.parametrize(("a", "level"), [(0, None), (1, None), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (99, 2)])
def test_the_nearest_lower_level_is_never_below_zero_nor_above_the_last(a, level):
    table = expand(vdus(A=2), {"x": {"max_scale_level": 2, "deltas": {"A": 2}}})["x"]
    assert nearest_lower(table, {"A": a}) == level
