# SPDX-License-Identifier: Apache-2.0
"""A subscription delivers only what its project and its owner may see."""

from __future__ import annotations

import msgspec
import pytest

from tests.unit.extensions.webhooks.driver import Driver, vnf
from watcher_sync.extensions.webhooks.deliveries import Attempt
from watcher_sync.extensions.webhooks.rows import ALL_RESOURCES

FAILED = Attempt(code=500, detail="HTTP 500", seconds=0.1)


def of_project(driver, project_id):
    driver.log.write("vnf_instance", "v", project_id=project_id)


@pytest.fixture
def driver():
    driver = vnf()
    of_project(driver, "A")
    driver.tables.set("s", project_id="A")
    driver.restart()
    driver.step()
    return driver


def test_an_instance_that_moves_to_another_project_ends_the_subscription(driver):
    before = len(driver.receivers["s"].bodies)
    of_project(driver, "B")
    driver.log.write("workload", "d", replicas=7)
    driver.run(3600)
    assert driver.subscription().state == "gone"
    assert driver.subscription().reason == "the instance belongs to another project"
    for body in driver.receivers["s"].bodies[before:]:
        assert body["resource-changes"] == {"created": [], "deleted": [], "modified": []}


def test_nothing_is_delivered_after_a_put_of_a_subscription_to_another_projects_instance(driver):
    of_project(driver, "B")
    driver.run(3600)
    before = len(driver.receivers["s"].bodies)
    driver.put()
    driver.read_registry()
    driver.log.write("workload", "d", replicas=7)
    driver.run(3600)
    assert driver.subscription().state == "gone"
    for body in driver.receivers["s"].bodies[before:]:
        assert body["resource-changes"] == {"created": [], "deleted": [], "modified": []}


def test_a_delivery_with_hidden_fields_is_dropped_when_a_member_writes_the_subscription():
    driver = Driver()
    driver.log.write("instance", "i", state="active", host="first")
    driver.subscribe()
    driver.step()
    driver.log.write("instance", "i", host="secret-host")
    driver.follow()
    driver.write()
    (failing,) = driver.under_way
    driver.planner.attempted(failing, FAILED)
    driver.write()
    driver.tables.set("s", sees_admin_only=False, callback_url="https://member.example/", replay_since=1)
    driver.read_registry()
    assert not driver.planner.wants(failing)
    driver.under_way = []
    driver.log.write("instance", "i", state="stopped")
    driver.run(3600)
    assert driver.receivers["s"].bodies
    assert "secret-host" not in str(driver.receivers["s"].bodies)


@pytest.mark.parametrize("replay_since", [None, 2])
def test_an_unstored_delivery_with_hidden_fields_is_withdrawn_and_its_changes_come_again(replay_since):
    driver = Driver()
    driver.log.write("instance", "i", state="active", host="first")
    driver.subscribe()
    driver.step()
    driver.log.write("instance", "i", state="stopped", host="secret-host")
    driver.follow()
    driver.planner.plan()
    driver.tables.set("s", sees_admin_only=False, replay_since=replay_since)
    driver.read_registry()
    driver.write()
    driver.under_way = [each for each in driver.under_way if driver.planner.wants(each)]
    driver.run(10)
    assert "secret-host" not in str(driver.receivers["s"].bodies)
    assert driver.receivers["s"].documents == driver.existing(driver.subscription())
    assert driver.tables.pending("s") == []


def end_as_the_api(driver):
    """The API ends what is pending, because the writer sees less than the one before."""
    (delivery,) = driver.tables.pending("s")
    driver.tables.deliveries[delivery.webhook_id] = (delivery, "dead")
    driver.tables.set("s", sees_admin_only=False, replay_since=delivery.previous_sequence)


def test_a_withdrawn_delivery_does_not_come_back_by_the_result_of_its_last_attempt():
    driver = Driver()
    driver.log.write("instance", "i", state="active", host="first")
    driver.subscribe()
    driver.step()
    driver.log.write("instance", "i", state="stopped", host="secret-host")
    driver.follow()
    driver.write()
    (failing,) = driver.under_way
    driver.under_way = []
    end_as_the_api(driver)
    driver.planner.attempted(failing, FAILED)
    driver.write()
    driver.run(10)
    assert driver.tables.pending("s") == []
    assert driver.receivers["s"].documents == driver.existing(driver.subscription())


def test_a_withdrawn_delivery_of_all_resources_is_followed_by_one():
    driver = Driver()
    driver.log.write("instance", "i", state="active", host="first")
    receiver = driver.subscribe()
    row, progress = driver.tables.rows["s"]
    driver.tables.rows["s"] = (row, msgspec.structs.replace(progress, held_since=ALL_RESOURCES))
    driver.restart()
    driver.write()
    driver.under_way = []
    end_as_the_api(driver)
    driver.run(10)
    assert "resync" in receiver.bodies[0]
    assert "first" not in str(receiver.bodies)
