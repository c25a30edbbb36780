# SPDX-License-Identifier: Apache-2.0
"""Which subscriptions a journal row concerns."""

from __future__ import annotations

import pytest

from tests.unit.extensions.webhooks.driver import Driver, vnf
from tests.unit.extensions.webhooks.test_instances import agrees
from watcher_sync.extensions.webhooks.matcher import Matcher, entity_of


@pytest.fixture
def driver():
    """A VNF instance with a Deployment, a ReplicaSet and a pod, and one subscription without interval."""
    driver = vnf(min_notify_interval=0.0)
    driver.log.write("workload", "r", kind="ReplicaSet", owner_uid="d")
    driver.log.write("pod", "p", owner_uid="r")
    driver.step()
    driver.receivers["s"].bodies.clear()
    return driver


def told(driver):
    return driver.receivers["s"].ids_by_change()


def test_a_pod_concerns_the_vnf_instance_above_its_replica_set(driver):
    driver.log.write("pod", "p", phase="Running")
    driver.step()
    assert told(driver) == [([], [], ["p"])]


@pytest.mark.parametrize("chunk", [1, 2, 3, 100])
@pytest.mark.parametrize("is_restarted", [False, True])
def test_owners_may_be_deleted_before_their_pods(driver, chunk, is_restarted):
    for kind, entity_id in (("workload", "d"), ("workload", "r"), ("pod", "p")):
        driver.log.delete(kind, entity_id)
    if is_restarted:
        driver.restart()
    driver.follow(chunk)
    driver.step()
    assert sorted(each for _, deleted, _ in told(driver) for each in deleted) == ["d", "p", "r"]
    assert agrees(driver)


def test_a_pod_that_is_deleted_after_a_restart_finds_its_deleted_owners(driver):
    driver.log.delete("workload", "d")
    driver.log.delete("workload", "r")
    driver.step()
    driver.restart()
    driver.log.delete("pod", "p")
    driver.step()
    assert agrees(driver)


@pytest.mark.parametrize("chunk", [1, 100])
def test_a_pod_may_arrive_before_its_replica_set_and_that_before_its_deployment(chunk):
    driver = vnf(min_notify_interval=0.0)
    driver.log.delete("workload", "d")
    driver.step()
    driver.log.write("pod", "p", owner_uid="r2")
    driver.log.write("workload", "r2", kind="ReplicaSet", owner_uid="d2")
    driver.log.write("workload", "d2", name="d", kind="Deployment")
    driver.follow(chunk)
    driver.step()
    assert {each for created, _, _ in told(driver) for each in created} == {"p", "r2", "d2"}
    assert agrees(driver)


def test_two_objects_of_one_name_in_two_namespaces_are_two(driver):
    driver.log.write("workload", "d-other", name="d", namespace="other", kind="Deployment")
    driver.log.write("pod", "p-other", name="p", namespace="other", owner_uid="d-other")
    driver.log.write("pod", "p-other", phase="Running")
    driver.step()
    assert told(driver) == []


def test_two_pods_of_one_name_in_two_namespaces_are_delivered_each_with_its_own_status(driver):
    driver.log.write("pod", "p2", name="p", namespace="other", owner_uid="r", phase="Failed")
    driver.log.write("pod", "p", phase="Running")
    driver.step()
    (body,) = driver.receivers["s"].bodies
    documents = [*body["resource-changes"]["created"], *body["resource-changes"]["modified"]]
    found = {(each["name"], each["namespace"]): each["status"]["phase"] for each in documents}
    assert found == {("p", "other"): "Failed", ("p", "n"): "Running"}


@pytest.mark.parametrize("is_restarted", [False, True])
@pytest.mark.parametrize("entity", [("pod", "p"), ("workload", "r")])
def test_what_leaves_its_owner_leaves_the_instance_with_all_below_it(driver, entity, is_restarted):
    driver.log.write(*entity, owner_uid=None)
    driver.log.write("pod", "p", phase="Running")
    if is_restarted:
        driver.restart()
    driver.step()
    assert agrees(driver)
    assert ("pod", "p") not in driver.receivers["s"].documents


@pytest.mark.parametrize("is_restarted", [False, True])
def test_what_left_its_owner_and_was_deleted_is_no_resource_any_more(driver, is_restarted):
    driver.log.write("pod", "p", owner_uid=None)
    driver.log.delete("pod", "p")
    if is_restarted:
        driver.restart()
    driver.step()
    assert agrees(driver)


def test_what_is_adopted_joins_the_instance_with_all_below_it():
    driver = vnf()
    driver.log.write("workload", "r", kind="ReplicaSet")
    driver.log.write("pod", "p", owner_uid="r")
    driver.step()
    driver.log.write("workload", "r", owner_uid="d")
    driver.step()
    assert agrees(driver)
    assert ("pod", "p") in driver.receivers["s"].documents


def test_a_pod_that_changed_and_changed_back_before_its_owner_arrived_is_delivered():
    driver = vnf()
    driver.log.write("pod", "p", owner_uid="r", phase="Running")
    driver.step()
    for phase in ("Pending", "Running"):
        driver.log.write("pod", "p", phase=phase)
    driver.log.write("workload", "r", kind="ReplicaSet", owner_uid="d")
    driver.step()
    assert agrees(driver)


def test_owners_in_a_circle_are_each_found_once(driver):
    driver.log.write("workload", "r", owner_uid="d2")
    driver.log.write("workload", "d2", name="d2", kind="Deployment", owner_uid="r")
    driver.follow()
    assert [entity.id for _, entity in Matcher(driver.model).below("d2")] == ["r", "p"]


class CountingModel:
    """Counts the look-ups of a replica."""

    def __init__(self, model):
        self.kinds = model.kinds
        self.count = 0
        self._model = model

    def get(self, kind, entity_id):
        self.count += 1
        return self._model.get(kind, entity_id)

    def snapshot(self):
        raise AssertionError("a scan")


def cost(subscriptions):
    """Look-ups of the replica and subscriptions found, for one row of a pod."""
    driver = Driver()
    log = driver.log
    matcher_model = CountingModel(log.model)
    matcher = Matcher(matcher_model)
    for n in range(subscriptions):
        vdus = {"v": {"workload": {"kind": "Deployment", "name": f"d{n}"}}}
        log.write("vnf_instance", f"v{n}", cluster="c", namespace="n", vdus=vdus)
        matcher.add("vnf_instance", f"v{n}", f"s{n}", n)
        matcher.add("instance", f"i{n}", f"t{n}", n)
    log.write("workload", "d", name="d7", kind="Deployment")
    log.write("workload", "r", kind="ReplicaSet", owner_uid="d")
    log.write("pod", "p", owner_uid="r")
    matcher_model.count = 0
    assert list(matcher.match(log.rows[-1], {("pod", "p"): None})) == [7]
    return matcher_model.count


def test_the_look_ups_for_a_row_do_not_grow_with_the_subscriptions():
    assert cost(10_000) == cost(10) <= 4


def test_a_row_of_an_unknown_kind_concerns_nothing(driver):
    row = driver.log.rows[-1]
    unknown = type(row)(row.seq, row.time, "plugins_kind", "x", "created", {}, {}, "e", "t", "s", 1)
    assert list(Matcher(driver.model).match(unknown, {})) == []


def test_the_memory_of_deleted_workloads_is_bounded(driver, monkeypatch):
    monkeypatch.setattr("watcher_sync.extensions.webhooks.matcher._MAX_DELETED", 3)
    matcher = Matcher(driver.model)
    for n in range(10):
        driver.log.write("workload", f"w{n}", kind="ReplicaSet")
        driver.log.delete("workload", f"w{n}")
        matcher.remember(entity_of(driver.model.kinds["workload"], driver.log.rows[-1]))
    assert list(matcher._deleted) == ["w7", "w8", "w9"]


def test_a_removed_subscription_is_not_found(driver):
    matcher = Matcher(driver.log.model)
    matcher.add("vnf_instance", "v", "s", "S")
    matcher.add("vnf_instance", "v", "t", "T")
    matcher.remove("vnf_instance", "v", "s")
    driver.log.write("pod", "p", phase="Running")
    assert list(matcher.match(driver.log.rows[-1], {})) == ["T"]
    matcher.remove("vnf_instance", "v", "t")
    assert list(matcher.match(driver.log.rows[-1], {})) == []
    matcher.remove("vnf_instance", "v", "never there")


def test_entity_of_gives_what_a_row_created_or_deleted(driver):
    log = driver.log
    log.delete("pod", "p")
    deleted = entity_of(log.model.kinds["pod"], log.rows[-1])
    assert (deleted.id, deleted.owner_uid, deleted.full_name) == ("p", "r", "c/n/Pod/p")
