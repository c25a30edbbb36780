# SPDX-License-Identifier: Apache-2.0
"""Watcher's own bare-metal model of a real Ironic beside that which watcher-sync-watcher builds from ours.

Watcher 17 cannot build its own, so its builder is mended first. No strategy of Watcher reads the model.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.real_ironic.cloud import Cloud
from tests.watcher_comparison import compare, needs_watcher, reconciled

pytestmark = [pytest.mark.timeout(600), needs_watcher]


@pytest.fixture
def nodes(cloud: Cloud) -> Iterator[list[str]]:
    """One node that is on, one that is off, and one in maintenance."""
    api = cloud.api()
    made = [
        api.create("nodes", driver="fake-hardware", extra={"compute_node_id": str(uuid.uuid4()), "rack": "r1"})
        for _ in range(3)
    ]
    for node in made:
        api.provision(node, "manage", "manageable")
    api.power(made[0], "power on", "power on")
    api.power(made[1], "power off", "power off")
    api.request("PUT", f"nodes/{made[2]}/maintenance", {"reason": "fan"})
    yield made
    for node in made:
        api.request("DELETE", f"nodes/{node}")


def test_both_models_are_equal_attribute_by_attribute(cloud: Cloud, nodes: list[str], tmp_path: Path) -> None:
    with reconciled("ironic", cloud.login, tmp_path) as store:
        compared = compare("baremetal", store, cloud.login, {}, {})
    theirs, ours = compared["theirs"], compared["ours"]
    assert compared["unmended"] == "AttributeError('maintenance_reason')"
    found = theirs["model"]["IronicNode"]
    assert set(nodes) <= set(found)
    assert found[nodes[0]]["power_state"] == "power on"
    assert found[nodes[1]]["power_state"] == "power off"
    assert (found[nodes[2]]["maintenance"], found[nodes[2]]["maintenance_reason"]) == (True, "fan")
    assert ours["model"] == theirs["model"]
    assert [path for _, path in ours["asked"]] == ["/v1/baremetal_nodes"] * 2
