# SPDX-License-Identifier: Apache-2.0
"""What is told by events while a cluster is compared is newer than the listing, whoever compares."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.clusters import Installation, one_vdu, truth
from watcher_sync.events import Event
from watcher_sync.reconcile.kubernetes import KubernetesReconciler
from watcher_sync.sources.kubernetes import KubernetesSource
from watcher_sync.storage.reading import TableView
from watcher_sync.testing.kube import KubeServer
from watcher_sync.testing.kube.builders import deployment


@pytest.fixture
def server() -> Iterator[KubeServer]:
    with KubeServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.create(deployment("other", replicas=9))
        server.cluster.settle()
        yield server


@pytest.fixture
def site(server: KubeServer, tmp_path: Path) -> Iterator[Installation]:
    site = Installation(tmp_path, {"edge": server}, connect_timeout=1.0, read_timeout=2.0)
    yield site
    site.close()


@pytest.fixture
def after_listing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], None]:
    """Have something happen between the listing and whatever is made of it."""
    survey = KubernetesSource.survey

    def arrange(happen: Callable[[], None]) -> None:
        def surveyed(*args: Any, **more: Any) -> Iterator[Any]:
            yield from survey(*args, **more)
            happen()

        monkeypatch.setattr(KubernetesSource, "survey", surveyed)

    return arrange


def nothing(_seconds: float) -> None:
    """No watch is waited for."""


def over_the_tables(site: Installation, wait: Callable[[float], None] = nothing) -> KubernetesReconciler:
    """As in a process without a replica, such as an API worker."""
    view = TableView(site.store.engine, site.store.tables, site.store.kinds)
    return KubernetesReconciler(site.conf, site.context(lambda: view), wait=wait)


class Watch:
    """Tells the model what the cluster has, as an engine's watch does."""

    def __init__(self, site: Installation, server: KubeServer) -> None:
        self._site, self._server = site, server
        self._number = 0

    def tell(self) -> None:
        events = []
        for kind in ("Deployment", "ReplicaSet", "Pod"):
            for obj in self._server.objects(kind):
                self._number += 1
                event = Event(
                    id=f"e-{self._number}",
                    type=f"kubernetes.{kind.lower()}.modified",
                    source="edge",
                    origin="edge",
                    data=msgspec.json.encode(obj),
                    sequence=(1, self._number),
                )
                events.append(event)
        self._site.told(*events)


def test_a_pod_that_is_told_after_the_listing_is_not_deleted_by_a_process_that_reads_the_tables(
    site: Installation, server: KubeServer, after_listing: Callable[[Callable[[], None]], None]
):
    site.register("v1", one_vdu())
    site.reconcile()

    def scaled_and_told() -> None:
        server.cluster.scale("Deployment", "vdu1", 2)
        server.cluster.settle()
        Watch(site, server).tell()

    after_listing(scaled_and_told)
    report = over_the_tables(site).run("edge", allow_deletes=True, deadline=time.monotonic() + 20)
    assert report.deleted == 0
    assert site.objects() == truth(server)


def test_a_sync_that_is_asked_for_deletes_no_pod_that_is_told_after_the_listing(
    site: Installation, server: KubeServer, after_listing: Callable[[Callable[[], None]], None]
):
    site.register("v1", one_vdu())
    site.reconcile()

    def scaled_and_told() -> None:
        server.cluster.scale("Deployment", "vdu1", 2)
        server.cluster.settle()
        Watch(site, server).tell()

    after_listing(scaled_and_told)
    report = over_the_tables(site).sync_now("v1", dry_run=False)
    assert report.state == "SYNCED"
    assert site.objects() == truth(server)
    assert site.vnf("v1").scale_level == {"vdu1_aspect": 1}
