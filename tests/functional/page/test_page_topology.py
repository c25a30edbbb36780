# SPDX-License-Identifier: Apache-2.0
"""The topology says of which kind a mark is, and what is well."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import WIDE, Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_views import change, vnf
from tests.waiting import wait_until
from watcher_sync.storage.writing.store import Store

HOST = "cmp-fra-0001"


@pytest.fixture
def cloud(store: Store) -> Cloud:
    """6 hosts with 30 instances, and a cluster; nothing is wrong."""
    cloud = Cloud(store)
    cloud.grow(6, 30)
    change(cloud, "cluster", "edge", "state", state="connected")
    vnf(cloud)
    return cloud


@pytest.fixture
def page(browser: WebDriver, cloud: Cloud) -> Iterator[Page]:
    """The page over it, on a desk."""
    with served(cloud.store, auth_strategy="noauth") as url:
        page = Page(browser, url)
        page.size(*WIDE)
        page.open()
        page.wait_live()
        yield page


def test_each_row_of_marks_has_the_letter_of_its_kind_and_the_legend_says_it(page: Page) -> None:
    kinds = dict(text.split(None, 1) for text in page.texts(".letters li"))
    assert sorted(kinds.values()) == ["instances", "pods", "vnf instances", "workloads"]
    letter = {kind: letter for letter, kind in kinds.items()}
    assert page.texts('.tile[data-id="edge"] .marks text') == [
        letter[k] for k in ("workloads", "pods", "vnf instances")
    ]
    assert page.texts(f'.tile[data-id="{HOST}"] .marks text') == [letter["instances"]]


def test_a_place_a_group_and_the_whole_page_say_that_all_is_well_until_it_is_not(page: Page, cloud: Cloud) -> None:
    assert page.text(".figures .good") == "all well"
    assert page.texts(".topology .rule .good") == ["all well", "all well"]
    assert len(page.all(".tile .well")) == len(page.all(".tile")) == 7
    assert "all well" in page.run("return document.querySelector('.tile .sr').textContent")
    entity_id = next(iter(cloud.instances))
    cloud.commit(cloud.instance(entity_id, host=HOST, state="error"))
    wait_until(lambda: page.all(f'.tile.warning[data-id="{HOST}"]'), 60, "the host's problem")
    assert page.all(f'[data-id="{HOST}"] .well') == []
    page.wait_text(".figures", "1 with problems")
    assert page.all(".figures .good") == []
