# SPDX-License-Identifier: Apache-2.0
"""Servers that exist in Nova, and that the model has as deleted for good."""

from __future__ import annotations

import datetime
import logging

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.handler.ordering import listed_version
from watcher_sync.extensions.openstack.reconcile import writer
from watcher_sync.model.changes import Delete
from watcher_sync.testing.openstack import FakeOpenStack, Flavor, Rewrite

pytestmark = pytest.mark.slow


def bury(site: NovaSite, servers: list[str]) -> None:
    """Delete instances as an event of a clock far ahead does."""
    ahead = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=1)
    with site.context().writes.begin() as cycle:
        for server in servers:
            cycle.write(
                Event(id=server, type="test", source="test"),
                [Delete("instance", server, listed_version(None, ahead, state=None))],
            )


def asked(cloud: FakeOpenStack) -> int:
    """Requests for single servers."""
    return cloud.requests.count("/servers/") - cloud.requests.count("/servers/detail")


@pytest.fixture
def buried(site: NovaSite, cloud: FakeOpenStack) -> NovaSite:
    """All servers are buried."""
    site.reconcile()
    bury(site, list(cloud.inventory.servers))
    assert site.instances() == {}
    return site


def test_a_server_that_was_taken_for_deleted_is_restored(buried: NovaSite, cloud: FakeOpenStack):
    assert buried.reconcile().written == 12
    assert buried.instances() == truth(cloud)


def test_one_run_restores_a_limited_number_and_the_next_runs_the_rest(
    buried: NovaSite, cloud: FakeOpenStack, monkeypatch, caplog
):
    monkeypatch.setattr(writer, "MAX_RESTORED", 5)
    caplog.set_level(logging.INFO, "watcher_sync")
    reconciler = buried.reconciler()
    restored = []
    for _ in range(3):
        before = asked(cloud)
        restored.append(buried.reconcile(reconciler=reconciler).written)
        assert asked(cloud) - before <= 5
    assert restored == [5, 5, 2]
    assert buried.instances() == truth(cloud)
    waiting = [r.getMessage() for r in caplog.records if "the next run" in r.getMessage()]
    assert [line.split()[0] for line in waiting] == ["7", "2"]


def test_a_restored_server_that_cannot_be_stored_fails_neither_the_run_nor_the_others(
    site: NovaSite, cloud: FakeOpenStack
):
    site.reconcile()
    servers = list(cloud.inventory.servers)
    bury(site, servers)
    cloud.inventory.update_server(servers[4], flavor=Flavor(id="9", name="vast", vcpus=2**63))
    report = site.reconcile()
    assert (report.complete, report.written) == (True, 11)
    assert list(report.refused_writes) == [f"instance {servers[4]}"]
    assert set(site.instances()) == {*servers} - {servers[4]}


def test_servers_that_cannot_be_restored_keep_no_others_waiting(site: NovaSite, cloud: FakeOpenStack, monkeypatch):
    monkeypatch.setattr(writer, "MAX_RESTORED", 3)
    site.reconcile()
    servers = list(cloud.inventory.servers)
    bury(site, servers)
    for server in servers[:6]:
        cloud.inventory.update_server(server, flavor=Flavor(id="9", name="vast", vcpus=2**63))
    reconciler = site.reconciler()
    for _ in range(4):
        site.reconcile(reconciler=reconciler)
    assert set(site.instances()) == {*servers[6:]}


def test_a_server_that_the_account_does_not_see_delays_no_other(cloud: FakeOpenStack, tmp_path):
    site = NovaSite(tmp_path, cloud, **cloud.options("auditor"))
    site.reconcile()
    servers = list(cloud.inventory.servers)
    bury(site, servers)
    unseen = servers[0]
    lists = cloud.fail(
        Rewrite(lambda _: b'{"servers": []}'), when=lambda asked: asked.last("uuid") == unseen, count=None
    )
    site.reconcile()
    assert lists.hits
    assert set(site.instances()) == set(servers) - {unseen}
    site.close()
