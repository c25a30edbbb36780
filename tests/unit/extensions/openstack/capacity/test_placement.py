# SPDX-License-Identifier: Apache-2.0
"""What is nested under a resource provider counts as part of it."""

from __future__ import annotations

from watcher_sync.extensions.openstack.capacity.placement import (
    _Inventories,
    _Inventory,
    _Part,
    _ResourceProvider,
    by_root,
)

FOUND = [
    _ResourceProvider(uuid="r1", name="host-1"),
    _ResourceProvider(uuid="n1", name="numa", root_provider_uuid="r1"),
    _ResourceProvider(uuid="r2", name=7),
]


def part(total):
    return _Part(_Inventories({"VCPU": _Inventory(total=total, reserved=0, allocation_ratio=1.0)}, 1), {"VCPU": 0})


def test_the_amounts_of_what_is_nested_are_summed():
    [first, second] = by_root(FOUND, {"r1": part(4), "n1": part(2), "r2": part(8)})
    assert (first.node, first.vcpus, second.node, second.vcpus) == ("host-1", 6, None, 8)


def test_a_host_with_an_unreadable_part_is_unreadable():
    [first, second] = by_root(FOUND, {"r1": part(4), "n1": "odd", "r2": part(8)})
    assert (first.node, first.vcpus, first.unreadable) == ("host-1", None, "odd")
    assert (second.vcpus, second.unreadable) == (8, None)
