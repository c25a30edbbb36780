# SPDX-License-Identifier: Apache-2.0
"""What axe finds wrong for screen readers, keyboards and eyes, at both widths and in both themes.

axe is a file of the package axe-core-python; it requests nothing from the network.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from axe_core_python.selenium import Axe
from selenium.webdriver.common.keys import Keys

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.test_page_views import vnf
from tests.waiting import wait_until

RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"], "resultTypes": ["violations"]}

VIEWS = {
    "topology": ".tile",
    "table/instance": ".data",
    "vnfs": ".data",
    "drifts": "#drift-list li",
    "leases": ".leases .figure",
    "held": ".held .none",
    "subscriptions": ".subscriptions .none",
    "engines": ".outlets .state",
    "quarantine": ".by-reason .reason",
    "changes": ".change",
    "vnf_instance/amf-1": ".graph .node",
    "compute_node/cmp-ams-0012": ".member",
}
"""View -> what is there when it is complete."""

DIFFERENT = {
    "desk-light": (WIDE, "light", ("drifts", "vnf_instance/amf-1")),
    "phone-dark": (PHONE, "dark", ("topology",)),
}
"""Size of the window, theme, and views, each of them once."""


def violations(page: Page, *without: str) -> list[str]:
    """Each rule that is broken, with the elements that break it.

    :param without: selectors of what is not to be searched.
    """
    found = Axe().run(page.browser, {"exclude": [[one] for one in without]}, RULES)["violations"]
    return [f"{rule['id']}: {node['target']} {node['html'][:200]}" for rule in found for node in rule["nodes"]]


def check(page: Page, cloud: Cloud, folder: Path, size: tuple[int, int], scheme: str, views: Iterable[str]) -> None:
    """Open each view, take a picture of it, and let axe search for what is wrong."""
    page.browser.set_script_timeout(120)
    page.size(*size)
    page.media(prefers_color_scheme=scheme)
    vnf(cloud, state="OUT_OF_RANGE", pods=7, ready=1, crashing=True)
    wrong = {}
    for view in views:
        page.open(f"#/{view}")
        wait_until(lambda view=view: page.all(VIEWS[view]), 60, f"{VIEWS[view]} of {view}")
        name = view.replace("/", "-")
        page.screenshot(f"{'phone' if size == PHONE else 'desk'}-{scheme}-view-{name}", folder)
        if found := violations(page):
            wrong[view] = found
    assert not wrong, "\n".join(f"{view}: {one}" for view, found in wrong.items() for one in found)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("where", DIFFERENT)
def test_axe_finds_nothing_wrong_with_the_views_that_differ_most(
    shared_page: Page, shared_cloud: Cloud, tmp_path: Path, where: str
) -> None:
    check(shared_page, shared_cloud, tmp_path, *DIFFERENT[where])


@pytest.mark.rare
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_wrong_with_any_view(
    shared_page: Page, shared_cloud: Cloud, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    check(shared_page, shared_cloud, tmp_path, size, scheme, VIEWS)


def test_the_views_the_filter_and_the_graph_are_reached_and_used_by_keyboard(
    shared_page: Page, shared_cloud: Cloud
) -> None:
    page = shared_page
    page.size(*WIDE)
    vnf(shared_cloud)
    page.open("#/table/pod?q=name~amf")
    wait_until(lambda: page.all(".front .data"), 60, "the pods")
    page.search("filter", "")
    wait_until(lambda: page.all(".sort"), 60, "heads that sort")
    page.press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB)
    assert page.focused() == "sort"
    page.press(Keys.ENTER)
    wait_until(lambda: page.all("th[aria-sort=ascending]"), 60, "the order")
    page.on(".front tbody .link", "one.focus()")
    page.press(Keys.ENTER)
    page.on(".graph .node", "one.focus()", text="workload")
    page.press(Keys.ENTER)
    page.wait_text(".entity .kind", "workload", 60)
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.all(".entity"), 60, "the closed panel")
    assert page.run("return location.hash").startswith("#/table/pod?q=")
