# SPDX-License-Identifier: Apache-2.0
"""What instances use of a host, and what is free, by the rules of Nova's allocations."""

from __future__ import annotations

import pytest

from tests.allocations import capacity_of, used_by_host, used_of
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.allocations import NOTHING, Usage, free_of
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

SMALL = {"vcpus": 1, "memory_mb": 512, "disk_gb": 10}
ONE, TWO = Usage(1, 512, 10), Usage(2, 1024, 20)


class Cloud:
    """A model of instances; each statement has a newer version than the one before."""

    def __init__(self):
        self.model = Model(builtin_kinds())
        self.number = 0

    def write(self, *changes):
        transaction = Transaction(self.model)
        transaction.apply(Event(id="e", type="test", source="test"), changes)
        self.model.publish(transaction)

    def server(self, name="vm", *, host="a", source_host=None, state="active", flavor=SMALL):
        self.number += 1
        facets = {
            "state": {"state": state},
            "flavor": flavor,
            "placement": {"host": host},
            "resize": {"source_host": source_host},
        }
        self.write(Upsert("instance", name, f"{self.number:09d}", facets))

    def used(self, host="a"):
        snapshot = self.model.snapshot()
        used = used_of(snapshot, host)
        assert used_by_host(snapshot.all("instance")).get(host, NOTHING) == used
        return used


@pytest.fixture
def cloud():
    return Cloud()


def test_a_host_without_instances_is_not_used(cloud):
    assert cloud.used() == Usage(0, 0, 0)


@pytest.mark.parametrize("state", ["building", "active", "stopped", "error", "shelved", "soft-deleted"])
def test_an_instance_counts_on_its_host_in_every_state(cloud, state):
    cloud.server(state=state)
    assert cloud.used() == ONE


def test_an_instance_that_was_deleted_counts_no_more(cloud):
    cloud.server("one", state="soft-deleted")
    cloud.server("other")
    cloud.write(Delete("instance", "one", "9"))
    assert cloud.used() == ONE


def test_a_shelved_and_offloaded_instance_counts_on_no_host(cloud):
    cloud.server()
    cloud.server(host=None, state="shelved_offloaded")
    assert cloud.used() == Usage(0, 0, 0)


def test_a_resized_instance_counts_on_both_hosts_until_it_is_confirmed(cloud):
    cloud.server(host="b", source_host="a", state="resized")
    assert (cloud.used("a"), cloud.used("b")) == (ONE, ONE)
    cloud.server(host="b")
    assert (cloud.used("a"), cloud.used("b")) == (NOTHING, ONE)


def test_a_resized_instance_counts_on_its_source_only_after_the_resize_is_reverted(cloud):
    cloud.server(host="b", source_host="a", state="resized")
    cloud.server(host="a")
    assert (cloud.used("a"), cloud.used("b")) == (ONE, NOTHING)


def test_an_instance_that_is_resized_on_its_host_counts_there_twice(cloud):
    cloud.server(host="a", source_host="a", state="resized")
    assert cloud.used() == TWO


@pytest.mark.parametrize("field", ["vcpus", "memory_mb", "disk_gb"])
def test_an_instance_of_unknown_size_makes_the_used_amount_unknown(cloud, field):
    cloud.server("one")
    cloud.server("other", flavor={**SMALL, field: None})
    used = cloud.used()
    assert getattr(used, field) is None
    assert sum(amount is None for amount in (used.vcpus, used.memory_mb, used.disk_gb)) == 1


# Capacity and free


def node(**fields):
    return ComputeNode(id="a", seq=1, versions=("",) * 4, **fields)


def test_capacity_is_total_less_reserved_times_the_ratio_rounded_down():
    capacity = capacity_of(node(vcpus=7, reserved_vcpus=2, vcpu_ratio=1.5))
    assert capacity == Usage(7, None, None)


@pytest.mark.parametrize("unknown", ["vcpus", "reserved_vcpus", "vcpu_ratio"])
def test_what_is_free_is_unknown_where_a_part_is_unknown(unknown):
    known = {"vcpus": 8, "reserved_vcpus": 0, "vcpu_ratio": 1.0}
    assert capacity_of(node(**known)).vcpus == 8
    assert free_of(capacity_of(node(**known)), Usage(None, 0, 0)).vcpus is None
    assert capacity_of(node(**{**known, unknown: None})).vcpus is None


def test_free_is_capacity_less_used_and_may_be_negative():
    assert free_of(Usage(8, 100, 5), Usage(9, 40, 5)) == Usage(-1, 60, 0)
