# SPDX-License-Identifier: Apache-2.0
"""Hosts that exist because something refers to them, and the zone that follows from aggregates."""

from __future__ import annotations

import msgspec
import pytest

from tests.simulated import new_model, play, telling, told
from watcher_sync.extensions.openstack.kinds import zone_of_host
from watcher_sync.model import overlay
from watcher_sync.model.changes import Delete, Outcome, Upsert
from watcher_sync.model.table import index_values


def instance(version, host, entity_id="vm"):
    return Upsert("instance", entity_id, version, {"state": {}, "details": {"name": "x"}, "placement": {"host": host}})


def service(version, zone=None, host="host1"):
    facets = {"service": {"status": "enabled"}}
    if zone is not None:
        facets["zone"] = {"service_zone": zone}
    return Upsert("compute_node", host, version, facets)


def aggregate(version, hosts, zone, entity_id="agg"):
    return Upsert("aggregate", entity_id, version, {"state": {"availability_zone": zone}, "hosts": {"hosts": hosts}})


CAPACITY = Upsert("compute_node", "host1", "2", {"capacity": {"vcpus": 8}})


@pytest.fixture
def model():
    return new_model()


def apply(model, *changes):
    return play(model, telling(), [told(i, change) for i, change in enumerate(changes)])


def flags(model, host="host1"):
    node = model.get("compute_node", host)
    return None if node is None else (node.discovered, node.gone)


def zone(model, host="host1"):
    return model.get("compute_node", host).availability_zone


@pytest.mark.parametrize("batch", [1, 10])
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([service("1")], (False, False)),
        ([instance("1", "host1")], (True, False)),
        ([instance("1", "host1"), service("2")], (False, False)),
        ([service("2"), instance("1", "host1")], (False, False)),
        ([instance("1", "host1"), instance("2", "host2")], None),
        ([instance("1", "host1"), instance("2", None)], None),
        ([instance("1", "host1"), Delete("instance", "vm", "2")], None),
        ([instance("1", "host1"), instance("1", "host1", "vm2"), Delete("instance", "vm", "2")], (True, False)),
        ([service("1"), instance("1", "host1"), Delete("instance", "vm", "2")], (False, False)),
        ([service("1"), Delete("compute_node", "host1", "2")], None),
        ([service("1"), instance("1", "host1"), Delete("compute_node", "host1", "2")], (False, True)),
        ([Delete("compute_node", "host1", "2"), instance("1", "host1")], (False, True)),
        ([service("1"), instance("1", "host1"), Delete("compute_node", "host1", "2"), service("3")], (False, False)),
        ([service("3"), instance("1", "host1"), Delete("compute_node", "host1", "2")], (False, False)),
        (
            [service("1"), instance("1", "host1"), Delete("compute_node", "host1", "2"), instance("2", None)],
            None,
        ),
        ([aggregate("1", ["host1"], "az1")], None),
    ],
)
def test_a_host_exists_as_long_as_its_service_or_an_instance_says_so(model, changes, expected, batch):
    for start in range(0, len(changes), batch):
        apply(model, *changes[start : start + batch])
    assert flags(model) == expected


def test_all_that_was_known_of_a_deleted_service_is_forgotten(model):
    apply(model, service("1", zone="az1"), CAPACITY, instance("1", "host1"), Delete("compute_node", "host1", "3"))
    node = model.get("compute_node", "host1")
    assert node.gone
    assert (node.status, node.service_zone, node.availability_zone, node.vcpus) == (None, None, None, None)


@pytest.mark.parametrize("occupied", [True, False])
def test_capacity_that_is_reported_again_after_a_host_came_back_is_applied(model, occupied):
    if occupied:
        apply(model, instance("1", "host1"))
    apply(model, service("1"), CAPACITY, Delete("compute_node", "host1", "3"), service("4"))
    assert model.get("compute_node", "host1").vcpus is None
    assert apply(model, CAPACITY) == [Outcome.APPLIED]
    assert model.get("compute_node", "host1").vcpus == 8


def test_capacity_of_a_host_that_is_only_discovered_is_taken_and_it_stays_discovered(model):
    apply(model, instance("1", "host1"))
    assert apply(model, CAPACITY) == [Outcome.APPLIED]
    assert flags(model) == (True, False)


def test_a_service_event_that_comes_after_the_deletion_does_not_bring_a_gone_host_back(model):
    apply(model, instance("1", "host1"), service("1"), Delete("compute_node", "host1", "3"))
    assert apply(model, service("2")) == [Outcome.STALE]
    assert flags(model) == (False, True)


def test_an_implied_host_is_a_change_of_its_own_with_the_instances_event_as_cause(model):
    from watcher_sync.model.transaction import Transaction

    transaction = Transaction(model)
    event = told(1)
    transaction.apply(event, [instance("1", "host1")])
    assert [(s.kind.name, s.change(), s.seq, s.event) for s in transaction.staged()] == [
        ("instance", "created", 1, event),
        ("compute_node", "created", 2, event),
    ]


def test_the_zone_is_the_aggregates_and_without_one_the_services(model):
    apply(model, service("1", zone="own"))
    assert zone(model) == "own"
    apply(model, aggregate("2", ["host1"], "az1"))
    assert zone(model) == "az1"
    apply(model, service("3", zone="other"))
    assert zone(model) == "az1"
    apply(model, aggregate("4", ["host1"], None))
    assert zone(model) == "other"
    apply(model, aggregate("5", ["host1"], "az2"))
    apply(model, Delete("aggregate", "agg", "6"))
    assert zone(model) == "other"


def test_a_host_that_leaves_an_aggregate_loses_its_zone_and_the_one_that_joins_gets_it(model):
    apply(model, service("1"), service("1", host="host2"), aggregate("2", ["host1"], "az1"))
    apply(model, aggregate("3", ["host2"], "az1"))
    assert (zone(model), zone(model, "host2")) == (None, "az1")
    assert [n.id for n in model.snapshot().by("compute_node", "availability_zone", "az1")] == ["host2"]


def test_a_discovered_host_has_the_zone_of_its_aggregate_whichever_came_first(model):
    apply(model, aggregate("1", ["host1", "host2"], "az1"), instance("1", "host1"))
    assert zone(model) == "az1"
    apply(model, instance("2", "host3"), aggregate("2", ["host1", "host3"], "az1"))
    assert zone(model, "host3") == "az1"


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_while_two_aggregates_disagree_the_later_change_wins_in_any_order(model, order):
    told_of = [aggregate("5", ["host1"], "az-late", "a"), aggregate("4", ["host1"], "az-early", "b")]
    apply(model, service("1"), *(told_of[i] for i in order))
    assert zone(model) == "az-late"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 0, 1)])
def test_the_later_change_is_also_one_that_concerns_another_host_only(model, order):
    changes = [
        aggregate("5", ["host1"], "az-late", "a"),
        aggregate("4", ["host1"], "az-early", "b"),
        Upsert("aggregate", "b", "7", {"state": {}, "hosts": {"hosts": ["host1", "host2"]}}),
    ]
    apply(model, service("1"), *(changes[i] for i in order))
    assert zone(model) == ("az-early" if model.get("aggregate", "b").availability_zone else "az-late")


@pytest.fixture
def computed(model, monkeypatch):
    """The hosts whose zone was computed."""
    declared = model.kinds["compute_node"]
    found = []

    def noting(view, node):
        found.append(node.id)
        return zone_of_host(view, node)

    (derived,) = [each for each in declared.derived_from_others if each.field == "availability_zone"]
    others = tuple(each for each in declared.derived_from_others if each is not derived)
    monkeypatch.setattr(declared, "derived_from_others", (msgspec.structs.replace(derived, compute=noting), *others))
    return found


def test_a_host_that_joins_an_aggregate_has_no_other_zone_computed_than_its_own(model, computed):
    hosts = [f"host{number}" for number in range(100)]
    apply(model, *(service("1", host=host) for host in [*hosts, "late"]), aggregate("2", hosts, "az1"))
    computed.clear()
    fields = {"availability_zone": "az1", "name": "renamed"}
    apply(model, Upsert("aggregate", "agg", "3", {"state": fields, "hosts": {"hosts": [*hosts, "late"]}}))
    assert set(computed) == {"late"}
    assert zone(model, "late") == "az1"
    computed.clear()
    apply(model, aggregate("4", [*hosts, "late"], "az2"))
    assert set(computed) == {*hosts, "late"}


def test_the_hosts_of_an_aggregate_are_each_compared_with_a_few_others(model, monkeypatch):
    compared = 0

    class Compared(str):
        __slots__ = ()
        __hash__ = str.__hash__

        def __eq__(self, other):
            nonlocal compared
            compared += 1
            return str.__eq__(self, other)

    monkeypatch.setattr(overlay, "index_values", lambda value: tuple(map(Compared, index_values(value))))
    hosts = [f"host{number}" for number in range(300)]
    apply(model, aggregate("1", hosts, "az1"), aggregate("2", [*hosts[1:], "late"], "az1"))
    assert compared < 10 * len(hosts)
    assert [len(model.by("aggregate", "hosts", host)) for host in ("host0", "host1", "late")] == [0, 1, 1]


def test_an_instance_that_comes_to_a_known_host_has_no_zone_computed(model, computed):
    apply(model, service("1"))
    computed.clear()
    apply(model, instance("1", "host1"))
    assert computed == []


def test_a_host_that_changes_in_the_event_of_its_first_instance_has_its_zone_computed(model):
    play(model, telling(), [told(1, service("1", "az1"), instance("1", "host1"))])
    assert zone(model) == "az1"


@pytest.mark.parametrize("host", ["", "host1 "])
def test_an_instance_on_a_host_that_can_have_no_row_is_refused_whole(model, host):
    """MariaDB takes "host1 " and "host1" for the same key."""
    assert apply(model, service("1"), instance("2", host)) == [Outcome.APPLIED, Outcome.QUARANTINED]
    assert model.get("instance", "vm") is None
    assert model.snapshot().ids("compute_node") == ["host1"]


def test_a_host_that_an_aggregate_lists_twice_leaves_and_joins_once(model):
    lists = (["host1", "host1"], [], ["host1"])
    apply(model, *(aggregate(str(version), hosts, "az1") for version, hosts in enumerate(lists, 1)))
    assert [found.id for found in model.by("aggregate", "hosts", "host1")] == ["agg"]
