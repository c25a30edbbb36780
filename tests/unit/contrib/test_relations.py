# SPDX-License-Identifier: Apache-2.0
"""What depends on a pool, a volume and a bare metal node: the graph goes through the kinds of both plugins and ours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from watcher_sync_cinder.kinds import KINDS as STORAGE
from watcher_sync_ironic.entities import BaremetalNode

from tests.sites import Site
from watcher_sync.model.changes import Upsert
from watcher_sync.read.graph import GraphReader
from watcher_sync.testing.kinds import builtin_kinds

BACKEND = "volume-1@fast"
POOL = f"{BACKEND}#ssd"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    kinds = builtin_kinds()
    for cls in (*STORAGE, BaremetalNode):
        kinds.add(cls)
    made = Site(tmp_path, kinds=kinds)
    made.write(
        Upsert("storage_pool", POOL, "1", {"pool": {"backend_id": BACKEND}}),
        Upsert("instance", "vm", "1", {"state": {"state": "active"}}),
        Upsert("instance", "diskless", "1", {"state": {"state": "active"}}),
        Upsert(
            "volume",
            "v",
            "1",
            {
                "details": {"size_gb": 1},
                "state": {"status": "in-use"},
                "placement": {"pool_id": POOL},
                "attachments": {"instance_ids": ["vm"]},
            },
        ),
        Upsert("volume_snapshot", "s", "1", {"details": {"volume_id": "v"}, "state": {"status": "available"}}),
        Upsert("baremetal_node", "metal", "1", {"config": {"name": "m"}, "instance": {"instance_id": "vm"}}),
    )
    yield made
    made.close()


@pytest.mark.parametrize(
    ("root", "dependents"),
    [
        (("storage_pool", POOL), {"volume": 1, "volume_snapshot": 1, "instance": 1}),
        (("volume", "v"), {"volume_snapshot": 1, "instance": 1}),
        (("baremetal_node", "metal"), {"instance": 1}),
        (("instance", "vm"), {}),
    ],
)
def test_the_impact_of_storage_and_of_metal_reaches_the_servers(
    site: Site, root: tuple[str, str], dependents: dict[str, int]
) -> None:
    with site.store.database.connect() as connection:
        counted = GraphReader(connection, site.store.tables, site.store.kinds).count_dependents(root)
    assert counted is not None
    assert {kind: sum(states.values()) for kind, states in counted.items() if states} == dependents
