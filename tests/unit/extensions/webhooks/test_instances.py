# SPDX-License-Identifier: Apache-2.0
"""The instance of a subscription: it ends, comes again, or names other workloads; and a journal that was purged."""

from __future__ import annotations

import pytest

from tests.unit.extensions.webhooks.driver import DAY, FAILED, KINDS, Driver, vnf


def agrees(driver, name="s"):
    return driver.receivers[name].documents == driver.existing(driver.subscription(name))


def server(kind="instance"):
    driver = Driver()
    driver.log.write(kind, "i")
    driver.subscribe(kind)
    driver.step()
    return driver


def register(driver, *names):
    vdus = {name: {"workload": {"kind": "Deployment", "name": name}} for name in names}
    driver.log.write("vnf_instance", "v", cluster="c", namespace="n", vdus=vdus)


@pytest.mark.parametrize("kind", ["instance", "aggregate"])
def test_the_last_delivery_of_a_deleted_instance_says_so_and_then_the_subscription_is_gone(kind):
    driver = server(kind)
    driver.log.delete(kind, "i")
    driver.step()
    (body,) = driver.receivers["s"].bodies
    assert [each["id"] for each in body["resource-changes"]["deleted"]] == ["i"]
    assert (body["state"], body["reason"]) == ("gone", "the instance was deleted")
    assert (driver.subscription().state, driver.subscription().reason) == ("gone", "the instance was deleted")


def test_a_subscription_waits_while_the_kind_of_its_instance_is_not_installed():
    driver = server("aggregate")
    driver.subscribe("instance", "other", "t")
    driver.kinds = KINDS.without({"aggregate"})
    driver.restart()
    driver.step()
    driver.log.write("aggregate", "i", name="new")
    driver.log.write("instance", "other", name="new")
    driver.step()
    assert (driver.receivers["s"].bodies, len(driver.receivers["t"].bodies)) == ([], 1)
    driver.kinds = KINDS
    driver.restart()
    driver.run(10)
    assert agrees(driver)
    assert len(driver.receivers["s"].bodies) == 1


def test_the_last_delivery_of_a_vnf_instance_comes_even_if_no_resource_changed():
    driver = vnf()
    driver.log.delete("vnf_instance", "v")
    driver.step()
    assert driver.receivers["s"].bodies[-1]["state"] == "gone"
    assert driver.subscription().state == "gone"


def test_the_last_delivery_is_repeated_until_it_arrives():
    driver = server()
    driver.answers["s"] = lambda _: FAILED
    driver.log.delete("instance", "i")
    driver.run(100)
    assert driver.subscription().state == "active"
    del driver.answers["s"]
    driver.run(1000)
    assert len(driver.receivers["s"].bodies) == 1
    assert driver.subscription().state == "gone"


@pytest.mark.parametrize("point", ["followed", "written", "failed"])
def test_the_end_of_an_instance_survives_a_restart_and_is_delivered_once(point):
    driver = server()
    driver.answers["s"] = lambda _: FAILED
    driver.log.delete("instance", "i")
    driver.follow()
    if point != "followed":
        driver.write()
    if point == "failed":
        driver.send()
        driver.write()
    driver.restart()
    del driver.answers["s"]
    driver.run(1000)
    assert len(driver.receivers["s"].bodies) == 1
    assert driver.receivers["s"].bodies[-1]["state"] == "gone"
    assert driver.subscription().state == "gone"


def test_a_subscription_whose_last_delivery_is_dead_is_gone():
    driver = server()
    driver.answers["s"] = lambda _: FAILED
    driver.log.delete("instance", "i")
    driver.run(4 * DAY)
    assert driver.states() == ["dead"]
    assert driver.subscription().state == "gone"


def test_an_instance_that_came_again_before_its_end_was_delivered_goes_on():
    driver = vnf()
    driver.log.delete("vnf_instance", "v")
    register(driver, "e")
    driver.log.write("workload", "e", kind="Deployment")
    driver.run(600)
    assert driver.subscription().state == "active"
    assert "state" not in driver.receivers["s"].bodies[-1]
    assert driver.receivers["s"].bodies[-1]["resync"] == "the instance was created again"
    assert agrees(driver)


@pytest.mark.parametrize("is_restarted", [False, True])
def test_an_instance_that_came_again_while_its_end_is_under_way_goes_on(is_restarted):
    driver = vnf(min_notify_interval=0.0)
    driver.answers["s"] = lambda _: FAILED
    driver.log.delete("vnf_instance", "v")
    driver.step()
    register(driver, "e")
    driver.log.write("workload", "e", kind="Deployment")
    if is_restarted:
        driver.restart()
    driver.step()
    del driver.answers["s"]
    driver.run(600)
    assert driver.subscription().state == "active"
    assert [body.get("state") for body in driver.receivers["s"].bodies] == ["gone", None]
    assert agrees(driver)


def test_an_end_during_a_replay_is_not_taken_back_by_the_old_creation():
    driver = server()
    driver.log.delete("instance", "i")
    driver.log.write("instance", "i", state="building")
    driver.step()

    def end():
        if driver.log.model.get("instance", "i") is not None:
            driver.log.delete("instance", "i")
            driver.follow()

    driver.before_reading = end
    driver.tables.set("s", replay_since=1)
    driver.run(10)
    assert driver.receivers["s"].bodies[-1]["state"] == "gone"
    assert driver.subscription().state == "gone"


def test_a_subscription_to_an_instance_that_the_replica_does_not_have_yet_goes_on():
    driver = Driver()
    driver.log.write("instance", "other")
    driver.follow()
    driver.log.write("instance", "i", state="building")
    driver.subscribe()
    driver.step()
    driver.log.write("instance", "i", state="active")
    driver.step()
    assert [body.get("state") for body in driver.receivers["s"].bodies] == [None]
    assert driver.subscription().state == "active"


def test_other_workloads_are_delivered_with_all_resources():
    driver = vnf()
    driver.log.write("workload", "e", kind="Deployment")
    driver.log.write("pod", "p", owner_uid="e")
    register(driver, "e")
    driver.step()
    (body,) = driver.receivers["s"].bodies
    assert body["resync"] == "the instance names other workloads"
    assert sorted(each["id"] for each in body["resource-changes"]["modified"]) == ["e", "p"]
    assert agrees(driver)
    driver.log.write("workload", "d", replicas=7)
    driver.run(600)
    assert len(driver.receivers["s"].bodies) == 1


def test_the_same_workloads_again_are_no_news():
    driver = vnf()
    driver.log.write("vnf_instance", "v", registered_at=driver.time.now(), state="DRIFTED")
    driver.run(600)
    assert driver.receivers["s"].bodies == []


def test_the_vnf_instance_itself_is_a_resource_if_the_filter_names_its_kind():
    driver = vnf(filter={"kinds": ["vnf_instance"]})
    driver.log.write("workload", "d", replicas=3)
    driver.log.write("vnf_instance", "v", state="DRIFTED")
    driver.run(600)
    assert driver.receivers["s"].ids_by_change() == [([], [], ["v"])]


def test_a_purged_journal_gives_all_resources_and_never_silence():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")
    driver.log.write("pod", "q", owner_uid="d")
    driver.log.delete("pod", "p")
    driver.log.purged_upto = driver.log.head
    driver.restart()
    driver.step()
    (body,) = driver.receivers["s"].bodies
    assert body["resync"] == "the journal no longer has all changes"
    assert agrees(driver)


def test_a_purged_journal_that_had_the_end_of_the_instance_still_ends_the_subscription():
    driver = server()
    driver.log.delete("instance", "i")
    driver.log.purged_upto = driver.log.head
    driver.restart()
    driver.model.forget_tombstones(driver.time.now())
    driver.step()
    assert driver.receivers["s"].bodies[-1]["state"] == "gone"
    assert driver.subscription().state == "gone"


def test_what_came_while_a_purged_journal_was_read_is_in_the_same_delivery():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")
    driver.log.purged_upto = driver.log.head

    def arrive():
        driver.log.write("pod", "q", owner_uid="d")
        driver.follow()
        driver.write()
        driver.before_reading = lambda: None

    driver.before_reading = arrive
    driver.restart()
    driver.step()
    assert len(driver.receivers["s"].bodies) == 1
    assert agrees(driver)
