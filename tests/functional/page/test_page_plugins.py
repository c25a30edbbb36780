# SPDX-License-Identifier: Apache-2.0
"""The page shows the kinds of a plugin by their declaration alone: links, graph, counts, tiles, lists and search."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.functional.page.serving import served
from tests.functional.page.test_page_access import violations
from tests.functional.page.test_page_views import change, rows
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.plugin_kinds import plugin_kinds
from tests.waiting import wait_until
from watcher_sync.storage.writing.store import Store

INSTANCE = "7f000000-0000-4000-8000-000000000001"
VIEWS = {
    "topology": ".kinds li",
    "table/volume": ".data",
    "storage_pool/p1": ".graph .node",
    "volume/v1": ".graph .node",
}
"""View -> what is there when it is complete."""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """An installation that has entities of a plugin's kinds alone: pools with 14 volumes, and a policy."""
    url = f"sqlite:///{tmp_path_factory.mktemp('plugged') / 'watcher-sync.sqlite'}"
    migrate(Store(sqlalchemy.create_engine(url), plugin_kinds())).database.dispose()
    store = opened(url, plugin_kinds())
    cloud = Cloud(store)
    change(cloud, "storage_pool", "p1", "state", label="fast disks", state="up")
    change(cloud, "storage_pool", "p2", "state", state="down")
    for number in range(14):
        status, pools = ("error" if number == 9 else "available"), (["p1", "p2"] if number == 1 else ["p1"])
        users = [INSTANCE, "never-seen"] if number == 1 else None
        change(cloud, "volume", f"v{number}", "state", title=f"vol-{number}", status=status, pools=pools, users=users,
               vault="v-9" if number == 1 else None)  # fmt: skip
    change(cloud, "policy", "gold", "state", volumes=["v1", "v2"], copies=3)
    yield cloud
    store.close()
    store.database.dispose()


@pytest.fixture(scope="module")
def plugged_page(plugged: Cloud, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page over it."""
    with served(plugged.store, auth_strategy="noauth") as url, own_tab(chromium_driver) as driver:
        yield Page(driver, url)


def links(page: Page, selector: str) -> list[str]:
    """The texts of the links in an element."""
    return page.texts(f"{selector} .link")


def field(page: Page, name: str) -> str:
    """The value of a field of the open entity."""
    script = """return [...document.querySelectorAll('.entity .fields div')].find(
        (one) => one.querySelector('dt').innerText === arguments[0])?.querySelector('dd').innerText ?? ''"""
    return str(page.run(script, name)).strip()


def test_the_first_screen_has_the_kinds_with_their_numbers_and_the_places_with_their_members(
    plugged_page: Page,
) -> None:
    page = plugged_page
    page.size(*WIDE)
    page.open()
    wait_until(lambda: len(page.all(".kinds li")) == 3, 60, "the kinds that have entities")
    shown = [" ".join(text.split()) for text in page.texts(".kinds li")]
    assert shown == ["Storage pools 2: 1 down, 1 up", "Volumes 14: 1 error, 13 available", "Policies 1"]
    assert page.texts(".tile-name") == ["p2", "fast disks"]
    assert page.text(".figures").startswith("2 storage pools · 14 volumes")
    assert "Storage pools with problems" in page.text(".topology .rule")
    page.choose(".kinds a", "Policies")
    wait_until(lambda: [row[:2] for row in rows(page)] == [["gold", "vol-1, vol-2"]], 60, "the policies")
    page.choose(".views a", "Table")
    wait_until(lambda: len(rows(page)) == 14, 60, "the first kind that runs on another")
    heads = page.texts(".data thead th")
    titles = [head.split("\n")[0].rstrip("↕↑↓") for head in heads]
    assert titles == ["name", "state", "health", "pools", "users", "vault"]
    row = next(row for row in rows(page) if row[0] == "vol-1")
    assert row == ["vol-1", "available", "ok", "fast disks, p2", f"{INSTANCE}, never-seen", "v-9"]
    page.open()
    wait_until(lambda: page.all(".tile"), 60, "the pools")
    page.search("search", "vol-13")
    page.wait_text(".found", "vol-13")
    page.choose(".found .link", "vol-13")
    page.wait_text(".entity h2", "vol-13")


def test_an_entity_has_its_links_its_graph_and_its_counts_in_both_directions(
    plugged_page: Page, plugged: Cloud
) -> None:
    page = plugged_page
    page.size(*WIDE)
    page.open("#/volume/v1")
    wait_until(lambda: field(page, "pools") == "fast disks, p2", 60, "the names of the pools")
    wait_until(lambda: not page.all(f'.entity .link[title="{INSTANCE}"]'), 60, "no link to what is not there")
    assert field(page, "users") == f"{INSTANCE}, never-seen"
    assert field(page, "vault") == "v-9"
    wait_until(lambda: field(page, "member of") == "gold", 60, "the policy that names it")
    assert field(page, "runs on") == "fast disks, p2"
    wait_until(lambda: len(page.all(".graph .node")) == 4, 60, "it, two pools and a policy")
    labels = [str(one.get_attribute("aria-label")) for one in page.all(".graph .node")]
    (own,) = (label for label in labels if label.startswith("volume vol-1, available, "))
    assert set(own.split(", ")[2:]) == {"runs on fast disks", "runs on p2", "member of gold"}
    assert page.texts(".graph .line title").count("vol-1 member of gold") == 1
    assert page.all(".entity .problem") == []
    page.choose(".entity .fields .link", "fast disks")
    page.wait_text(".entity h2", "fast disks")
    page.wait_text(".entity .impact", "14, 1 error")
    wait_until(lambda: page.texts(".entity .member .name")[:1] == ["vol-9"], 60, "the worst first")
    assert len(page.all(".entity .member")) == 14
    assert len(page.all(".graph .node")) == 11
    assert page.all(".graph .node.bad")
    assert page.text(".entity .note") == "4 more, not drawn; the worst are."
    change(plugged, "volume", "v15", "state", title="vol-15", status="error", pools=["p1"])
    page.wait_text(".entity .impact", "15, 2 error")
    page.click(".entity .impact a")
    wait_until(lambda: len(rows(page)) == 15, 60, "the list of the volumes of the pool")
    assert page.run("return document.getElementById('filter').value") == "pools=p1"
    change(plugged, "instance", INSTANCE, "state", state="active")
    page.open("#/volume/v1")
    wait_until(lambda: page.all(f'.entity .link[title="{INSTANCE}"]'), 60, "a link to what is there now")


def test_what_is_not_there_or_not_installed_is_no_error(plugged_page: Page) -> None:
    page = plugged_page
    page.open("#/volume/never-made")
    page.wait_text(".entity .note", "The model does not have it.")
    page.open("#/vault/v-9")
    page.wait_text(".entity .note", "The kind vault is not installed.")
    assert page.all(".entity .problem") == []


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", [WIDE, PHONE], ids=["desk", "phone"])
def test_axe_finds_nothing_wrong_with_what_a_plugin_declares(
    plugged_page: Page, tmp_path: Path, size: tuple[int, int], scheme: str
) -> None:
    page = plugged_page
    page.browser.set_script_timeout(120)
    page.size(*size)
    page.media(prefers_color_scheme=scheme)
    wrong = {}
    for view, complete in VIEWS.items():
        page.open(f"#/{view}")
        wait_until(lambda complete=complete: page.all(complete), 60, f"{complete} of {view}")
        name = view.replace("/", "-")
        page.screenshot(f"{'phone' if size == PHONE else 'desk'}-{scheme}-plugin-{name}", tmp_path)
        if found := violations(page):
            wrong[view] = found
        assert page.run("return document.documentElement.scrollWidth") <= size[0]
    assert not wrong, "\n".join(f"{view}: {one}" for view, found in wrong.items() for one in found)


def test_an_installation_without_places_has_its_kinds_their_problems_and_no_empty_views(
    tmp_path: Path, chromium_driver: WebDriver
) -> None:
    url = f"sqlite:///{tmp_path / 'volumes.sqlite'}"
    migrate(Store(sqlalchemy.create_engine(url), plugin_kinds())).database.dispose()
    store = opened(url, plugin_kinds())
    cloud = Cloud(store)
    for number in range(5):
        status = "error" if number < 2 else "available"
        change(cloud, "volume", f"v{number}", "state", title=f"vol-{number}", status=status)
    with served(store, auth_strategy="noauth") as address, own_tab(chromium_driver) as driver:
        page = Page(driver, address)
        page.size(*WIDE)
        page.open()
        page.wait_text(".figures", "5 volumes")
        assert "2 volumes with problems" in page.text(".figures")
        assert [text.strip() for text in page.texts(".kinds li")] == ["Volumes 5: 2 error, 3 available"]
        assert not {"VNFs", "Services"} & set(page.texts(".views a"))
        page.choose(".kinds a.state", "2 error")
        wait_until(lambda: {row[0] for row in rows(page)} == {"vol-0", "vol-1"}, 60, "the volumes in error")
        assert page.texts("#kind option")[0] == "volumes"
    store.close()
    store.database.dispose()
