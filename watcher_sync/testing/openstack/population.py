# SPDX-License-Identifier: Apache-2.0
"""Fills an inventory with many hosts and servers at once, for benchmarks and for trying clients."""

from __future__ import annotations

import datetime
import random
from typing import Final

from watcher_sync.testing.openstack.inventory import Inventory
from watcher_sync.testing.openstack.records import Flavor

FLAVORS: Final = (
    Flavor(id="1", name="m1.tiny", vcpus=1, memory_mb=512, root_gb=1),
    Flavor(id="2", name="m1.small", vcpus=2, memory_mb=2048, root_gb=20),
    Flavor(id="3", name="m1.large", vcpus=4, memory_mb=8192, root_gb=80, ephemeral_gb=10, swap_mb=1024),
    Flavor(id="4", name="vnf.dedicated", vcpus=8, memory_mb=16_384, root_gb=40,
           extra_specs={"hw:cpu_policy": "dedicated", "hw:mem_page_size": "large"}),
)  # fmt: skip
STATES: Final = (("active", "running"),) * 8 + (("stopped", "shutdown"), ("paused", "paused"))
PROJECTS: Final = 20
ZONES: Final = 3


def populate(inventory: Inventory, *, hosts: int, servers: int, seed: int = 0) -> None:
    """Hosts in three zones, and servers on them, of a few projects and flavors."""
    rng = random.Random(seed)
    now = inventory.clock()
    projects = [f"{rng.getrandbits(128):032x}" for _ in range(PROJECTS)]
    with inventory.lock:
        names = [inventory.add_host(f"compute-{i}", memory_mb=524_288).name for i in range(hosts)]
        inventory.add_service("nova-conductor", "controller-0")
        inventory.add_service("nova-scheduler", "controller-0")
        for zone in range(ZONES):
            inventory.add_aggregate(f"zone-{zone}", names[zone::ZONES], {"availability_zone": f"az-{zone}"})
        for i in range(servers):
            state, power_state = rng.choice(STATES)
            created_at = now - datetime.timedelta(seconds=servers - i)
            inventory.add_server(
                f"vm-{i}", host=names[i % hosts] if hosts else None, flavor=rng.choice(FLAVORS),
                project_id=rng.choice(projects), state=state, power_state=power_state,
                metadata={"role": "worker", "site": f"edge-{i % 50}"}, created_at=created_at, updated_at=created_at,
                launched_at=created_at, addresses=(f"10.{i >> 16 & 255}.{i >> 8 & 255}.{i & 255}",),
            )  # fmt: skip
