# SPDX-License-Identifier: Apache-2.0
"""Whatever part of its events is lost, one comparison makes the model equal to a simulated cloud.

The cloud is compared in the middle of its operations, such as a deletion that is half done.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from tests.nova_sites import NovaSite
from watcher_sync.demo.existing_cloud import ExistingCloud
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.comparison import compare
from watcher_sync.wire.envelopes import read_document

pytestmark = pytest.mark.slow

CAPACITY = {
    f"compute_node.{field}"
    for field in (
        "vcpus", "memory_mb", "disk_gb", "reserved_vcpus", "reserved_memory_mb", "reserved_disk_gb",
        "vcpu_ratio", "memory_ratio", "disk_ratio",
    )
}  # fmt: skip
"""Fields that another reconciler writes."""


def differences(cloud: ExistingCloud, store: Store) -> list[str]:
    snapshot = store.load().snapshot()
    # Nova does not list the source of a resize that is being confirmed, and it may have been deleted meanwhile.
    sources = {
        one.source_host
        for one in snapshot.all("instance")
        if getattr(snapshot.get("compute_node", one.source_host or ""), "gone", False)
    }
    found = [str(one) for one in compare(cloud.truth(), snapshot, ignored=CAPACITY)]
    return [one for one in found if not any(f"compute_node {host} is in the model" in one for host in sources)]


@pytest.mark.parametrize("seed", [*range(12), *(pytest.param(seed, marks=pytest.mark.rare) for seed in range(12, 24))])
def test_one_comparison_repairs_what_was_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.reconcile.reconciler._CONFIRM_SECONDS", 0.0)
    rng = random.Random(seed)
    with ExistingCloud(seed=seed, hosts=5, instances=12) as cloud:
        site = NovaSite(tmp_path, cloud._openstack)
        site.conf.set_override("max_delete_percent", 100, group="reconcile")
        cloud.reconcile(site.conf, site.store, 60)
        events = cloud.simulator.events()
        for _ in range(3):
            documents = list(itertools.islice(events, rng.choice([1, 3, 10, 40, 120])))
            lost = rng.choice([0.0, 0.1, 0.5, 1.0])
            told = [
                read_document(one, source="nova", number=n) for n, one in enumerate(documents) if rng.random() >= lost
            ]
            if told:
                site.told(*told)
            cloud.reconcile(site.conf, site.store, 60)
            assert differences(cloud, site.store) == []
        site.close()
