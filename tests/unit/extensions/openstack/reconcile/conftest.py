# SPDX-License-Identifier: Apache-2.0
"""A small cloud over HTTP, in pages of five servers, and a database beside it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_service import backend

from tests.nova_sites import NovaSite
from watcher_sync.testing.openstack import FakeOpenStack, Inventory

# As in our executables, before anything of oslo.messaging is imported.
backend.init_backend(backend.BackendType.THREADING)


@pytest.fixture
def cloud() -> Iterator[FakeOpenStack]:
    inventory = Inventory()
    for number in range(4):
        inventory.add_host(f"compute-{number}")
    inventory.add_aggregate("fast", ["compute-0"], {"ssd": "true"})
    inventory.add_aggregate("north", ["compute-1"], {"availability_zone": "north"})
    for number in range(12):
        inventory.add_server(f"vm-{number}", host=f"compute-{number % 4}", metadata={"n": str(number)})
    with FakeOpenStack(inventory, max_limit=5) as cloud:
        yield cloud


@pytest.fixture
def site(cloud: FakeOpenStack, tmp_path: Path) -> Iterator[NovaSite]:
    site = NovaSite(tmp_path, cloud)
    yield site
    site.close()
