# SPDX-License-Identifier: Apache-2.0
"""Lists with odd values, with an entry in two pages, and with entries that move between two pages."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.nova_sites import NovaSite, truth
from watcher_sync.storage.groups.source_status import read_inventory
from watcher_sync.testing.openstack import Do, FakeOpenStack, Rewrite

pytestmark = pytest.mark.slow

SERVERS = "/servers/detail"


def rewritten(change: Callable[[dict[str, Any]], object]) -> Rewrite:
    """The answer whose document this changes in place."""

    def rewrite(body: bytes) -> bytes:
        document = json.loads(body)
        change(document)
        return json.dumps(document).encode()

    return Rewrite(rewrite)


def entry_changed(member: str, key: str, value: str, change: Callable[[dict[str, Any]], object]) -> Rewrite:
    """One entry of a list changed in place: that with this value of this field."""

    def of_document(document: dict[str, Any]) -> None:
        for one in document.get(member, ()):
            if one.get(key) == value:
                change(one)

    return rewritten(of_document)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=4,
)
FIELDS = (
    "id", "status", "name", "OS-EXT-SRV-ATTR:hostname", "tenant_id", "user_id", "OS-EXT-SRV-ATTR:host",
    "OS-EXT-SRV-ATTR:hypervisor_hostname", "OS-EXT-STS:vm_state", "OS-EXT-STS:task_state", "OS-EXT-STS:power_state",
    "locked", "locked_reason", "flavor", "image", "metadata", "key_name", "tags", "OS-EXT-AZ:availability_zone",
    "pinned_availability_zone", "addresses", "created", "updated", "OS-SRV-USG:launched_at", "fault",
)  # fmt: skip
"""Of a server, as far as the model uses them."""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FIELDS), JSON | st.sampled_from(["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "error", ""]))
def test_any_value_in_any_field_of_one_server_leaves_the_others_as_they_are(
    site: NovaSite, cloud: FakeOpenStack, field: str, value: Any
):
    cloud.heal()
    site.reconcile()
    odd = list(cloud.inventory.servers)[7]
    cloud.fail(entry_changed("servers", "id", odd, lambda one: one.update({field: value})), path=SERVERS, count=None)
    cloud.fail(rewritten(lambda one: one["server"].update({field: value})), path=f"/servers/{odd}", count=None)
    report = site.reconcile()
    found, expected = site.instances(), truth(cloud)
    assert {key: one for key, one in found.items() if key != odd and key in expected} == {
        key: one for key, one in expected.items() if key != odd
    }
    assert set(found) - set(expected) <= {str(value)}
    assert report.failures.keys() <= {"servers", "cells", "migrations"}


@pytest.fixture
def filled(site: NovaSite, cloud: FakeOpenStack) -> NovaSite:
    first, second = list(cloud.inventory.servers)[:2]
    cloud.inventory.add_server_group("apart", [first])
    cloud.inventory.add_server_group("together", [second])
    site.reconcile()
    return site


@pytest.mark.parametrize("field", ["name", "OS-EXT-SRV-ATTR:host", "locked", "tags", "addresses", "updated"])
def test_an_odd_value_of_a_server_is_named_and_the_inventory_is_complete(
    site: NovaSite, cloud: FakeOpenStack, field: str
):
    odd, gone = list(cloud.inventory.servers)[7:9]
    fault = entry_changed("servers", "id", odd, lambda one: one.update({field: {"odd": [None]}}))
    cloud.fail(fault, path=SERVERS, count=None)
    report = site.reconcile()
    inventory = read_inventory(site.store.database, "nova")
    assert inventory is not None
    assert (report.complete, inventory.problem, inventory.complete_since is not None) == (True, "", True)
    assert list(report.refused_writes) == [f"instance {odd}"]
    assert "its entry in the listing is unreadable" in report.refused_writes[f"instance {odd}"]
    assert site.instances().keys() == truth(cloud).keys() - {odd}
    cloud.heal()
    site.reconcile()
    cloud.fail(fault, path=SERVERS, count=None)
    cloud.inventory.delete_server(gone)
    assert site.reconcile().deleted == 1
    assert site.instances() == truth(cloud)


def test_a_server_without_an_id_that_can_be_read_costs_the_deletions(filled: NovaSite, cloud: FakeOpenStack):
    odd, gone, changed = list(cloud.inventory.servers)[6:9]
    cloud.inventory.delete_server(gone)
    cloud.inventory.update_server(changed, name="renamed")
    cloud.fail(entry_changed("servers", "id", odd, lambda one: one.update(id=None)), path=SERVERS, count=None)
    report = filled.reconcile()
    assert (report.deleted, report.failures) == (0, {"servers": "a server has no id that can be read"})
    assert filled.instances()[changed]["name"] == "renamed"
    assert odd in filled.instances()


def test_a_marked_server_that_is_unreadable_stays_and_costs_no_other(filled: NovaSite, cloud: FakeOpenStack):
    odd, changed = list(cloud.inventory.servers)[:2]
    reconciler = filled.reconciler()
    filled.reconcile("nova-changes", reconciler=reconciler)  # so that no list of changes is due
    cloud.inventory.update_server(changed, name="renamed")
    for one in (odd, changed):
        filled.doubts.add("instance", one)
    cloud.fail(rewritten(lambda one: one["server"].update(name=[])), path=f"/servers/{odd}", count=None)
    report = filled.reconcile("nova-changes", reconciler=reconciler)
    assert (report.complete, list(report.refused_writes)) == (True, [f"instance {odd}"])
    assert filled.instances() == truth(cloud)


@pytest.mark.parametrize(
    ("path", "member", "key", "value", "field", "named"),
    [
        ("os-services", "services", "host", "compute-1", "forced_down", "compute_node compute-1"),
        ("os-hypervisors", "hypervisors", "hypervisor_hostname", "compute-1", "service", "hypervisor "),
        ("os-aggregates", "aggregates", "name", "north", "hosts", "aggregate "),
        ("flavors", "flavors", "name", "small", "swap", "flavor "),
        ("os-server-groups", "server_groups", "name", "apart", "members", "server_group "),
    ],
)
def test_an_odd_entry_of_any_list_is_named_and_changes_nothing(
    filled: NovaSite, cloud: FakeOpenStack, path: str, member: str, key: str, value: str, field: str, named: str
):
    before, head = filled.model.dump("compute_node"), filled.head()
    if member == "flavors":
        value = next(iter(cloud.inventory.flavors.values())).name
    if member == "hypervisors":
        value = cloud.inventory.hosts["compute-1"].node
    odd = entry_changed(member, key, value, lambda one: one.update({field: "odd"}))
    cloud.fail(odd, path=path, count=None)
    report = filled.reconcile()
    assert (report.complete, report.differences, filled.head()) == (True, (), head)
    assert [one for one in report.refused_writes if one.startswith(named)] == list(report.refused_writes)
    assert len(report.refused_writes) == 1
    assert list(filled.model.dump("compute_node")) == list(before)


def test_a_host_whose_type_is_unreadable_could_be_bare_metal_and_is_left_out(site: NovaSite, cloud: FakeOpenStack):
    node = cloud.inventory.hosts["compute-1"].node
    odd = entry_changed("hypervisors", "hypervisor_hostname", node, lambda one: one.update(hypervisor_type=[]))
    cloud.fail(odd, path="os-hypervisors", count=None)
    report = site.reconcile()
    assert (report.complete, [one.partition(" ")[0] for one in report.refused_writes]) == (True, ["hypervisor"])
    assert {one.id for one in site.model.all("compute_node")} == {"compute-0", "compute-2", "compute-3"}
    cloud.heal()
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


# An entry in two pages


@pytest.mark.parametrize("is_gone", [False, True])
def test_a_server_in_two_pages_with_different_contents_is_asked_for(
    filled: NovaSite, cloud: FakeOpenStack, is_gone: bool
):
    first: list[dict[str, Any]] = []

    def repeat(document: dict[str, Any]) -> None:
        """The second page has a server of the first one as it was some time ago."""
        found = document["servers"]
        if not first:
            first.extend(found)
        elif found and found[0]["id"] not in {one["id"] for one in first}:
            found.insert(0, first[1] | {"name": "stale", "OS-EXT-SRV-ATTR:host": "compute-3"})

    cloud.fail(rewritten(repeat), path=SERVERS, count=None)
    filled.reconcile()
    twice = first[1]["id"]
    if is_gone:
        cloud.fail(Do(lambda request: cloud.inventory.purge_server(twice)), path=f"/servers/{twice}")
    for _ in range(3):
        head = filled.head()
        assert filled.reconcile().complete
        assert filled.instances() == truth(cloud)
    assert filled.head() == head


def test_the_delete_guard_counts_what_is_gone_of_the_servers_that_are_listed_twice(
    filled: NovaSite, cloud: FakeOpenStack
):
    def repeat(document: dict[str, Any]) -> None:
        document["servers"] += [one | {"name": "stale"} for one in document["servers"]]

    before = filled.instances()
    cloud.fail(rewritten(repeat), path=SERVERS, count=None)
    for server in before:
        cloud.fail(Do(lambda request: cloud.inventory.purge_server(request.path.rpartition("/")[2])), path=server)
    report = filled.reconcile()
    assert report.refused_deletes == {"instance": len(before)}
    assert filled.instances() == before


# Entries that move


@pytest.fixture
def grouped(site: NovaSite, cloud: FakeOpenStack) -> NovaSite:
    for number, server in enumerate(list(cloud.inventory.servers)):
        cloud.inventory.add_server_group(f"g{number}", [server])
    site.reconcile()
    assert site.instances() == truth(cloud)
    return site


@pytest.mark.parametrize("page", [1, 2])
def test_a_server_keeps_its_group_while_another_group_is_deleted(grouped: NovaSite, cloud: FakeOpenStack, page: int):
    def delete(request: Any) -> None:
        groups = cloud.inventory.server_groups
        del groups[next(iter(groups))]

    cloud.fail(Do(delete), path="os-server-groups", after=page)
    assert grouped.reconcile().complete
    assert grouped.instances() == truth(cloud)


def test_groups_that_move_again_and_again_are_unknown_and_said(grouped: NovaSite, cloud: FakeOpenStack):
    before = grouped.instances()

    def turn(request: Any) -> None:
        groups = cloud.inventory.server_groups
        first = next(iter(groups))
        groups[first] = groups.pop(first)

    cloud.fail(Do(turn), path="os-server-groups", count=None)
    report = grouped.reconcile()
    assert list(report.failures) == ["server groups"]
    assert "its entries move while they are listed" in report.failures["server groups"]
    assert grouped.instances() == before


def test_a_page_that_counts_a_server_twice_has_no_link_and_is_not_the_last(site: NovaSite, cloud: FakeOpenStack):
    first = list(cloud.inventory.servers)[-1]
    cloud.inventory.update_server(first, state="building", host=None, node=None)

    def cut(document: dict[str, Any]) -> None:
        if any(one["id"] == first for one in document["servers"]):
            document.pop("servers_links", None)

    cloud.fail(rewritten(cut), path=SERVERS, count=None)
    assert site.reconcile().complete
    assert site.instances().keys() == truth(cloud).keys()
