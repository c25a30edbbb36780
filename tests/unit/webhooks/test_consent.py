# SPDX-License-Identifier: Apache-2.0
"""A receiver that is to be asked for its consent gets nothing before it gave it."""

from __future__ import annotations

import pytest

from tests.unit.webhooks.driver import Driver
from watcher_sync.webhooks.attempts import Attempt
from watcher_sync.webhooks.handshake import Grant
from watcher_sync.webhooks.subscription_rows import GRANTED, WANTED


@pytest.fixture
def driver():
    driver = Driver()
    driver.log.write("instance", "i", state="building")
    driver.subscribe(consent=WANTED)
    driver.log.write("instance", "i", state="active")
    driver.step()
    return driver


def grant(code=200, reason="", rate=None):
    return Grant(granted=not reason, reason=reason, rate=rate, attempt=Attempt(code=code, detail=reason, seconds=0.1))


def asked(driver):
    """The subscription whose receiver is to be asked now."""
    (live,) = driver.planner.take_asking()
    return live


def answer(driver, given, url=None):
    live = asked(driver)
    driver.planner.answered(live, url or live.subscription.callback_url, given)
    driver.step()
    return live


def test_nothing_is_delivered_before_the_consent_and_the_change_after_it(driver):
    assert driver.states() == []
    live = answer(driver, grant())
    assert live.subscription.consent == GRANTED
    assert driver.states() == ["delivered"]
    assert driver.planner.take_asking() == []


def test_the_rate_of_the_consent_limits_the_deliveries(driver):
    answer(driver, grant(rate=2))
    driver.log.write("instance", "i", state="stopped")
    driver.run(29)
    assert driver.states() == ["delivered"]
    driver.run(2)
    assert driver.states() == ["delivered", "delivered"]


def test_a_refusal_suspends_the_subscription_with_its_reason(driver):
    answer(driver, grant(405, "HTTP 405 Method Not Allowed"))
    assert driver.subscription().state == "suspended"
    assert driver.subscription().reason == "the callback did not consent: HTTP 405 Method Not Allowed"
    assert driver.states() == []


@pytest.mark.parametrize("code", [0, 503])
def test_a_receiver_without_an_answer_is_asked_again_later(driver, code):
    answer(driver, grant(code, "timed out"))
    assert driver.subscription().state == "active"
    assert driver.planner.take_asking() == []
    driver.run(7)
    answer(driver, grant())
    assert driver.states() == ["delivered"]


def test_each_request_is_in_the_delivery_log_with_its_result(driver):
    answer(driver, grant(503, "HTTP 503 Service Unavailable"))
    driver.run(7)
    answer(driver, grant())
    logged = [(state, each) for each, state in driver.tables.deliveries.values() if each.purpose == "validation"]
    assert [state for state, _ in logged] == ["dead", "delivered"]
    assert [each.attempts[0]["code"] for _, each in logged] == [503, 200]
    assert [each["sequence"] for each in driver.receivers["s"].bodies] == [2]


def test_an_answer_of_a_former_callback_does_not_count(driver):
    live = answer(driver, grant(), url="https://former.example.com/")
    assert live.subscription.consent == WANTED
    assert asked(driver) is live
