# SPDX-License-Identifier: Apache-2.0
"""The page in headless Chromium, served by API workers that are processes of their own."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
import sqlalchemy
from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.api import conftest as api
from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services import browser as chromium
from tests.services.servers import ServiceMissing, free_port
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

serve = api.serve


def _store(url: str) -> Iterator[Store]:
    store = opened(url, builtin_kinds())
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def store(migrated_sqlite_url: str) -> Iterator[Store]:
    """An empty SQLite database."""
    yield from _store(migrated_sqlite_url)


@pytest.fixture
def postgresql_store(migrated_postgresql_url: str) -> Iterator[Store]:
    """An empty PostgreSQL database."""
    yield from _store(migrated_postgresql_url)


@pytest.fixture
def cloud(store: Store) -> Cloud:
    """A small cloud with problems: 60 hosts, 300 instances."""
    cloud = Cloud(store)
    cloud.grow(60, 300)
    cloud.problem()
    cloud.sources()
    cloud.quarantine()
    return cloud


@pytest.fixture
def api_client(cloud: Cloud, serve: Callable[..., httpx.Client]) -> httpx.Client:
    """The API over it, in another process."""
    return serve(cloud.store, workers=1, threads=16, max_streams=8, monitoring__stale_after=300)


@contextlib.contextmanager
def started_browser(folder: Path) -> Iterator[WebDriver]:
    """Headless Chromium with an empty profile in a folder; the driver stores everything that it logs."""
    try:
        found = chromium.find()
    except ServiceMissing as exc:
        pytest.fail(
            f"{exc}: install the package {chromium.PACKAGE}, set {chromium.VARIABLE}, or run the tests through "
            "`python -m tests.services.ensure -- COMMAND`",
            pytrace=False,
        )
    options = webdriver.ChromeOptions()
    options.binary_location = found.chromium
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--hide-scrollbars",
        "--no-first-run", "--disable-background-networking", "--disable-component-update", "--lang=en",
        f"--user-data-dir={folder / 'profile'}", "--window-size=1440,900",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options, Service(found.driver, free_port(), log_output=str(folder / "chromedriver.log")))
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="session")
def chromium_driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebDriver]:
    """Headless Chromium for all tests of a process. It keeps an empty tab."""
    with started_browser(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@contextlib.contextmanager
def own_tab(driver: WebDriver) -> Iterator[WebDriver]:
    """The browser in a new tab, without what other tests stored, set and logged."""
    before = driver.current_window_handle
    driver.switch_to.new_window("tab")
    driver.get_log("browser")  # type: ignore[attr-defined]
    try:
        yield driver
    finally:
        stored = {"origin": driver.current_url, "storageTypes": "all"}
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", stored)
        driver.close()
        driver.switch_to.window(before)


@pytest.fixture
def browser(chromium_driver: WebDriver) -> Iterator[WebDriver]:
    """A tab of one test."""
    with own_tab(chromium_driver) as driver:
        yield driver


@pytest.fixture(scope="module")
def shared_cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """A cloud of 30 hosts and 160 instances, with problems, for all tests of a module."""
    url = f"sqlite:///{tmp_path_factory.mktemp('cloud') / 'watcher-sync.sqlite'}"
    migrate(Store(sqlalchemy.create_engine(url), builtin_kinds())).database.dispose()
    for store in _store(url):
        cloud = Cloud(store)
        cloud.grow(30, 160)
        cloud.problem()
        cloud.sources()
        cloud.quarantine()
        yield cloud


@pytest.fixture(scope="module")
def shared_page(shared_cloud: Cloud, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page for all tests of a module, served by a thread of this process; each test opens its own views."""
    with served(shared_cloud.store, auth_strategy="noauth") as url, own_tab(chromium_driver) as driver:
        yield Page(driver, url)


@pytest.fixture
def page(browser: WebDriver, cloud: Cloud) -> Iterator[Page]:
    """The page, loaded and live, served by a thread of this process."""
    with served(cloud.store, auth_strategy="noauth") as url:
        page = Page(browser, url)
        page.open()
        page.wait_live()
        yield page
