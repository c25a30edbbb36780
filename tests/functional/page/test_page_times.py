# SPDX-License-Identifier: Apache-2.0
"""Times on the page have their zone, in the hour that is repeated at the end of summer time, too."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page.cloud import Cloud
from tests.functional.page.conftest import own_tab
from tests.functional.page.looking import Page
from tests.functional.page.serving import served
from tests.waiting import wait_until

MOMENTS = [datetime.datetime(2026, 10, 25, hour, 30, tzinfo=datetime.UTC) for hour in (0, 1)]
"""Both are 02:30 in Berlin."""

MEANT = """
const [texts, done] = arguments;
import("/static/times.js").then(({momentsOf}) => done(texts.map(momentsOf)));
"""

TYPED = (
    "one.value = given[0]; one.dispatchEvent(new Event('input', {bubbles: true}));"
    "one.dispatchEvent(new FocusEvent('focusout', {bubbles: true}))"
)
CHOSEN = "one.selectedIndex = 1; one.dispatchEvent(new Event('change', {bubbles: true}))"


@pytest.fixture
def page(shared_cloud: Cloud, chromium_driver: WebDriver) -> Iterator[Page]:
    """The page in Berlin."""
    with served(shared_cloud.store, auth_strategy="noauth") as url, own_tab(chromium_driver) as driver:
        driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Europe/Berlin"})  # type: ignore[attr-defined]
        yield Page(driver, url)


@pytest.fixture
def repeated(shared_cloud: Cloud) -> list[int]:
    """The last two changes of an entity, an hour apart; their seqs."""
    entity_id, seqs = next(iter(shared_cloud.instances)), []
    for number in range(len(MOMENTS)):
        shared_cloud.commit(shared_cloud.instance(entity_id, vcpus=50 + number))
        seqs.append(shared_cloud.cycle.model.generation)
    journal = shared_cloud.store.tables.journal
    with shared_cloud.store.database.begin() as connection:
        before = MOMENTS[0] - datetime.timedelta(days=1)
        connection.execute(sa.update(journal).where(journal.c.seq < seqs[0]).values(time=before))
        for seq, moment in zip(seqs, MOMENTS, strict=True):
            connection.execute(sa.update(journal).where(journal.c.seq == seq).values(time=moment))
    return seqs


def test_the_two_moments_of_a_repeated_hour_have_different_texts(
    page: Page, shared_cloud: Cloud, repeated: list[int]
) -> None:
    page.open(f"#/instance/{next(iter(shared_cloud.instances))}")
    wait_until(lambda: len(page.all(".history time")) > 1, 30, "the history")
    later, earlier = page.texts(".history time")[:2]
    assert earlier.startswith("25 Oct 2026 02:30:00 CEST")
    assert later.startswith("25 Oct 2026 02:30:00 CET")
    rows = [page.text(f'li[data-seq="{seq}"] time') for seq in repeated]
    assert rows == ["02:30:00 CEST", "02:30:00 CET"]


def test_a_moment_of_a_repeated_hour_can_be_entered_and_stays(page: Page, repeated: list[int]) -> None:
    page.open()
    page.choose(".as-of summary")
    page.on("#as-of-time", TYPED, "2026-10-25T02:30:00")
    page.wait_text(".as-of output", f"#{repeated[0]:,} 25 Oct 2026 02:30:00 CEST", 30)
    page.on(".as-of select.zone", CHOSEN)
    page.on("#as-of-time", "one.dispatchEvent(new FocusEvent('focusout', {bubbles: true}))")
    page.wait_text(".as-of output", f"#{repeated[1]:,} 25 Oct 2026 02:30:00 CET", 30)
    assert page.run("return document.querySelector('.as-of select.zone').selectedOptions[0].text") == "CET"


def test_a_range_of_changes_can_begin_in_the_second_of_two_repeated_hours(page: Page, repeated: list[int]) -> None:
    page.open()
    page.choose(".range summary")
    page.on(".range [name=from]", TYPED, "2026-10-25T02:00:00")
    page.on(".range [name=to]", TYPED, "2026-10-25T03:00:00")
    page.choose(".range button", "Show")
    page.wait_text(".range .note", "2 changes in the range", 30)
    page.on(".range select.zone", CHOSEN)
    page.choose(".range button", "Show")
    page.wait_text(".range .note", "1 changes in the range", 30)


def test_a_text_of_a_field_means_each_moment_that_a_clock_shows_so(page: Page) -> None:
    page.open()
    meant = {
        "2026-10-25T02:30": ["2026-10-25T00:30:00.000Z", "2026-10-25T01:30:00.000Z"],
        "2026-10-25T01:59:59": ["2026-10-24T23:59:59.000Z"],
        "2026-10-25T03:00:00": ["2026-10-25T02:00:00.000Z"],
        "2026-03-29T02:30:00": ["2026-03-29T01:30:00.000Z"],  # no clock shows it
        "2026-07-01T12:00": ["2026-07-01T10:00:00.000Z"],
    }
    assert page.browser.execute_async_script(MEANT, list(meant)) == list(meant.values())
