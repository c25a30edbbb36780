# SPDX-License-Identifier: Apache-2.0
"""Each receiver ends with what exists after the database went back in time, however its subscription fared."""

from __future__ import annotations

import copy

import pytest

from tests.unit.extensions.webhooks.driver import DAY, FAILED, GONE_FOREVER, KINDS, Driver, vnf
from watcher_sync.extensions.webhooks.deliveries import DeliverySettings
from watcher_sync.extensions.webhooks.rows import GONE, SUSPENDED
from watcher_sync.model.model import Model
from watcher_sync.storage.writing.journal import follow


def member() -> Driver:
    """A VNF instance with a pod, at the moment of the backup."""
    driver = vnf(min_notify_interval=0.0)
    driver.log.write("pod", "p", owner_uid="d", phase="Pending")
    driver.step()
    return driver


def lose(driver: Driver) -> None:
    """Deliver changes that the backup does not have."""
    driver.log.write("pod", "p", phase="Running")
    for each in ("q", "r", "s"):
        driver.log.write("pod", each, owner_uid="d")
    driver.step()
    assert ("pod", "s") in driver.receivers["s"].documents


def go_back(driver: Driver, head: int) -> None:
    """Set the journal back to a seq; the next worker notices it."""
    driver.log.rows = driver.log.rows[:head]
    driver.log.model = Model(KINDS)
    follow(driver.log.model, driver.log.rows)
    driver.receivers["s"].bodies.clear()
    driver.restart()
    driver.planner.restored([driver.subscription().shard], "e2")


def store_epoch(driver: Driver) -> None:
    """What a session does once the subscriptions of the shard know the epoch."""
    assert not driver.planner.has_writes
    driver.tables.sequence = min(driver.tables.sequence, driver.log.head)


def agrees(driver: Driver) -> bool:
    return driver.receivers["s"].documents == driver.existing(driver.subscription())


@pytest.mark.parametrize("state", [SUSPENDED, GONE])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_was_not_active_in_the_backup_gets_all_resources_when_it_is_resumed(
    state: str, is_restarted: bool
) -> None:
    driver = member()
    driver.tables.set("s", state=state)
    driver.step()
    backup, head = copy.deepcopy(driver.tables), driver.log.head
    driver.put()
    lose(driver)
    driver.tables = backup
    go_back(driver, head)
    driver.step()
    store_epoch(driver)
    driver.log.write("pod", "t", owner_uid="d")
    driver.step()
    assert driver.receivers["s"].bodies == []
    if is_restarted:
        driver.restart()
    driver.put()
    driver.step()
    assert "went back in time" in driver.receivers["s"].bodies[0]["resync"]
    assert agrees(driver)
    driver.log.write("pod", "t", phase="Running")
    driver.step()
    assert [body.get("resync") is None for body in driver.receivers["s"].bodies] == [False, True]
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_positions_of_the_lost_history_skip_no_changes_of_what_is_resumed(is_restarted: bool) -> None:
    driver = member()
    head = driver.log.head
    lose(driver)
    driver.tables.set("s", state=SUSPENDED)
    driver.step()
    go_back(driver, head)  # the worker wrote into the restored database before it noticed
    driver.step()
    store_epoch(driver)
    if is_restarted:
        driver.restart()
    driver.put()
    driver.step()
    assert agrees(driver)
    driver.log.write("pod", "p", phase="Failed")
    driver.step()
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_is_suspended_before_it_got_all_resources_gets_them_when_it_is_resumed(is_restarted: bool) -> None:
    driver = member()
    head = driver.log.head
    lose(driver)
    go_back(driver, head)
    driver.tables.set("s", state=SUSPENDED)
    driver.step()
    store_epoch(driver)
    if is_restarted:
        driver.restart()
    driver.put()
    driver.step()
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("answer", [FAILED, GONE_FOREVER])
def test_all_resources_that_a_receiver_did_not_accept_are_sent_when_it_is_resumed(
    answer: object, is_restarted: bool
) -> None:
    driver = member()
    driver.settings = DeliverySettings(suspend_after=5 * DAY)
    head = driver.log.head
    lose(driver)
    go_back(driver, head)
    driver.answers["s"] = lambda _: answer  # type: ignore[assignment,return-value]
    driver.run(6 * DAY)
    store_epoch(driver)
    assert not driver.planner.of_shards([driver.subscription().shard])[0].is_active
    del driver.answers["s"]
    if is_restarted:
        driver.restart()
    driver.put()
    driver.run(DAY)
    assert agrees(driver)


def test_all_resources_of_a_dead_delivery_are_sent_by_the_next_worker() -> None:
    driver = member()
    head = driver.log.head
    lose(driver)
    go_back(driver, head)
    driver.answers["s"] = lambda _: FAILED
    while "dead" not in driver.states():
        driver.run(DAY / 24)
    store_epoch(driver)
    driver.restart()
    del driver.answers["s"]
    driver.run(DAY)
    assert agrees(driver)


def test_a_replay_of_what_missed_all_resources_has_them() -> None:
    driver = member()
    head = driver.log.head
    lose(driver)
    driver.tables.set("s", state=SUSPENDED)
    driver.step()
    go_back(driver, head)
    driver.step()
    store_epoch(driver)
    driver.put(replay_since=head - 1)
    driver.read_registry()
    driver.tables.write(driver.planner.take_writes(checkpoint=True)[0])  # nothing is planned yet
    driver.restart()
    driver.step()
    assert driver.subscription().replay_since is None
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_all_resources_that_the_database_refused_are_sent_when_it_is_resumed(is_restarted: bool) -> None:
    driver = member()
    head = driver.log.head
    lose(driver)
    go_back(driver, head)
    driver.planner.plan()
    writes, planned = driver.planner.take_writes(checkpoint=False)
    driver.planner.refused(writes, planned, "too large")
    driver.write()
    store_epoch(driver)
    if is_restarted:
        driver.restart()
    driver.put()
    driver.step()
    assert agrees(driver)
