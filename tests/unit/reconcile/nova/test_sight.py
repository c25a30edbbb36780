# SPDX-License-Identifier: Apache-2.0
"""An account that is no administrator by Nova's rules: Nova narrows its answers silently."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nova_sites import NovaSite, truth
from watcher_sync.reconcile.nova.reconciler import CHANGES
from watcher_sync.testing.openstack import FakeOpenStack

pytestmark = pytest.mark.slow


@pytest.fixture
def site(cloud: FakeOpenStack, tmp_path: Path) -> Iterator[NovaSite]:
    """The account ``auditor``, which passes the rules that our documentation lists."""
    site = NovaSite(tmp_path, cloud, **cloud.options("auditor"))
    yield site
    site.close()


def test_an_account_with_the_documented_rules_sees_all_servers_and_hosts(site: NovaSite, cloud: FakeOpenStack):
    first, second, *_ = cloud.inventory.servers
    cloud.inventory.update_server(first, state="soft-delete")
    cloud.inventory.add_migration(second, "compute-2", status="finished")
    cloud.inventory.update_server(second, host="compute-2", state="resized")
    report = site.reconcile()
    assert (report.complete, report.failures) == (True, {})
    assert site.instances() == truth(cloud)
    assert all(one.hypervisor_hostname for one in site.model.all("compute_node"))


def test_a_doubtful_server_that_exists_is_not_deleted_because_of_a_404(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    reconciler = site.reconciler()
    site.reconcile(CHANGES, reconciler=reconciler)  # the next one asks for doubtful servers only
    first, *_ = cloud.inventory.servers
    cloud.inventory.update_server(first, state="stopped", power_state="shutdown")
    site.doubts.add("instance", first)
    report = site.reconcile(CHANGES, reconciler=reconciler)
    assert (report.complete, report.deleted) == (True, 0)
    assert site.instances() == truth(cloud)


def test_a_deleted_server_goes_and_an_archived_one_stays_with_the_reason(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    deleted, archived, *_ = cloud.inventory.servers
    cloud.inventory.delete_server(deleted)
    cloud.inventory.purge_server(archived)
    report = site.reconcile()
    assert (report.deleted, site.model.get("instance", deleted)) == (1, None)
    assert site.model.get("instance", archived) is not None
    assert "404, which proves nothing without context_is_admin" in report.failures["missing servers"]


def test_servers_that_a_dropped_filter_hides_are_not_deleted(site: NovaSite, cloud: FakeOpenStack):
    site.reconcile()
    hidden, *_ = cloud.inventory.servers
    cloud.inventory.update_server(hidden, state="soft-delete")
    cloud.rules.remove("servers:allow_all_filters")
    report = site.reconcile()
    assert (report.complete, report.deleted) == (False, 0)
    assert site.model.get("instance", hidden) is not None
