# SPDX-License-Identifier: Apache-2.0
"""The page of an API whose pages have few entries, ``[api] max_limit``: every view has all that it has elsewhere."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_views import rows, vnf
from tests.simulated import NOON
from tests.waiting import wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.operations import OperationLimits, Operations, Owner
from watcher_sync.storage.drifts import FieldDifference, replace_drifts
from watcher_sync.storage.groups.operation_leases import OperationLeases

MOST = 6
"""Entries on a page."""


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module."""
    return shared_cloud


@pytest.fixture(scope="module")
def limited_page(shared_cloud: Cloud, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page of such an API, for all tests here."""
    with (
        served(shared_cloud.store, auth_strategy="noauth", max_limit=MOST) as url,
        own_tab(chromium_driver) as driver,
    ):
        yield Page(driver, url)


@pytest.fixture
def page(limited_page: Page) -> Page:
    """It is loaded again for each test."""
    limited_page.open()
    wait_until(lambda: limited_page.all(".connection.live"), 60, "the live page")
    return limited_page


def test_all_drifts_are_listed_with_their_names(page: Page, cloud: Cloud) -> None:
    ids = list(cloud.instances)[: 3 * MOST]
    found = [
        FieldDifference(kind="instance", entity_id=each, field="vcpus", model_value=2, live_value=4, policy="heal")
        for each in ids
    ]
    replace_drifts(cloud.store.database, found, source="nova", kinds=["instance"], now=NOON)
    page.open("#/drifts")
    names = {cloud.instances[each]["name"] for each in ids}
    wait_until(lambda: names <= set(page.texts("#drift-list .card .link")), 60, "the names of all drifts")
    assert not page.all(".drifts .problem")


def test_a_table_turns_its_shorter_pages_and_counts_their_rows(page: Page) -> None:
    page.open("#/table/instance")
    wait_until(lambda: len(rows(page)) == MOST, 60, "a page of instances")
    first = [row[0] for row in rows(page)]
    for text in ("7 to 12", "13 to 18"):
        page.choose(".pages button", "Next")
        page.wait_text(".pages [role=status]", text)
    page.choose(".pages button", "Previous")
    page.wait_text(".pages [role=status]", "7 to 12")
    page.choose(".pages button", "First")
    wait_until(lambda: [row[0] for row in rows(page)] == first, 60, "the first page again")


def test_a_vnf_instance_has_its_vdus_its_last_operations_and_all_its_pods(page: Page, cloud: Cloud) -> None:
    entity_id = vnf(cloud, state="OUT_OF_RANGE", pods=MOST + 1, ready=1)
    operations = Operations(
        OperationLeases(cloud.store.database, cloud.store.tables), "vnf_instance", OperationLimits(lease_time=600.0)
    )
    for number in range(MOST + 1):
        taken = operations.begin(entity_id, f"SCALE-{number}", "lcm-1", Owner("u", None))
        operations.end(entity_id, taken.id, taken.proof)
    page.open("#/vnfs")
    wait_until(lambda: len(rows(page)) == 1, 60, "the VNF instance")
    assert rows(page)[0][5] == "worker 1/2 OUT_OF_RANGE"
    page.click(".vnfs tbody .link")
    last = [f"SCALE-{number}" for number in range(MOST, MOST - 5, -1)]
    wait_until(lambda: page.texts(".operations b") == last, 60, "the last operations, latest first")
    wait_until(lambda: len(page.all(".vnfcs li")) == MOST + 1, 60, "all pods")
    page.wait_text(".entity .graph + .note", "3 more, not drawn")
    assert len(page.all(".graph .node")) == MOST
    assert not page.all(".entity .problem")


def test_the_relations_of_a_host_say_how_many_instances_are_not_drawn(page: Page, cloud: Cloud) -> None:
    host = "cmp-limits-0001"
    cloud.commit(cloud.node(host, service={"status": "enabled"}))
    cloud.commit(*(cloud.instance(each, host=host) for each in list(cloud.instances)[-3 * MOST :]))
    page.open(f"#/compute_node/{host}")
    page.wait_text(".entity .graph + .note", f"{2 * MOST + 1} more, not drawn")
    page.wait_text(".entity .impact", str(3 * MOST))


@pytest.mark.rare
def test_a_reason_has_the_latest_twenty_of_its_events(page: Page, cloud: Cloud) -> None:
    whys = [f"number {number} is not one" for number in range(22)]
    bad = [Event(id=why, type="dcm.vm", source="dcm", time=NOON, data=why.encode(), undecodable=why) for why in whys]
    cloud.cycle.run(Batch(events=bad))
    page.wait_text(".by-reason > li:first-child .facts", "22 from dcm")
    page.click(".by-reason > li:first-child > details > summary")
    wait_until(lambda: len(page.all(".quarantined > li")) == 20, 60, "the latest of them")
    page.wait_text(".by-reason .more", "The latest 20 of 22")
