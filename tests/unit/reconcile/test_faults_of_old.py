# SPDX-License-Identifier: Apache-2.0
"""Faults of earlier synchronisers of network functions, tested against a cluster that speaks HTTP.

Other tests cover the rest. For levels, foreign pods and stable ids see ``tests/unit/extensions/vnf/model``. For the
loop that survives see ``test_failing``. For leases of dead processes see ``tests/functional/storage``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Installation, one_vdu
from tests.waiting import deadline
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.testing.kubernetes import Hang, KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment

pytestmark = pytest.mark.slow


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(server: KubernetesServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server})
    yield site
    site.close()


def test_a_cluster_that_does_not_answer_costs_no_more_than_the_deadline(site: Installation, server: KubernetesServer):
    server.fail(Hang(), count=None)
    began = time.monotonic()
    with pytest.raises(ReconcileError, match="cannot be listed"):
        site.reconciler().run("edge", deadline=began + 1)
    assert time.monotonic() - began < deadline(30)


@pytest.mark.parametrize("length", [46, 47, 58, 63])
def test_a_long_name_deletes_no_vnfc(site: Installation, server: KubernetesServer, length: int):
    name = "v" * length
    server.create(deployment(name, replicas=2))
    server.cluster.settle()
    site.register("v1", one_vdu(name=name))
    for _ in range(2):
        site.reconcile()
        vnf = site.vnf("v1")
        assert (vnf.state, len(vnf.vnfc_resource_info), vnf.scale_level) == ("SYNCED", 2, {"vdu1_aspect": 1})


def test_an_instance_is_not_locked_by_a_sync_that_crashed(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    site.operations.begin("v1", "SYNC", "watcher-sync", recorded=False)
    site.reconcile()
    assert site.vnf("v1").state == "UNKNOWN"
    leases = site.store.tables.operation_leases
    with site.store.database.begin() as connection:  # as if its time had gone by
        connection.execute(leases.update().values(expires_at=leases.c.since))
    site.reconcile()
    assert site.vnf("v1").state == "SYNCED"
    assert site.operations.running("v1") is None


def test_the_cluster_is_read_outside_of_the_lease(
    site: Installation, server: KubernetesServer, monkeypatch: pytest.MonkeyPatch
):
    site.register("v1", one_vdu())
    list_objects, leases = ClusterTarget.list_objects, []

    def watched(*args: Any, **more: Any) -> Iterator[Any]:
        for part in list_objects(*args, **more):
            leases.append(site.operations.running("v1"))
            yield part

    monkeypatch.setattr(ClusterTarget, "list_objects", watched)
    site.reconciler().sync_now("v1", dry_run=False)
    site.reconcile()
    assert set(leases) == {None}
    assert len(leases) >= 10  # five resources, twice
