# SPDX-License-Identifier: Apache-2.0
"""The view of the engines: who leads, how each ended, and what is not known while the API is away."""

from __future__ import annotations

import datetime

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.page.wire import Wire
from watcher_sync.storage.groups.engines import EngineRow, end_engine, write_engine

ID = "control-1/boot/1/7/99"


@pytest.fixture
def cloud(shared_cloud: Cloud) -> Cloud:
    """That of the module, with one engine."""
    now = datetime.datetime.now(datetime.UTC)
    row = EngineRow(
        id=ID, engine_group="default", host="control-1", pid=7, release="1.2", since=now, heartbeat_at=now,
        seq=5, lag_seconds=0.5, sources=["nova"],
    )  # fmt: skip
    write_engine(shared_cloud.store.database, row)
    return shared_cloud


def test_the_last_run_of_an_engine_that_was_stopped_is_shown(shared_page: Page, cloud: Cloud) -> None:
    page = shared_page
    page.open("#/engines")
    page.wait_text(".engines tbody", "standby")
    end_engine(cloud.store.database, ID, datetime.datetime.now(datetime.UTC))
    page.wait_text(".engines tbody", "stopped")
    page.wait_text(".engines .problem", "No engine runs. The last one was stopped at")
    assert "control-1" in page.text(".engines tbody")
    assert page.all(".engines table:not(.outlets) .state.bad") == []


def test_while_the_api_is_away_the_engines_are_unknown_and_not_dead(cloud: Cloud, browser: WebDriver) -> None:
    with served(cloud.store, auth_strategy="noauth") as url:
        wire = Wire(int(url.rsplit(":", 1)[1]))
        page = Page(browser, f"http://127.0.0.1:{wire.port}")
        page.open("#/engines")
        page.wait_text(".engines tbody", "standby")
        wire.cut()
        page.wait_text(".engines .problem", "What the engines do is not known since")
        page.wait_text(".engines .state.unknown", "unknown, was standby")
        wire.mend()
        page.wait_text(".engines .state.off", "standby")
        wire.cut()
