# SPDX-License-Identifier: Apache-2.0
"""Numbers on the page are those that the API sent, whatever JavaScript can count."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Iterator

import httpx
import pytest
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.waiting import wait_until
from watcher_sync.commit.batch import Batch
from watcher_sync.events import Event
from watcher_sync.storage.drifts import FieldDifference, replace_drifts

BIG = 822106502566256641
SHOWN = f"{BIG:,}"
"""Whole numbers have groups of three digits."""

TEXTS = [
    "9007199254740993",
    "-9007199254740993",
    "1.0",
    "1e400",
    "-0",
    "0.1000000000000000055",
    "1E2",
    "12",
    "-7.5",
    "0",
]

AS_SENT = """
const [texts, done] = arguments;
const files = ["exact", "format"].map((name) => import(`/static/${name}.js`));
Promise.all(files).then(([{parse, step}, {plain, number}]) => {
  const sent = parse(`{"rows": [${texts}]}`).rows;
  done([JSON.stringify(sent), sent.map((one) => plain(one).replaceAll(",", "")), sent.map((one) => `${one}`),
    [step(sent[0], -1), step(sent[0], 1)], number(sent[0]), sent[0] > sent[1]]);
});
"""


@pytest.fixture(scope="module")
def api(shared_cloud: Cloud) -> Iterator[str]:
    """The URL of the API."""
    with served(shared_cloud.store, auth_strategy="noauth") as url:
        yield url


@pytest.fixture
def page(api: str, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page, not loaded."""
    with own_tab(chromium_driver) as driver:
        yield Page(driver, api)


def put(api: str, entity_id: str, serial: int) -> None:
    """A service type instance with numbers in what is asked for."""
    spec = f'{{"serial": {serial}, "ratio": 1.0, "list": [{BIG}]}}'
    body = f'{{"service_type": "vm", "spec": {spec}}}'
    url = f"{api}/v1/service_type_instances/{entity_id}"
    httpx.put(url, content=body, headers={"Content-Type": "application/json"}).raise_for_status()


def test_a_number_is_printed_compared_and_sent_back_as_it_came(page: Page) -> None:
    page.open()
    sent, plain, texts, steps, number, is_more = page.browser.execute_async_script(AS_SENT, TEXTS)
    assert sent == f"[{','.join(TEXTS)}]"
    assert plain == texts == TEXTS
    assert steps == ["9007199254740992", "9007199254740994"]
    assert (number, is_more) == ("9,007,199,254,740,993", True)


def test_an_entity_its_history_the_changes_and_a_table_have_whole_numbers(page: Page, api: str) -> None:
    put(api, "big", BIG)
    page.open("#/services")
    wait_until(lambda: SHOWN in page.text('.front tr[data-id="big"]'), 30, "the table")
    page.open("#/service_type_instance/big")
    page.wait_text(".entity .fields", SHOWN, 30)
    assert "ratio 1.0" in page.text(".entity .fields").replace("\n", " ")
    put(api, "big", BIG + 1)
    change = f"{SHOWN} → {BIG + 1:,}"
    page.wait_text(".changes .delta", change, 30)
    page.wait_text(".entity .history", change, 30)


def test_a_drift_has_whole_numbers(page: Page, shared_cloud: Cloud) -> None:
    found = FieldDifference(
        kind="instance", entity_id=next(iter(shared_cloud.instances)), field="vcpus", model_value=BIG,
        live_value=BIG + 1, policy="heal",
    )  # fmt: skip
    now = datetime.datetime.now(datetime.UTC)
    replace_drifts(shared_cloud.store.database, [found], source="nova", kinds=["instance"], now=now)
    page.open("#/drifts")
    page.wait_text("#drift-list", f"model {SHOWN}, live {BIG + 1:,}", 30)


def test_the_body_of_a_quarantined_event_has_its_numbers(page: Page, shared_cloud: Cloud) -> None:
    body = {"serial": BIG, "ratio": 1.0, "list": [9007199254740993, -0.0]}
    now = datetime.datetime.now(datetime.UTC)
    event = Event(id=str(uuid.uuid4()), type="instance.numbers", source="nova", time=now, data=body)
    shared_cloud.cycle.run(Batch(events=[event]))
    page.open()
    wait_until(lambda: page.text(".quarantine .figure") == "4", 30, "the quarantined events")
    page.choose(".by-reason summary")
    page.choose(".quarantined summary", "instance.numbers")
    page.wait_text(".quarantined pre[aria-label=Body]", str(BIG), 30)
    lines = {line.strip() for line in page.text(".quarantined pre[aria-label=Body]").splitlines()}
    assert {'"ratio": 1.0,', "9007199254740993,", "-0.0"} <= lines
