# SPDX-License-Identifier: Apache-2.0
"""Many tabs and windows of one browser: each is live, and few of them have a stream."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.page.streams import Streams
from tests.functional.page.test_page_login import log_in
from tests.waiting import wait_until
from watcher_sync.testing.openstack import FakeOpenStack
from watcher_sync.testing.openstack.identity import PASSWORD, USERS

SECONDS = 30
MOST = 3
"""Streams of one browser."""

HIDE = """
Object.defineProperty(document, "hidden", {value: arguments[0], configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""

TAKE_ALL = """
for (const number of [1, 2, 3]) navigator.locks.request(`watcher-sync-stream-${number}`, () => new Promise(() => {}));
"""


@pytest.fixture
def streams() -> Streams:
    """Those of the API."""
    return Streams()


@pytest.fixture
def api(shared_cloud: Cloud, streams: Streams) -> Iterator[str]:
    """The URL of an API."""
    with served(shared_cloud.store, auth_strategy="noauth", wrap=streams, stream_heartbeat=1) as url:
        yield url


def live(page: Page) -> Any:
    """Whether the page has loaded and follows the journal."""
    return page.all(".connection.live") and page.all(".tile")


@contextlib.contextmanager
def windows(driver: WebDriver, url: str, count: int) -> Iterator[dict[str, Page]]:
    """So many windows of the page, one after the other live: handle -> page."""
    before, found = driver.current_window_handle, {}
    with ExitStack() as stack:
        stack.callback(driver.switch_to.window, before)
        for number in range(count):
            driver.switch_to.new_window("window")
            stack.callback(closed, driver, driver.current_window_handle)
            page = found[driver.current_window_handle] = Page(driver, url)
            page.open()
            wait_until(lambda page=page: live(page), SECONDS, f"the live page {number + 1}")
        yield found


def closed(driver: WebDriver, handle: str) -> None:
    """Close a window."""
    driver.switch_to.window(handle)
    driver.close()


def test_seven_windows_are_live_and_show_each_change(
    api: str, streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    with windows(chromium_driver, api, 7) as pages:
        assert streams.open == MOST
        assert streams.asked
        shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=61))
        seq = shared_cloud.cycle.model.generation
        for handle, page in pages.items():
            chromium_driver.switch_to.window(handle)
            wait_until(lambda page=page: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
            shown = page.run("return [...document.querySelectorAll('li[data-seq]')].map(e => +e.dataset.seq)")
            assert shown == sorted(set(shown), reverse=True)


def test_a_window_takes_the_stream_of_one_that_is_closed(
    api: str, streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    with windows(chromium_driver, api, MOST) as pages, windows(chromium_driver, api, 1):
        for handle in pages:
            chromium_driver.switch_to.window(handle)
            chromium_driver.get("about:blank")
        wait_until(lambda: streams.open == 1, SECONDS, "the stream of the last window")


def test_a_hidden_page_has_no_stream_and_misses_no_change(
    api: str, streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    with own_tab(chromium_driver) as driver:
        page = Page(driver, api)
        page.open()
        wait_until(lambda: live(page) and streams.open == 1, SECONDS, "the live page")
        page.run(HIDE, True)
        wait_until(lambda: streams.open == 0, SECONDS, "the end of the stream")
        for number in range(1200):  # more than the page stores
            shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=100 + number))
        page.run(HIDE, False)
        seq = shared_cloud.cycle.model.generation
        wait_until(lambda: page.text(".connection .seq") == f"#{seq:,}", SECONDS, "the last change")
        wait_until(lambda: page.all(f'li[data-seq="{seq}"]') and streams.open == 1, SECONDS, "the live page")


def test_a_page_that_was_left_has_no_stream_and_back_shows_it_live(
    api: str, streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    with own_tab(chromium_driver) as driver:
        page = Page(driver, api)
        page.open()
        wait_until(lambda: live(page) and streams.open == 1, SECONDS, "the live page")
        driver.get(f"{api}/openapi.json")
        wait_until(lambda: streams.open == 0, SECONDS, "the end of the stream")
        shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=62))
        driver.back()
        seq = shared_cloud.cycle.model.generation
        wait_until(lambda: live(page) and page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change of the meantime")


def test_a_browser_without_locks_follows_the_journal_without_a_stream(
    api: str, streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    with own_tab(chromium_driver) as driver:
        source = {"source": "Object.defineProperty(navigator, 'locks', {value: undefined})"}
        driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", source)  # type: ignore[attr-defined]
        page = Page(driver, api)
        page.open()
        wait_until(lambda: live(page), SECONDS, "the live page")
        shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=63))
        seq = shared_cloud.cycle.model.generation
        wait_until(lambda: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
        assert streams.open == 0


def test_a_page_whose_stream_is_refused_follows_the_journal_without_one(
    streams: Streams, shared_cloud: Cloud, chromium_driver: WebDriver
) -> None:
    full = {"auth_strategy": "noauth", "max_streams": 0, "wrap": streams}
    with served(shared_cloud.store, **full) as url, own_tab(chromium_driver) as driver:  # type: ignore[arg-type]
        page = Page(driver, url)
        page.open()
        wait_until(lambda: live(page), SECONDS, "the live page")
        shared_cloud.commit(shared_cloud.instance(next(iter(shared_cloud.instances)), vcpus=66))
        seq = shared_cloud.cycle.model.generation
        wait_until(lambda: page.all(f'li[data-seq="{seq}"]'), SECONDS, "the change")
        wait_until(lambda: streams.asked >= 3, SECONDS, "the third request")
        assert page.all(".connection.live")
        assert 0 < streams.begun < streams.asked


def test_windows_with_two_logins_show_each_only_its_own_changes(
    shared_cloud: Cloud, streams: Streams, chromium_driver: WebDriver
) -> None:
    keystone_of = {"auth_strategy": "keystone", "wrap": streams}
    first, second = list(shared_cloud.instances)[:2]
    with (
        FakeOpenStack() as keystone,
        served(shared_cloud.store, keystone=keystone.options("admin"), **keystone_of) as url,  # type: ignore[arg-type]
        own_tab(chromium_driver) as driver,
    ):
        admin = Page(driver, url)
        handle = driver.current_window_handle
        for page, user in ((admin, "admin"), (Page(driver, url), "demo")):
            if user == "demo":
                admin.run(TAKE_ALL)
                driver.switch_to.new_window("window")
            page.open()
            wait_until(lambda page=page: page.all("input[name=user]"), SECONDS, "the form")
            log_in(page, user, PASSWORD, user)
            wait_until(lambda page=page: page.all(".connection.live"), SECONDS, "the live page")
        shared_cloud.commit(shared_cloud.instance(first, vcpus=64, project_id=USERS["admin"].project_id))
        shared_cloud.commit(shared_cloud.instance(second, vcpus=65, project_id=USERS["demo"].project_id))
        seq = shared_cloud.cycle.model.generation
        wait_until(lambda: admin.all(f'li[data-seq="{seq}"]'), SECONDS, "the change of the project")
        assert not admin.all(f'li[data-seq="{seq - 1}"]')
        driver.close()
        driver.switch_to.window(handle)
        wait_until(lambda: admin.all(f'li[data-seq="{seq - 1}"]'), SECONDS, "the change of the other project")
