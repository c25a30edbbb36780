# SPDX-License-Identifier: Apache-2.0
"""The table of a kind: rows of one line, whole ids, columns and page size that a browser remembers, totals and keys."""

from __future__ import annotations

import pytest
from selenium.webdriver.common.keys import Keys

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import WIDE, Page
from tests.functional.page.test_page_views import rows
from tests.waiting import wait_until

SEEN = """
const pages = document.querySelector('.pages').getBoundingClientRect();
return [...document.querySelectorAll('.front .data tbody tr')].filter(
  (row) => row.getBoundingClientRect().bottom <= pages.top).length;
"""
"""Rows that are in the window as a whole."""

SELECTED = """
const ids = document.querySelectorAll('.data .short code');
const shown = ids[0].getBoundingClientRect().width;
document.querySelector('.data .copy').click();
return [getSelection().toString(), ids[0].title, ids[0].scrollWidth > shown];
"""

HEADS = "return [...document.querySelectorAll('.data thead th')].map((one) => one.innerText.replace(/[↕↑↓\\s]+$/, ''))"


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module."""
    return shared_cloud


@pytest.fixture
def page(shared_page: Page) -> Page:
    """The table of the instances on a desk."""
    shared_page.size(*WIDE)
    shared_page.open("#/table/instance")
    wait_until(lambda: len(rows(shared_page)) >= 25, 60, "the instances")
    return shared_page


def heads(page: Page) -> list[str]:
    """The titles of the columns."""
    return page.run(HEADS)  # type: ignore[no-any-return]


def test_a_desk_has_twenty_rows_in_its_window(page: Page) -> None:
    assert page.run(SEEN) >= 20


def test_an_id_is_short_to_see_and_whole_to_select_and_copy(page: Page) -> None:
    selected, whole, is_short = page.run(SELECTED)
    assert is_short
    assert selected == whole
    assert len(whole) == 32


def test_the_table_has_the_total_of_its_kind_and_the_problems_of_a_page_first(page: Page, cloud: Cloud) -> None:
    total = len(cloud.instances)
    page.wait_text(".pages [role=status]", f"1 to 50 of {total}")
    states = [row[1] for row in rows(page)]
    assert states == sorted(states, key=lambda state: not state.startswith("error"))
    assert "error" in states
    name = cloud.instances[next(iter(cloud.instances))]["name"]
    page.search("filter", f"name={name}")
    page.wait_text(".pages [role=status]", "1 to 1 of 1")


def test_chosen_columns_and_rows_are_remembered(page: Page) -> None:
    assert heads(page)[3:5] == ["host", "flavor name"]
    page.choose(".columns summary")
    page.on(".columns label:nth-child(1) input", "one.click()")
    wait_until(lambda: "host" not in heads(page), 60, "a table without the column")
    page.on("#rows", "one.value = '25'; one.dispatchEvent(new Event('change', {bubbles: true}))")
    wait_until(lambda: len(rows(page)) == 25, 60, "a shorter page")
    page.open("#/table/instance")
    wait_until(lambda: len(rows(page)) == 25, 60, "as many rows after a reload")
    assert "host" not in heads(page)
    page.run("localStorage.clear()")


def test_the_arrow_keys_walk_through_the_rows_and_the_table_is_one_stop_of_tab(page: Page) -> None:
    stops = "return [...document.querySelectorAll('tbody :is(a, button)')].filter((one) => one.tabIndex === 0).length"
    wait_until(lambda: page.run(stops) == 1, 60, "one stop")
    page.on(".front tbody .link", "one.focus()")
    second = rows(page)[1][0]
    page.press(Keys.ARROW_DOWN)
    assert page.run("return document.activeElement.closest('tr').rowIndex") == 2
    page.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.focused() == "copy"
    page.press(Keys.ARROW_DOWN)
    assert page.focused() == "copy"
    page.press(Keys.ARROW_UP, Keys.ARROW_LEFT, Keys.ARROW_LEFT, Keys.ENTER)
    page.wait_text(".entity h2", second)


REQUESTS = """
return performance.getEntriesByType('resource').map((one) => decodeURIComponent(one.name)).filter(
  (name) => !name.includes('/static/')).map((name) => name.split('/').slice(3).join('/'));
"""

OWN = ("v1", "v1/topology", "v1/events", "v1/sources", "v1/quarantine_reasons", "v1/subscriptions", "v1/engines",
       "v1/outlets")  # fmt: skip
"""What the page requests wherever it begins; none of them grows with the number of entities but for the places."""


def test_the_first_screen_requests_no_list_as_a_whole_and_no_description_of_the_api(page: Page) -> None:
    page.open()
    wait_until(lambda: page.all(".tile") and page.all(".kinds a.state"), 60, "the topology")
    wait_until(lambda: any("ids=" in one for one in page.run(REQUESTS)), 60, "the names of what changed")
    requested = page.run(REQUESTS)
    others = [one for one in requested if one.rstrip("?") not in OWN]
    assert [one for one in others if "limit=1" not in one and "ids=" not in one] == []
    assert "openapi.json" not in requested
