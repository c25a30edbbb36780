# SPDX-License-Identifier: Apache-2.0
"""The pane of an entity: it is there before its history, which comes in small pages, and after its deletion."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.waiting import PATIENCE_SECONDS, wait_until
from watcher_sync.assembly.api import Wsgi

HISTORY = "return [...document.querySelectorAll('.history > li .seq')].map((one) => +one.innerText.slice(1))"


class Gate:
    """Between server and API: counts the bytes of histories, and holds them back while it is shut."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.open.set()
        self.sizes: list[int] = []

    def __call__(self, application: Wsgi) -> Wsgi:
        """The application behind it."""

        def guarded(environ: Any, start_response: Any) -> Iterable[bytes]:
            if not environ["PATH_INFO"].endswith("/history"):
                return application(environ, start_response)
            self.open.wait(PATIENCE_SECONDS)
            body = b"".join(application(environ, start_response))
            self.sizes.append(len(body))
            return [body]

        return guarded


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module; each test has an instance of its own."""
    return shared_cloud


@pytest.fixture(scope="module")
def gate() -> Gate:
    """One for all tests here."""
    return Gate()


@pytest.fixture(scope="module")
def gated_page(shared_cloud: Cloud, gate: Gate, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page of an API behind it."""
    with served(shared_cloud.store, auth_strategy="noauth", wrap=gate) as url, own_tab(chromium_driver) as driver:
        yield Page(driver, url)


@pytest.fixture
def page(gated_page: Page, gate: Gate) -> Page:
    """It, with an open gate and no bytes yet."""
    gate.open.set()
    gate.sizes.clear()
    return gated_page


def instance(cloud: Cloud, name: str, changes: int = 0, **state: Any) -> str:
    """The id of a new instance that changed so often."""
    entity_id = str(uuid.uuid4())
    cloud.commit(cloud.instance(entity_id, host="cmp-ams-0000", name=name, state="active", **state))
    for number in range(changes):
        cloud.commit(cloud.instance(entity_id, vcpus=100 + number))
    return entity_id


def test_an_entity_is_drawn_before_its_history_comes(page: Page, cloud: Cloud, gate: Gate) -> None:
    entity_id = instance(cloud, "early-1", 3)
    gate.open.clear()
    page.open(f"#/instance/{entity_id}")
    page.wait_text(".entity h2", "early-1")
    page.wait_text(".entity .fields", "cmp-ams-0000")
    assert page.all(".history") == []
    gate.open.set()
    wait_until(lambda: len(page.run(HISTORY)) == 4, 60, "its history")


def test_a_history_comes_in_pages_of_few_bytes_from_the_latest_change(page: Page, cloud: Cloud, gate: Gate) -> None:
    entity_id = instance(cloud, "long-1", 0, metadata={"big": "x" * 3000})
    for number in range(45):
        cloud.commit(cloud.instance(entity_id, metadata={"big": "x" * 3000, "number": str(number)}))
    page.open(f"#/instance/{entity_id}")
    wait_until(lambda: len(page.run(HISTORY)) == 20, 60, "the first page")
    assert sum(gate.sizes) < 16_000
    seqs = page.run(HISTORY)
    assert seqs == sorted(seqs, reverse=True)
    assert seqs[0] == cloud.cycle.model.generation
    page.wait_text(".history > li:first-child", "metadata changed show")
    page.choose(".history > li:first-child .link", "show")
    page.wait_text(".history > li:first-child", "metadata number 43 → 44")
    cloud.commit(cloud.instance(entity_id, vcpus=7))
    page.wait_text(".history > li:first-child", "vcpus")
    for rows in (40, 47):
        page.choose(".entity button.quiet", "Show earlier changes")
        wait_until(lambda rows=rows: len(page.run(HISTORY)) >= rows, 60, f"{rows} changes")
    assert page.run(HISTORY) == sorted(set(page.run(HISTORY)), reverse=True)
    assert "Show earlier changes" not in page.text(".entity")
    assert "show" not in page.text(".history > li:last-child")


def test_a_deleted_entity_has_its_name_its_last_fields_and_the_way_to_what_it_was(page: Page, cloud: Cloud) -> None:
    entity_id = instance(cloud, "gone-1", 2)
    before = cloud.cycle.model.generation
    cloud.commit(cloud.deleted(entity_id), type="instance.delete.end")
    page.open(f"#/instance/{entity_id}")
    page.wait_text(".entity h2", "gone-1")
    page.wait_text(".entity .kind", "deleted")
    page.wait_text(".entity .note", "It was deleted at")
    page.wait_text(".entity .fields", "cmp-ams-0000")
    page.wait_text(".history > li:first-child", "deleted")
    page.choose(".entity .note a", "as it was")
    page.wait_text(".as-of output", f"#{before:,}")
    page.wait_text(".entity .health", "active")
    assert "deleted" not in page.text(".entity .kind")
