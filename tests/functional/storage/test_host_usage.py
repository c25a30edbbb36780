# SPDX-License-Identifier: Apache-2.0
"""What instances use of hosts, summed by each database as the model sums it."""

from __future__ import annotations

import pytest

from tests.allocations import used_by_host
from tests.functional.storage.conftest import opened
from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.extensions.openstack.allocations import Usage
from watcher_sync.extensions.openstack.read.host_usage import read_used
from watcher_sync.model.changes import Upsert
from watcher_sync.testing.kinds import builtin_kinds


def server(number, host, source_host=None, vcpus=2):
    facets = {
        "state": {},
        "flavor": {"vcpus": vcpus, "memory_mb": 2**31, "disk_gb": 10},
        "placement": {"host": host},
        "resize": {"source_host": source_host},
    }
    return Upsert("instance", f"{number:032x}", "1", facets)


@pytest.fixture
def declared_kinds():
    return builtin_kinds()


def test_the_database_and_the_model_sum_the_same(any_migrated_url):
    store = opened(any_migrated_url, builtin_kinds())
    cycle = CommitCycle(store, store.load(), telling(store.kinds))
    servers = [server(1, "a"), server(2, "a"), server(3, "b", "a"), server(4, None), server(5, "c", "c", vcpus=None)]
    cycle.run(Batch(events=[told(0, *servers)]))
    with store.connect() as connection:
        used = read_used(connection, store.tables, ["a", "b", "c", "empty"])
    expected = used_by_host(store.load().snapshot().all("instance"))
    assert used == {**expected, "empty": Usage(0, 0, 0)}
    assert used["a"] == Usage(6, 3 * 2**31, 30)
    assert used["c"].vcpus is None
    store.close()
    store.database.dispose()
