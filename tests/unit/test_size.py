# SPDX-License-Identifier: Apache-2.0
"""Each room of the package has a budget of code lines; a commit that needs more raises it, and says why."""

from __future__ import annotations

from tests.checks import size

BUDGETS = {
    "core": 26_340,
    "testing": 10_320,
    "client": 6_800,
    "openstack": 6_660,
    "webhooks": 4_650,
    "kubernetes": 4_050,
    "watch": 3_550,
    "log": 2_980,
    "vnf": 2_650,
    "dcm": 2_270,
    "federation": 1_700,
}
"""Room -> the most code lines that it may have."""

_SLACK = 100
"""A room that has fewer lines by more than this gets a smaller budget, so that growth is seen."""


def test_no_room_has_more_code_lines_than_its_budget():
    found = size.by_room()
    assert found.keys() == BUDGETS.keys()
    assert {room: lines for room, lines in found.items() if lines > BUDGETS[room]} == {}


def test_a_budget_follows_a_room_that_became_smaller():
    found = size.by_room()
    assert {room: budget for room, budget in BUDGETS.items() if found[room] < budget - _SLACK} == {}
