# SPDX-License-Identifier: Apache-2.0
"""The page's table of subscriptions: what it shows, to whom, and how soon."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webdriver import WebDriver

from tests.functional.page import test_page_use
from tests.functional.page.cloud import HOSTILE, Cloud
from tests.functional.page.looking import PHONE, WIDE, Page
from tests.waiting import wait_until
from watcher_sync.extensions.webhooks.rows import SubscriptionRow
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions

guarded, refused = test_page_use.guarded, test_page_use.refused

ROWS = """
return [...document.querySelectorAll('.subscriptions tbody tr')].map(
  (row) => [...row.children].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()));
"""

NOW = datetime.datetime.now(datetime.UTC)
PROJECT = "0" * 32

NARROW = (900, 800)
"""A window that is hardly wider than that of the narrow layout."""


@pytest.fixture
def page(page: Page) -> Page:
    """The page, which shows the subscriptions."""
    page.open("#/subscriptions")
    wait_until(lambda: page.all(".connection.live") and page.all(".subscriptions"), 60, "the live subscriptions")
    return page


def subscribe(cloud: Cloud, name: str, instance_id: str, *, progress: dict[str, Any], **more: Any) -> str:
    """A subscription as the API and a worker would have written it."""
    subscription = SubscriptionRow(
        id=f"5f1e7c2a-0000-4000-8000-{len(name):012d}",
        instance_kind="instance",
        instance_id=instance_id,
        name=name,
        project_id=PROJECT,
        user_id=None,
        sees_admin_only=True,
        callback_url="https://receiver.example/changes",
        min_notify_interval=0.0,
        created_at=NOW,
        updated_at=NOW,
        **more,
    )
    Subscriptions(cloud.store.database, cloud.store.tables).create(subscription)
    if progress:
        tell(cloud, subscription.id, **progress)
    return subscription.id


def tell(cloud: Cloud, subscription_id: str, **progress: Any) -> None:
    """Progress, as a worker writes it."""
    t = cloud.store.tables.subscription_progress
    with cloud.store.database.begin() as connection:
        connection.execute(t.update().where(t.c.subscription_id == subscription_id).values(**progress))


@pytest.fixture
def subscribed(cloud: Cloud) -> list[str]:
    """Ids of a subscription that works, one that fails, one that is suspended, and one that has ended."""
    instances, now = list(cloud.instances), datetime.datetime.now(datetime.UTC)
    due = now + datetime.timedelta(minutes=28)
    late = now - datetime.timedelta(minutes=7)
    return [
        subscribe(cloud, "scaler", instances[0], progress={"last_notify_time": now, "last_notify_status": 204}),
        subscribe(cloud, "billing", instances[1], progress={"last_notify_time": now, "last_notify_status": 503,
                  "next_attempt_at": due, "behind_since": late, "failures": 3, "failing_since": late}),
        subscribe(cloud, "inventory-x", instances[2], state="suspended",
                  reason="every attempt since 2026-03-01 07:00:00Z failed; the last one: the connection was refused",
                  progress={"last_notify_time": now, "last_notify_status": 0}),
        subscribe(cloud, "old", instances[3], state="gone", reason="the callback answered 410",
                  progress={"last_notify_time": now, "last_notify_status": 410}),
    ]  # fmt: skip


def rows(page: Page) -> list[list[str]]:
    """The texts of the table's cells."""
    return list(page.run(ROWS))


def test_each_subscription_has_its_state_its_last_code_and_its_lag(
    cloud: Cloud, subscribed: list[str], page: Page
) -> None:
    names = [str(cloud.instances[entity_id]["name"]) for entity_id in cloud.instances][:4]
    wait_until(lambda: {row[1] for row in rows(page)} == set(names), 60, "the subscriptions with names of instances")
    suspended, failing, working, ended = rows(page)
    assert suspended[0] == "inventory-x"
    assert suspended[2].startswith("suspended every attempt since 2026-03-01")
    assert (suspended[3], suspended[5]) == ("no answer", "—")
    assert failing[:4] == ["billing", names[1], "active", "503"]
    assert int(failing[4].removesuffix(" min")) >= 7  # it grows while other tests of the module run
    assert ":" in failing[5]
    assert working[3:] == ["204", "0 s", "—"]
    assert ended[2] == "gone the callback answered 410"
    assert page.text(".subscriptions .alarming") == "1 suspended"
    assert page.complaints() == []


def test_the_table_follows_the_deliveries(cloud: Cloud, subscribed: list[str], page: Page) -> None:
    wait_until(lambda: len(rows(page)) == 4, 60, "the subscriptions")
    tell(cloud, subscribed[1], last_notify_status=202, next_attempt_at=None, behind_since=None)
    wait_until(lambda: ["billing", "202", "0 s", "—"] in [[r[0], *r[3:]] for r in rows(page)], 60, "the delivery")
    Subscriptions(cloud.store.database, cloud.store.tables).delete(subscribed[0])
    wait_until(lambda: "scaler" not in [row[0] for row in rows(page)], 60, "the deletion")


@pytest.mark.rare
def test_a_lag_grows_between_two_answers_of_the_api(cloud: Cloud, subscribed: list[str], page: Page) -> None:
    tell(cloud, subscribed[1], behind_since=datetime.datetime.now(datetime.UTC))
    wait_until(lambda: any(row[0] == "billing" and row[4].endswith(" s") for row in rows(page)), 60, "a short lag")
    seen: set[str] = set()
    entity_id = list(cloud.instances)[5]

    def grew() -> bool:
        cloud.commit(cloud.instance(entity_id, vcpus=len(seen) + 7))
        time.sleep(0.3)  # each change is drawn, and the page is to keep up
        seen.update(row[4] for row in rows(page) if row[0] == "billing")
        return len(seen) >= 3

    wait_until(grew, 60, "three different lags")


def test_the_instance_of_a_subscription_opens(cloud: Cloud, subscribed: list[str], page: Page) -> None:
    wait_until(lambda: len(rows(page)) == 4, 60, "the subscriptions")
    page.click(".subscriptions tbody .link")
    page.wait_text(".entity .kind", "instance")
    page.wait_text(".entity .id", list(cloud.instances)[2])


def test_without_subscriptions_the_table_says_so(page: Page) -> None:
    page.wait_text(".subscriptions .none", "No subscriptions")
    assert page.all(".subscriptions table") == []


def test_a_name_that_is_markup_stays_a_name_in_the_table(page: Page, cloud: Cloud) -> None:
    subscribe(cloud, HOSTILE, next(iter(cloud.instances)), progress={}, state="suspended", reason=HOSTILE)
    page.open("#/subscriptions")
    wait_until(lambda: len(rows(page)) == 1, 60, "the subscription")
    assert rows(page)[0][0] == HOSTILE
    assert rows(page)[0][2] == f"suspended {HOSTILE}"
    assert page.all("img") == []
    assert page.run("return window.alerted") is None


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.rare)])
def test_the_table_fits_a_desk_and_a_phone(subscribed: list[str], page: Page, tmp_path: Path, scheme: str) -> None:
    page.media(prefers_color_scheme=scheme)
    page.size(*WIDE)
    wait_until(lambda: len(rows(page)) == 4, 60, "the subscriptions")
    page.screenshot(f"desk-{scheme}-subscriptions", tmp_path)
    clipped = "const e = document.querySelector('.subscriptions .pane-body'); return e.scrollWidth > e.clientWidth"
    assert not page.run(clipped)
    page.size(*NARROW)
    page.screenshot(f"narrow-{scheme}-subscriptions", tmp_path)
    assert not page.run(clipped)
    page.size(*PHONE)
    assert page.all(".subscriptions")[0].is_displayed()
    page.screenshot(f"phone-{scheme}-subscriptions", tmp_path)
    assert page.run("return document.documentElement.scrollWidth") <= PHONE[0]
    assert not page.all(".changes")[0].is_displayed()
    page.choose(".views a", "Topology")
    wait_until(lambda: page.all(".tile"), 60, "the hosts")
    assert page.all(".subscriptions") == []
    assert page.complaints() == []


def test_a_reader_sees_the_subscriptions_of_its_project_and_others_see_no_table(
    guarded: tuple[str, Callable[..., str]], cloud: Cloud, subscribed: list[str], browser: WebDriver
) -> None:
    url, token = guarded
    page = Page(browser, url)
    page.open("#/subscriptions")
    wait_until(lambda: page.all("input#token"), 60, "the field for the token")
    assert page.all(".subscriptions") == []
    page.fill("input#token", token("service"), Keys.ENTER)
    page.wait_text(".quarantine", "The quarantine is for admins.")
    wait_until(lambda: "Subscriptions" not in page.on(".views", "return one.textContent"), 60, "the refusal")
    assert page.all(".subscriptions, .problem") == []
    page.click(".bar .link")
    wait_until(lambda: page.all("input#token"), 60, "the field for the token")
    page.fill("input#token", token("reader"), Keys.ENTER)
    wait_until(lambda: len(rows(page)) == 4, 60, "the subscriptions")


def test_the_subscriptions_after_the_first_page_of_the_api_are_in_the_table(page: Page, cloud: Cloud) -> None:
    instances = list(cloud.instances)
    stored = Subscriptions(cloud.store.database, cloud.store.tables)
    for number in range(105):  # a page of the API has 100
        made = SubscriptionRow(
            id=f"7a000000-0000-4000-8000-{number:012d}",
            instance_kind="instance",
            instance_id=instances[number % len(instances)],
            name=f"number-{number}",
            project_id=PROJECT,
            user_id=None,
            sees_admin_only=True,
            callback_url="https://receiver.example/changes",
            min_notify_interval=0.0,
            created_at=NOW,
            updated_at=NOW,
        )
        stored.create(made)
    names = {f"number-{number}" for number in range(105)}
    wait_until(lambda: {row[0] for row in rows(page)} >= names, 60, "the rows of both pages")
    assert page.complaints() == []
    for row in stored.page(limit=1000).rows:
        stored.delete(row[0].id)
