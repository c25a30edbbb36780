# SPDX-License-Identifier: Apache-2.0
"""The view of the engines: who leads, how each ended, and what is not known while the API is away."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.functional.page.wire import Wire
from watcher_sync.storage.groups.engines import EngineRow, end_engine, write_engine

ID = "control-1/boot/1/7/99"

LEADERLESS = """
const [cases, done] = arguments;
const at = Date.parse("2026-01-01T00:01:00Z");
import('/static/engines.js').then(({ leaderless }) => done(cases.map((engines) => leaderless(engines, at))));
"""


def engine(group: str, state: str, seconds: int = 1) -> dict[str, Any]:
    """:param seconds: since its last heartbeat."""
    return {"group": group, "state": state, "heartbeat_at": f"2026-01-01T00:00:{60 - seconds:02}Z"}


CASES = {
    "a leader and a standby": ([engine("a", "leading"), engine("a", "standby")], []),
    "a standby alone": ([engine("a", "standby"), engine("b", "leading")], ["a"]),
    "a silent leader": ([engine("a", "leading", 15)], ["a"]),
    "a group that was stopped beside one that leads": ([engine("a", "stopped"), engine("b", "leading")], []),
    "a stopped engine and a standby of one group": ([engine("a", "stopped"), engine("a", "standby")], ["a"]),
    "all groups were stopped": ([engine("a", "stopped"), engine("b", "stopped")], ["a", "b"]),
}


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


def test_a_group_that_was_stopped_is_leaderless_only_if_no_engine_runs(shared_page: Page) -> None:
    shared_page.open("#/engines")
    found = shared_page.browser.execute_async_script(LEADERLESS, [engines for engines, _ in CASES.values()])
    assert dict(zip(CASES, found, strict=True)) == {name: groups for name, (_, groups) in CASES.items()}


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
