# SPDX-License-Identifier: Apache-2.0
"""A level is computed from the registration; a registration that makes no sense is refused."""

from __future__ import annotations

import itertools

import pytest

from watcher_sync.extensions.vnf.model.levels import BadRegistration, check, match


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
    aspect = {"max_scale_level": steps, "deltas": deltas}
    check(vdus(A=1, B=0), {"x": aspect})
    for level, pods in enumerate(table):
        assert match(vdus(A=1, B=0), aspect, pods) == (level, level)
    assert match(vdus(A=1, B=0), aspect, {"A": table[-1]["A"] + 1, "B": 99}) == (None, len(table) - 1)


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
        (
            {"initial": 1, "workload": {"kind": "Pod"}},
            {"max_scale_level": 0, "deltas": {"A": 1}},
            ("vdus", "A", "workload"),
        ),
        (
            {"initial": 1, "workload": {"kind": "Pod", "labels": {"a": "b"}}},
            {"max_scale_level": 0, "deltas": {"A": 1}},
            ("vdus", "A", "workload", "labels"),
        ),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_naming_the_field(vdu, aspect, path):
    with pytest.raises(BadRegistration) as refused:
        check({"A": vdu}, {"x": aspect})
    assert [found for found, _ in refused.value.errors] == [path]


def test_no_vdu_is_scaled_by_two_aspects():
    aspect = {"max_scale_level": 1, "deltas": {"A": 1}}
    with pytest.raises(BadRegistration, match=r"aspects/y/deltas/A: is scaled by the aspect x already"):
        check(vdus(A=1), {"x": aspect, "y": aspect})


def test_every_level_is_recognised_and_nothing_else_is():
    aspect = {"max_scale_level": 3, "deltas": {"A": 2, "B": [1, 1, 5]}}
    table = [{"A": 1, "B": 0}, {"A": 3, "B": 1}, {"A": 5, "B": 2}, {"A": 7, "B": 7}]
    for a, b in itertools.product(range(10), repeat=2):
        vector = {"A": a, "B": b}
        assert match(vdus(A=1, B=0), aspect, vector).exact == (table.index(vector) if vector in table else None)


def test_an_aspect_over_two_vdus_does_not_depend_on_their_order():
    one = {"max_scale_level": 2, "deltas": {"A": 1, "B": 2}}
    other = {"max_scale_level": 2, "deltas": {"B": 2, "A": 1}}
    both = vdus(A=1, B=1)
    for a, b in itertools.product(range(7), repeat=2):
        assert match(both, one, {"A": a, "B": b}) == match(both, other, {"B": b, "A": a})
    assert match(both, one, {"A": 2, "B": 3}).exact == 1
    assert match(both, one, {"A": 2, "B": 1}).exact is None


@pytest.mark.parametrize(("a", "level"), [(0, None), (1, None), (2, 0), (3, 0), (4, 1), (5, 1), (6, 2), (99, 2)])
def test_the_nearest_lower_level_is_never_below_zero_nor_above_the_last(a, level):
    assert match(vdus(A=2), {"max_scale_level": 2, "deltas": {"A": 2}}, {"A": a}).nearest == level


def test_a_vdu_without_pods_is_below_level_zero():
    assert match(vdus(A=2), {"max_scale_level": 2, "deltas": {"A": 2}}, {}) == (None, None)
