# SPDX-License-Identifier: Apache-2.0
"""A cluster held against the tables of every database: what was written is read back as it was."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clusters import Installation, nothing, one_vdu, truth
from tests.waiting import deadline
from watcher_sync.exceptions import OperationRunning
from watcher_sync.extensions.vnf.reconcile import VnfClusterReconciler
from watcher_sync.reconcile.base import Report
from watcher_sync.storage.table_model import TableView
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment, stateful_set


@pytest.fixture
def server() -> Iterator[KubernetesServer]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        odd = deployment("vdu1", replicas=2)
        odd["metadata"]["labels"] = {"app": "vdu1", "tier": "", "Ünï": "日本 "}
        server.create(odd)
        server.create(stateful_set("db", replicas=7))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(any_database_url: str, server: KubernetesServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server}, url=any_database_url, page_size=3)
    yield site
    site.close()


def reconciler(site: Installation) -> VnfClusterReconciler:
    view = TableView(site.store.database, site.store.tables, site.store.kinds)
    return VnfClusterReconciler(site.conf, site.context(lambda: view), wait=nothing)


def run(site: Installation, *, allow_deletes: bool = False) -> Report:
    return reconciler(site).run("edge", allow_deletes=allow_deletes, deadline=time.monotonic() + deadline(120))


def test_what_was_healed_differs_in_nothing_and_a_second_run_writes_nothing(
    site: Installation, server: KubernetesServer
):
    site.register("v1", one_vdu())
    site.register("v2", one_vdu("StatefulSet", "db"))
    assert run(site).complete
    assert site.objects() == truth(server)
    assert (site.vnf("v1").state, site.vnf("v2").state) == ("SYNCED", "OUT_OF_RANGE")
    head = site.head()
    again = run(site)
    assert (again.differences, site.head()) == ((), head)
    server.delete("Deployment", "vdu1")
    server.cluster.settle()
    assert run(site, allow_deletes=True).deleted == 4
    assert site.objects() == truth(server)
    assert site.vnf("v1").state == "UNRESOLVED"
    assert run(site).differences == ()


def test_many_who_compare_at_once_write_everything_once(site: Installation, server: KubernetesServer):
    site.register("v1", one_vdu())
    failures: list[Exception] = []

    def one() -> None:
        try:
            reconciler(site).sync_now("v1", dry_run=False)
        except OperationRunning:
            pass  # another was first
        except Exception as exc:  # noqa: BLE001 - shown by the test
            failures.append(exc)

    def all_of_it() -> None:
        try:
            run(site)
        except Exception as exc:  # noqa: BLE001 - shown by the test
            failures.append(exc)

    threads = [threading.Thread(target=target) for target in (one, all_of_it, one, all_of_it)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(180))
    assert failures == []
    assert site.objects() == truth(server)
    assert site.vnf("v1").state == "SYNCED"
    assert len(site.vnf("v1").vnfc_resource_info) == 2
    assert site.operations.running("v1") is None
