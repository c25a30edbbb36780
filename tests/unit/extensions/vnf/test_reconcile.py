# SPDX-License-Identifier: Apache-2.0
"""The write of one instance: each start notification has its end, and a lost lease writes nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import Installation, one_vdu
from watcher_sync.commit.direct import DirectCommitCycle, DirectWriter
from watcher_sync.events import Actor
from watcher_sync.exceptions import DatabaseUnavailable, StaleToken
from watcher_sync.extensions.vnf.handler import VnfHandler
from watcher_sync.extensions.vnf.instance_sync import VnfSync
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import deployment


class Seen:
    """A listener to notifications."""

    def __init__(self) -> None:
        self.words: list[str] = []

    def sync_start(self, _vnf: Any) -> None:
        self.words.append("start")

    def sync_end(self, _vnf: Any, _results: Any, _pods: Any) -> None:
        self.words.append("end")

    def sync_error(self, _vnf: Any, why: str) -> None:
        self.words.append(f"error: {why}")


class LostAtTheEnd:
    """Writes whose commit fails."""

    def __init__(self, writes: DirectWriter) -> None:
        self._writes = writes

    @contextlib.contextmanager
    def begin(self, actor: Actor | None = None) -> Iterator[DirectCommitCycle]:
        with self._writes.begin(actor) as cycle:
            yield cycle
            raise DatabaseUnavailable("gone at the commit")


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Installation]:
    with KubernetesServer() as server:
        server.cluster.add_nodes(1)
        server.create(deployment("vdu1", replicas=1))
        server.cluster.settle()
        site = Installation(tmp_path, {"edge": server})
        site.reconcile()
        site.register("v1", one_vdu())
        yield site
        site.close()


def test_listeners_receive_the_start_and_the_end_of_a_sync(site: Installation):
    context, heard = site.context(), Seen()
    sync = VnfSync(context.writes, context.operations, VnfHandler(site.conf.reconcile), notifications=heard)
    sync.sync("v1", unknown={}, source="edge")
    sync.sync("v1", unknown={}, source="edge")
    assert heard.words == ["start", "end"]


def test_a_failed_commit_is_notified_as_an_error_and_releases_the_lease(site: Installation):
    context, heard = site.context(), Seen()
    handler = VnfHandler(site.conf.reconcile)
    sync = VnfSync(LostAtTheEnd(context.writes), context.operations, handler, notifications=heard)
    with pytest.raises(DatabaseUnavailable):
        sync.sync("v1", unknown={}, source="edge")
    assert heard.words == ["start", "error: gone at the commit"]
    assert site.vnf("v1").state == "UNKNOWN"
    assert site.operations.running("v1") is None


class Slow:
    """Writes that begin when the lease is another's already."""

    def __init__(self, writes: DirectWriter, site: Installation) -> None:
        self._writes, self._site = writes, site

    @contextlib.contextmanager
    def begin(self, actor: Actor | None = None) -> Iterator[DirectCommitCycle]:
        leases = self._site.store.tables.operation_leases
        with self._site.store.database.begin() as connection:
            connection.execute(leases.update().values(expires_at=leases.c.since))
        self._site.operations.begin("v1", "SCALE", "tacker")
        with self._writes.begin(actor) as cycle:
            yield cycle


def test_a_stale_sync_overwrites_nothing_of_an_operation_that_took_the_lease_over(site: Installation):
    context = site.context()
    with pytest.raises(StaleToken):
        handler = VnfHandler(site.conf.reconcile)
        VnfSync(Slow(context.writes, site), context.operations, handler).sync("v1", unknown={}, source="edge")
    lease = site.operations.running("v1")
    assert lease is not None
    assert (lease.holder, lease.operation) == ("tacker", "SCALE")
    assert site.vnf("v1").state == "UNKNOWN"
