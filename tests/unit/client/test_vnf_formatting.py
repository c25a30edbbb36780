# SPDX-License-Identifier: Apache-2.0
"""What people read of a VNF instance, and what machines get instead."""

from __future__ import annotations

import pytest

from watcher_sync.client.commands.arguments import etag
from watcher_sync.client.commands.cells import row
from watcher_sync.client.commands.vnf import CELLS

WIDE = [{"id": "v" * 40} for _ in range(5)]


@pytest.mark.parametrize(
    ("name", "value", "lines"),
    [
        ("scale_level", {"a": 0, "b": 2}, ["a=0", "b=2"]),
        ("nearest_level", {"a": None}, ["a=-"]),
        ("observed", {}, [""]),
        ("vdu_results", {"A": {"result": "SYNCED"}}, ["A: SYNCED"]),
        ("vdu_results", {"A": {"result": "UNRESOLVED", "detail": "none"}}, ["A: UNRESOLVED, none"]),
        ("vdu_results", {"A": {"result": "SYNCED", "not_counted": {"Pending": 1}}},
         ['A: SYNCED, {"not_counted": {"Pending": 1}}']),
        ("vnfc_resource_info", [{"id": "v", "vduId": "A", "computeResource": {"resourceId": "p"}}], ["A: p (v)"]),
        ("vnfc_resource_info", [{"id": "v", "vduId": "A"}], ["A: - (v)"]),
        ("differences", [{"field": "state", "model_value": None, "live_value": "SYNCED"}], ["state: - -> SYNCED"]),
        ("differences", [{"field": "vnfc_info", "model_value": [], "live_value": WIDE}], ["vnfc_info differs"]),
        ("pods", [{"vdu": "A", "vnfc_id": "v", "old": "p", "new": None}], ["A: p -> - (v)"]),
        ("pods", [{"vdu": "A\x1b[2J", "vnfc_id": "v", "old": None, "new": "q"}], ["A\ufffd[2J: - -> q (v)"]),
    ],
)  # fmt: skip
def test_people_read_lines_and_machines_get_the_value(name, value, lines):
    (cell,) = row({name: value}, [name], CELLS)
    assert cell.human_readable().split("\n") == lines
    assert cell.machine_readable() == value


def test_what_is_not_known_and_what_is_text_stays_as_it_is():
    values = {"observed": None, "state": "SYNCED"}
    assert row(values, values, CELLS) == (None, "SYNCED")


@pytest.mark.parametrize(("text", "tag"), [("7", '"7"'), ('"7"', '"7"'), ("*", "*"), ('W/"7"', 'W/"7"')])
def test_an_etag_may_have_lost_its_quotes(text, tag):
    assert etag(text) == tag
