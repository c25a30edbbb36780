# SPDX-License-Identifier: Apache-2.0
"""The topology says of which kind a mark is, what is well, and what is used; the graph of a pane fits."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_views import change, vnf
from tests.waiting import wait_until
from watcher_sync.storage.writing.store import Store

HOST = "cmp-fra-0001"

GRAPH = """
const box = document.querySelector('.graph'), svg = box.querySelector('svg');
const [around, root] = [box, svg.querySelector('[aria-current] rect')].map((one) => one.getBoundingClientRect());
const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
return [scale, box.scrollWidth - box.clientWidth, root.left >= around.left && root.right <= around.right];
"""
"""How much the graph is shrunk, how much of it is out of sight, and whether what is open is in sight."""


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
    assert sorted(kinds.values()) == ["VNF instances", "instances", "pods", "workloads"]
    letter = {kind: letter for letter, kind in kinds.items()}
    assert page.texts('.tile[data-id="edge"] .marks text') == [
        letter[k] for k in ("workloads", "pods", "VNF instances")
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
    page.wait_text(".figures", "1 compute node with problems")
    assert page.all(".figures .good") == []


@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
@pytest.mark.parametrize("root", ["cluster/edge", "pod/6f000000-0000-4000-8000-000000000001"])
def test_a_graph_shrinks_into_the_pane_or_scrolls_from_what_is_open(
    page: Page, size: tuple[int, int], root: str
) -> None:
    page.size(*size)
    page.open(f"#/{root}")
    wait_until(lambda: len(page.all(".graph .node")) > 3, 60, "the graph")
    scale, beyond, is_root_visible = page.run(GRAPH)
    assert scale > 0.8
    assert beyond <= 0 or scale == 1
    assert is_root_visible
    assert page.run("return document.documentElement.scrollWidth") <= size[0]


def test_a_host_shows_how_much_of_it_is_used(page: Page, cloud: Cloud) -> None:
    capacity = {"vcpus": 8, "reserved_vcpus": 2, "vcpu_ratio": 4.0, "memory_mb": 16_384, "reserved_memory_mb": 0}
    cloud.commit(
        cloud.node("cmp-new", service={"status": "enabled"}, capacity={**capacity, "memory_ratio": 1.0}),
        cloud.instance(str(uuid.uuid4()), host="cmp-new", name="new", state="active", vcpus=6, memory_mb=4096),
    )
    tile = '.tile[data-id="cmp-new"]'
    page.wait_text(f"{tile} .tile-capacity", "vCPU 25 % · RAM 25 %", 60)
    title = page.run("return document.querySelector(arguments[0]).title", tile)
    assert "6 of 24 vCPUs used, 4,096 of 16,384 MiB of memory used" in title
    assert page.texts(f'.tile[data-id="{HOST}"] .tile-capacity') == []


def test_hosts_are_grouped_by_zone_and_name_their_aggregates(page: Page, cloud: Cloud) -> None:
    """A zone says how many of its hosts are available, and leads to their list."""
    assert page.texts(".zones li") == [f"{zone}1 2 of 2 available" for zone in ("ams", "fra", "muc")]
    assert page.texts(".topology h4") == ["ams1 2", "fra1 2", "muc1 2"]
    change(cloud, "aggregate", "a1", "state", name="ssd")
    change(cloud, "aggregate", "a1", "hosts", hosts=[HOST])
    cloud.commit(
        cloud.node("cmp-fra-0004", service={"status": "enabled", "forced_down": True}),
        cloud.node("cmp-muc-0002", service={"status": "disabled"}),
    )
    wait_until(lambda: page.texts(".topology h4") == ["ams1 2", "fra1 1", "muc1 1"], 60, "the other hosts")
    assert page.texts(".zones li")[1:] == ["fra1 1 of 2 available, 1 down", "muc1 1 of 2 available, 1 disabled"]
    assert page.texts(f'.tile[data-id="{HOST}"] .tile-belongs') == ["ssd"]
    assert page.texts('.tile[data-id="cmp-fra-0004"] .tile-belongs') == ["fra1"]
    told = page.run(f"""return document.querySelector('.tile[data-id="{HOST}"] .sr').textContent""")
    assert "zone fra1; aggregate ssd" in told
    page.all(".zones a")[1].click()
    wait_until(lambda: len(page.all(".table tbody tr")) == 2, 60, "the hosts of the zone")
    assert page.run("return document.getElementById('filter').value") == "availability_zone=fra1"
