# SPDX-License-Identifier: Apache-2.0
"""Faults of the reference (ONAP's k8splugin), each a test of ours.

A lost lease and a database that is unavailable are in ``tests/functional/webhooks``. Two concurrent creations of one
name are in ``tests/functional/storage/test_subscriptions.py``.
"""

from __future__ import annotations

from tests.unit.extensions.webhooks.driver import FAILED, Driver, vnf


def agrees(driver, name="s"):
    return driver.receivers[name].documents == driver.existing(driver.subscription(name))


def test_a_post_that_hangs_blocks_neither_its_instance_nor_other_subscriptions():
    driver = vnf(min_notify_interval=0.0)
    driver.subscribe("vnf_instance", "v", "other")
    driver.read_registry()
    driver.log.write("pod", "p", owner_uid="d", phase="Pending")
    driver.follow()
    driver.write()
    hanging = next(each for each in driver.under_way if each.subscription.id == "s")
    driver.under_way.remove(hanging)
    driver.step()
    driver.log.write("pod", "p", phase="Running")
    driver.step()
    assert agrees(driver, "other")
    driver.put(metadata={"changed": True})
    driver.step()
    driver.planner.attempted(hanging, driver.attempt(hanging))
    driver.step()
    assert agrees(driver)
    assert driver.receivers["s"].bodies[-1]["metadata"] == {"changed": True}


def test_a_failed_post_loses_no_delta():
    driver = vnf(min_notify_interval=0.0)
    driver.answers["s"] = lambda _: FAILED
    driver.log.write("pod", "p", owner_uid="d", phase="Pending")
    driver.step()
    driver.log.write("pod", "p", phase="Running")
    driver.log.write("workload", "d", replicas=2)
    driver.step()
    del driver.answers["s"]
    driver.run(600)
    assert agrees(driver)


def test_changes_that_cannot_be_read_any_more_end_in_a_delivery_of_all_and_not_in_silence():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")
    driver.log.purged_upto = driver.log.head
    driver.restart()
    driver.step()
    assert "resync" in driver.receivers["s"].bodies[-1]
    assert agrees(driver)
    assert driver.subscription().state == "active"


def test_changes_while_no_worker_runs_are_delivered_by_the_next_one():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")
    driver.log.write("pod", "q", owner_uid="d")
    driver.log.delete("workload", "d")
    driver.log.delete("pod", "p")
    driver.log.delete("pod", "q")
    driver.log.write("workload", "d2", name="d", kind="Deployment")
    driver.restart()
    driver.step()
    assert agrees(driver)


def test_a_restart_with_many_instances_waits_for_nothing():
    driver = Driver()
    for n in range(100):
        driver.log.write("instance", f"i{n}", state="building")
        driver.subscribe("instance", f"i{n}", f"s{n}")
    driver.step()
    for n in range(100):
        driver.log.write("instance", f"i{n}", state="active")
    driver.restart()
    driver.follow()
    driver.planner.plan()
    # All are planned in one round, and none of them waits for a time.
    assert driver.planner.next_due() is None
    driver.step()
    assert all(len(receiver.bodies) == 1 for receiver in driver.receivers.values())


def test_a_subscription_may_be_deleted_twice_and_while_its_delivery_is_under_way():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="d")
    driver.follow()
    driver.write()
    (outgoing,) = driver.under_way
    driver.under_way = []
    driver.tables.set("s", state="deleted")
    driver.step()
    driver.tables.set("s")
    driver.step()
    driver.planner.attempted(outgoing, FAILED)
    driver.planner.remove("s")
    driver.log.write("pod", "p", phase="Running")
    driver.run(1000)
    assert driver.receivers["s"].ids == []


def test_a_subscription_that_is_put_twice_is_delivered_once():
    driver = vnf()
    row = driver.tables.rows["s"]
    driver.planner.put(row, driver.tables.sequence)
    driver.planner.put(row, driver.tables.sequence)
    driver.log.write("pod", "p", owner_uid="d")
    driver.run(600)
    assert len(driver.receivers["s"].ids) == 1
    assert len(driver.planner) == 1


def test_many_subscriptions_of_an_instance_share_one_read_of_the_journal():
    driver = vnf()
    for n in range(50):
        driver.subscribe("vnf_instance", "v", f"s{n}")
    driver.step()
    driver.log.write("pod", "p", owner_uid="d")
    reads = []

    class CountedRows(list):
        def __iter__(self):
            reads.append(len(self))
            return super().__iter__()

    add_rows = driver.planner.add_rows
    driver.planner.add_rows = lambda rows, before: add_rows(CountedRows(rows), before)
    driver.step()
    # The planner goes through the rows once for all, and not once for each subscription.
    assert reads == [1]
    assert all(len(receiver.bodies) == 1 for receiver in driver.receivers.values())


def test_two_objects_of_one_name_in_two_namespaces_do_not_collide():
    driver = vnf(min_notify_interval=0.0)
    driver.log.write("pod", "p1", name="p", namespace="n", owner_uid="d", phase="Running")
    driver.log.write("pod", "p2", name="p", namespace="other", owner_uid="d", phase="Failed")
    driver.log.write("workload", "elsewhere", name="d", namespace="other", kind="Deployment")
    driver.step()
    documents = driver.receivers["s"].documents.values()
    assert {(each["name"], each["namespace"]) for each in documents} == {("d", "n"), ("p", "n"), ("p", "other")}
    driver.log.delete("pod", "p1")
    driver.step()
    assert agrees(driver)
