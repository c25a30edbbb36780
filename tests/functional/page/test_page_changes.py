# SPDX-License-Identifier: Apache-2.0
"""The changes of the page where they are many: one row for an entity and second, rates of kinds, a range of time."""

from __future__ import annotations

import itertools

import pytest

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import WIDE, Page
from tests.waiting import wait_until

GROUPED = """
const [rows, done] = arguments;
import('/static/changes.js').then(({ grouped }) => done(grouped(rows).map(({ row }) =>
  [row.id, row.seq, row.change, row.times ?? 1, row.delta])));
"""

SETTLED = """
const [rows, done] = arguments;
import('/static/changes.js').then(({ Changes }) => {
  const list = new Changes({});
  const drawn = [[], rows, [rows[0], ...rows]].map((changes) => list.settled(changes).length);
  list.props = { changes: [rows[0], rows[0], ...rows] };
  list.setState = ({ held }) => drawn.push(held.length);
  list.hold();
  list.componentWillUnmount();
  done(drawn);
});
"""

RATES = """
const done = arguments[0];
const rates = new Map([[98, {pod: 5}], [99, {pod: 5, instance: 100}], [90, {volume: 9}]]);
import('/static/rate.js').then(({ byKind }) => done([byKind(rates, 100), byKind(rates, 100, 2)]));
"""


TYPED = "one.value = given[0]; one.dispatchEvent(new Event('input', {bubbles: true}))"


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module."""
    return shared_cloud


@pytest.fixture
def page(shared_page: Page) -> Page:
    """It is loaded again for each test."""
    shared_page.size(*WIDE)
    shared_page.browser.set_script_timeout(120)
    shared_page.open()
    wait_until(lambda: shared_page.all(".connection.live"), 60, "the live page")
    return shared_page


def test_the_first_changes_are_drawn_at_once_and_what_is_drawn_is_held(page: Page) -> None:
    """A list with nothing of it yet does not wait for the end of its second; a pointer holds what it points at."""
    rows = [{"seq": seq, "time": "2026-01-01T00:00:00.5Z"} for seq in range(30, 0, -1)]
    assert page.browser.execute_async_script(SETTLED, rows) == [0, 30, 30, 30]


def test_changes_of_an_entity_in_one_second_are_one_row_from_the_first_value_to_the_last(page: Page) -> None:
    seqs = itertools.count(9, -1)

    def row(entity_id: str, second: int, change: str = "updated", **delta: list[object]) -> dict[str, object]:
        time = f"2026-01-01T00:00:0{second}.5Z"
        return {"seq": next(seqs), "time": time, "kind": "pod", "id": entity_id, "change": change, "delta": delta}

    latest_first = [
        row("a", 3, n=[2, 3]),
        row("b", 3, n=[0, 1]),
        row("a", 3, n=[1, 2], m=[0, 5]),
        row("a", 2, n=[0, 1]),
        row("c", 1, "deleted"),
        row("c", 1, "created", n=[None, 1]),
    ]
    assert page.browser.execute_async_script(GROUPED, latest_first) == [
        ["a", 9, "updated", 2, {"n": [1, 3], "m": [0, 5]}],
        ["b", 8, "updated", 1, {"n": [0, 1]}],
        ["a", 6, "updated", 1, {"n": [0, 1]}],
        ["c", 5, "deleted", 2, {"n": [None, 1]}],
    ]


def test_the_rates_of_kinds_are_those_of_the_last_seconds_most_first(page: Page) -> None:
    """Of fewer seconds where the page knows no more, so that they are the parts of the whole rate."""
    in_five, in_two = page.browser.execute_async_script(RATES)
    assert in_five == [["instance", 20], ["pod", 2]]
    assert in_two == [["instance", 50], ["pod", 5]]


def test_a_range_of_time_replaces_the_live_changes_until_it_is_ended(page: Page, cloud: Cloud) -> None:
    entity_id = next(iter(cloud.instances))
    cloud.commit(cloud.instance(entity_id, vcpus=41))
    page.choose(".range summary")
    page.on(".range [name=from]", TYPED, "2001-01-01T00:00:00")
    page.on(".range [name=to]", TYPED, "2001-01-02T00:00:00")
    page.choose(".range button", "Show")
    page.wait_text(".range .note", "0 changes in the range")
    assert not page.all(".change")
    page.on(".range [name=to]", TYPED, "")
    page.choose(".range button", "Show")
    wait_until(lambda: page.all(".change") and not page.text(".range .note").startswith("0 "), 60, "the changes")
    cloud.commit(cloud.instance(entity_id, vcpus=42))
    page.choose(".range button", "Live")
    page.wait_text(".change .delta", "42")
