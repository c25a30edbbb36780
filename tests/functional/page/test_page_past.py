# SPDX-License-Identifier: Apache-2.0
"""The page shows topology, search and entities as of a moment, and asks again for a topology that it did not get."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_access import violations
from tests.functional.page.test_page_views import change, rows, slide, vnf
from tests.waiting import wait_until
from watcher_sync.model.changes import Delete


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module."""
    return shared_cloud


@pytest.fixture
def page(shared_page: Page) -> Page:
    """That of the module, on a desk."""
    shared_page.size(*WIDE)
    shared_page.open()
    shared_page.wait_live()
    return shared_page


def marks(page: Page, host: str) -> str:
    """What a screen reader says of the members of a host."""
    script = "const e = document.querySelector(`.tile[data-id='${arguments[0]}'] .sr`); return e ? e.textContent : ''"
    return str(page.run(script, host))


def test_topology_search_and_panel_show_the_moment_of_the_slider_and_the_present_again(
    page: Page, cloud: Cloud
) -> None:
    entity_id, host = list(cloud.instances)[7], "cmp-past-0001"
    cloud.commit(cloud.node(host, service={"status": "enabled"}, zone={"service_zone": "past1"}))
    cloud.commit(cloud.instance(entity_id, host=host, name="then-1", state="active"))
    seq = cloud.cycle.model.generation
    cloud.commit(cloud.instance(entity_id, host="cmp-ams-0000", name="now-1", state="error"))
    page.open()
    wait_until(lambda: "0 instance" in marks(page, host) or marks(page, host).startswith(", ;"), 60, "the empty host")
    page.on(".as-of summary", "one.click()")
    slide(page, seq)
    wait_until(lambda: "1 instance: 1 active" in marks(page, host), 60, "the instance on its host of then")
    page.wait_text(".as-of output", f"#{seq:,}", 60)
    page.wait_text(".as-of output", "ago", 60)
    assert page.run("return location.hash") == f"#/topology?as_of={seq}"
    page.fill("#search", "then-1")
    page.wait_text(".found", "then-1", 60)
    page.click(".found .link")
    page.wait_text(".entity h2", "then-1", 60)
    page.wait_text(".entity .health", "active", 60)
    wait_until(lambda: any(host[:14] in text for text in page.texts(".graph .node")), 60, "the host in the graph")
    assert "error" not in page.text(".entity .history")
    assert page.run("return location.hash") == f"#/instance/{entity_id}?as_of={seq}"
    page.browser.refresh()
    page.wait_text(".entity h2", "then-1", 60)
    page.choose(".as-of button", "Now")
    assert page.run("return document.activeElement.matches('.as-of summary')")
    page.wait_text(".entity h2", "now-1", 60)
    page.wait_text(".entity .health", "error", 60)
    page.wait_text(".entity .history", "error", 60)
    page.press(Keys.ESCAPE)
    wait_until(lambda: not page.all(".entity"), 60, "the closed panel")
    assert page.run("return location.hash") == "#/topology"
    wait_until(lambda: "1 instance: 1 active" not in marks(page, host), 60, "the present")
    cloud.commit(cloud.instance(entity_id, state="active"))
    page.run(f"location.hash = '#/topology?as_of={seq}'")
    head = str(cloud.cycle.model.generation)
    wait_until(lambda: page.run("return document.querySelector('.as-of input').max") == head, 60, "the new end")


def test_the_moment_stays_from_view_to_view_and_a_view_of_the_present_says_so(page: Page, cloud: Cloud) -> None:
    entity_id = list(cloud.instances)[9]
    cloud.commit(cloud.instance(entity_id, name="paused-then", state="paused"))
    seq = cloud.cycle.model.generation
    cloud.commit(cloud.deleted(entity_id))
    page.open(f"#/table/instance?q=name%3Dpaused-then&as_of={seq}")
    wait_until(lambda: [row[:2] for row in rows(page)] == [["paused-then", "paused"]], 60, "the instance as it was")
    page.click(".front tbody .link")
    page.wait_text(".entity .health", "paused", 60)
    page.press(Keys.ESCAPE)
    wait_until(lambda: [row[:2] for row in rows(page)] == [["paused-then", "paused"]], 60, "the same table")
    page.choose(".views a", "Leases")
    page.wait_text(".as-of", "This view shows the present.", 60)
    page.choose(".views a", "Topology")
    wait_until(lambda: page.all(".tile"), 60, "the hosts")
    assert page.run("return location.hash") == f"#/topology?as_of={seq}"
    page.open(f"#/instance/{entity_id}?as_of={seq + 1}")
    page.wait_text(".entity .note", "It did not exist at this moment.", 60)
    page.open("#/topology?as_of=999999999")
    page.wait_text(".as-of .problem", "in the future", 60)


def test_a_vnf_instance_of_then_has_the_pods_of_then_and_no_lease(page: Page, cloud: Cloud) -> None:
    entity_id = vnf(cloud, state="DRIFTED", pods=3)
    seq = cloud.cycle.model.generation
    vnf(cloud, pods=2)
    change(cloud, "pod", "6f000000-0000-4000-8000-000000000000", "state", restarts=3)
    cloud.commit(Delete("pod", "6f000000-0000-4000-8000-000000000002", cloud._version()))
    page.open(f"#/vnf_instance/{entity_id}?as_of={seq}")
    page.wait_text(".entity .health", "DRIFTED", 60)
    wait_until(lambda: len(page.all(".graph .node")) == 5, 60, "workload, 3 pods and VNF instance")
    assert "Lease" not in page.text(".entity")
    page.choose(".as-of button", "Now")
    page.wait_text(".entity .health", "SYNCED", 60)
    page.wait_text(".entity", "No operation holds it.", 60)
    wait_until(lambda: len(page.all(".graph .node")) == 4, 60, "workload, 2 pods and VNF instance")


@pytest.mark.rare
@pytest.mark.parametrize(
    "looks",
    [[("desk", WIDE, "light"), ("phone", PHONE, "dark")], [("desk", WIDE, "dark"), ("phone", PHONE, "light")]],
    ids=["different", "others"],
)
def test_axe_finds_nothing_wrong_with_the_past(
    page: Page, cloud: Cloud, tmp_path: Any, looks: list[tuple[str, tuple[int, int], str]]
) -> None:
    page.browser.set_script_timeout(120)
    seq = cloud.cycle.model.generation - 1
    found = {}
    for name, size, scheme in looks:
        page.size(*size)
        page.media(prefers_color_scheme=scheme)
        page.open(f"#/topology?as_of={seq}")
        wait_until(lambda: page.all(".tile") and page.all(".slider"), 60, "the past")
        page.screenshot(f"{name}-{scheme}-past", tmp_path)
        found[name, scheme] = violations(page)
        assert page.run("return document.documentElement.scrollWidth <= innerWidth")
    page.media(prefers_color_scheme="light")
    assert not {key: wrong for key, wrong in found.items() if wrong}


class Failing:
    """WSGI middleware that answers requests of the topology with 503, as long as ``fails`` is set."""

    def __init__(self) -> None:
        self.fails = True
        self.retry_after = 0
        """Seconds before which the page does not ask again by itself."""
        self.asked = 0

    def __call__(self, application: Any) -> Any:
        """Wraps an application."""

        def wrapped(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            if environ["PATH_INFO"] != "/v1/topology":
                return application(environ, start_response)  # type: ignore[no-any-return]
            self.asked += 1
            if not self.fails:
                return application(environ, start_response)  # type: ignore[no-any-return]
            headers = [("Content-Type", "application/problem+json"), ("Retry-After", str(self.retry_after))]
            start_response("503 Service Unavailable", headers)
            return [json.dumps({"status": 503, "detail": "The database is not available now"}).encode()]

        return wrapped


@pytest.fixture
def failing(shared_cloud: Cloud) -> Iterator[tuple[Failing, str]]:
    """An API whose topology fails, and its URL."""
    failing = Failing()
    with served(shared_cloud.store, auth_strategy="noauth", wrap=failing) as url:
        yield failing, url


def test_a_topology_that_fails_is_asked_for_again_and_the_page_says_when(
    failing: tuple[Failing, str], browser: WebDriver, shared_cloud: Cloud, tmp_path: Any
) -> None:
    middleware, url = failing
    page = Page(browser, url)
    page.open()
    page.wait_text(".retry", "The database is not available now. The page asks again at", 60)
    page.screenshot("desk-light-retry", tmp_path)
    wait_until(lambda: middleware.asked >= 3, 60, "further attempts")
    middleware.fails = False
    wait_until(lambda: page.all(".tile"), 60, "the hosts without a reload")
    wait_until(lambda: not page.all(".retry"), 60, "the end of the notice")
    middleware.fails, middleware.retry_after = True, 3600  # from now on the button alone asks again
    shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=3))
    page.wait_text(".retry", "What you see is older.", 60)
    assert page.all(".tile")
    middleware.fails = False
    page.click(".retry button")
    wait_until(lambda: not page.all(".retry"), 60, "the end of the notice")


def test_a_time_leads_to_the_moment_and_the_slider_has_times_and_marks(page: Page, cloud: Cloud) -> None:
    entity_id = list(cloud.instances)[11]
    cloud.commit(cloud.instance(entity_id, name="marked", state="active"))
    cloud.commit(cloud.instance(entity_id, state="error"))
    page.choose(".as-of summary")
    wait_until(lambda: len(page.all(".scale text")) == 5, 60, "the times of the slider")
    assert page.all(".scale rect.error")
    page.choose(".as-of button", "\u22121 h")
    wait_until(lambda: "as_of=" in page.run("return location.hash"), 60, "the oldest moment, which is later")
    page.wait_text(".as-of output", "#1", 60)
    page.choose(".as-of button", "Now")
    wait_until(lambda: "as_of=" not in page.run("return location.hash"), 60, "the present")
    later = (
        "one.value = given[0]; one.dispatchEvent(new Event('input', {bubbles: true}));"
        "one.dispatchEvent(new FocusEvent('focusout', {bubbles: true}))"
    )
    local = "const at = new Date(); return new Date(at - at.getTimezoneOffset() * 60000).toISOString().slice(0, 19)"
    page.on("#as-of-time", later, page.run(local))
    wait_until(lambda: "as_of=20" in page.run("return location.hash"), 60, "a time in the address")
    page.wait_text(".as-of output", "ago", 60)
    page.choose(".as-of button", "Now")


def test_the_oldest_moment_of_a_purged_journal_has_no_time(page: Page, cloud: Cloud) -> None:
    oldest = cloud.cycle.model.generation - 3
    journal = cloud.store.tables.journal
    with cloud.store.database.begin() as connection:
        connection.execute(sa.delete(journal).where(journal.c.seq <= oldest))
    page.open("#/topology")
    page.open(f"#/topology?as_of={oldest}")
    page.wait_text(".as-of output", f"#{oldest:,}", 60)
    page.choose(".as-of button", "Now")
    wait_until(lambda: "as_of=" not in page.run("return location.hash"), 60, "the present")
