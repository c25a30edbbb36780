# SPDX-License-Identifier: Apache-2.0
"""A source's listing is committed after a reconciliation that read the cluster later."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.clusters import Installation, truth
from tests.functional.sources.reflecting import make_source
from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment


@pytest.mark.parametrize("watch_list", [True, False])
def test_pods_that_a_reconciliation_created_survive_the_older_listing_of_the_source(tmp_path: Path, watch_list: bool):
    read, committing, one_writer = threading.Semaphore(0), threading.Event(), threading.Lock()
    with KubernetesServer() as server:
        server.cluster.add_nodes(2)
        server.create(deployment("vdu1", replicas=1))
        server.cluster.settle()
        site = Installation(tmp_path, {"edge": server}, connect_timeout=30.0, read_timeout=30.0)

        def emit(events: Sequence[Event]) -> None:
            if not committing.is_set():
                read.release()
                assert committing.wait(deadline(60))
            with one_writer:
                site.told(*events)

        resources = ["pods", "deployments", "replicasets"]
        source = make_source(
            server.kubeconfig(tmp_path / "kubeconfig-source"), resources=resources, watch_list=watch_list
        )
        source.start(emit)
        try:
            for _ in source.reflectors:
                assert read.acquire(timeout=deadline(60))
            server.create(deployment("later", replicas=3))
            server.cluster.settle()
            assert site.reconcile().complete
            assert site.objects() == truth(server)
            committing.set()
            wait_until(lambda: source.has_synced, what="the listing is committed")
            server.cluster.scale("Deployment", "vdu1", 2)
            server.cluster.settle()
            wait_until(lambda: site.objects() == truth(server), what="the model is what the cluster has")
        finally:
            committing.set()
            source.stop(time.monotonic() + deadline(5))
            site.close()
