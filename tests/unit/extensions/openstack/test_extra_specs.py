# SPDX-License-Identifier: Apache-2.0
"""What the extra specs of a flavor ask of a host; Nova accepted flavors without validation for years."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.openstack.extra_specs import NumaRequest, PciRequest, numa_request, pci_requests


@pytest.mark.parametrize(
    ("specs", "wanted"),
    [
        ({}, None),
        ({"hw:cpu_max_sockets": "2"}, None),
        ({"hw:numa_nodes": "2"}, NumaRequest(nodes=2)),
        ({"hw:mem_page_size": "large"}, NumaRequest(mem_page_size="large")),
        ({"hw:numa_nodes": "1", "hw:cpu_policy": "dedicated"}, NumaRequest(nodes=1, cpu_policy="dedicated")),
        ({"hw:pci_numa_affinity_policy": "required"}, NumaRequest(pci_affinity_policy="required")),
    ],
)
def test_a_numa_topology_is_asked_for_by_any_of_its_specs(specs, wanted):
    assert numa_request(specs) == wanted


@pytest.mark.parametrize("value", ["two", "", "0", "-1", "1.5", "٢", "9" * 5000, None, ["1"], {}])
def test_an_unusable_number_of_nodes_is_unknown(value):
    assert numa_request({"hw:numa_nodes": value}) == NumaRequest(nodes=None)


@pytest.mark.parametrize(
    ("alias", "wanted"),
    [
        ("gpu:1", [PciRequest("gpu", 1)]),
        ("gpu:1, nic : 2 ", [PciRequest("gpu", 1), PciRequest("nic", 2)]),
        ("a:b:3", [PciRequest("a:b", 3)]),
        ("gpu", []),
        ("gpu:many,nic:1", [PciRequest("nic", 1)]),
        (":1,,", []),
        (None, []),
        (7, []),
    ],
)
def test_pci_devices_are_aliases_with_numbers(alias, wanted):
    assert pci_requests({"pci_passthrough:alias": alias}) == wanted
