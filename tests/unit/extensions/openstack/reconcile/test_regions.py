# SPDX-License-Identifier: Apache-2.0
"""Which endpoints of the catalogue are asked: of one region, whatever the catalogue's order, or of none."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.nova_sites import NovaSite, truth
from tests.waiting import deadline
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud.errors import CloudError
from watcher_sync.extensions.openstack.reconcile.reconciler import CHANGES, SCOPE
from watcher_sync.testing.openstack import FakeOpenStack, Inventory

PATHS = {"compute": "/servers/detail", "placement": "/resource_providers"}


@pytest.fixture
def other() -> Iterator[FakeOpenStack]:
    inventory = Inventory()
    inventory.add_host("compute-0")
    for number in range(40):
        inventory.add_server(f"other-{number}", host="compute-0")
    with FakeOpenStack(inventory) as cloud:
        yield cloud


@pytest.fixture
def anywhere(cloud: FakeOpenStack, tmp_path: Path) -> Iterator[NovaSite]:
    """The site without a region."""
    site = NovaSite(tmp_path, cloud, region_name="")
    yield site
    site.close()


def ask(site: NovaSite, service: str) -> bytes:
    return site.cloud_account.client(time.monotonic() + deadline(60)).get(service, PATHS[service])


def test_another_region_in_a_new_catalogue_changes_and_deletes_nothing(anywhere, cloud, other):
    assert anywhere.reconcile().complete
    head = anywhere.head()
    cloud.add_region("RegionTwo", other, first=True)
    cloud.expire_tokens()
    anywhere.cloud_account.forget_endpoints()
    for scope in (SCOPE, CHANGES):
        with contextlib.suppress(ReconcileError):
            assert not anywhere.reconcile(scope, allow_deletes=True).complete
    assert (anywhere.head(), anywhere.instances()) == (head, truth(cloud))
    assert other.requests.count() == 0


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("service", PATHS)
def test_a_service_in_several_regions_is_refused_with_their_names(anywhere, cloud, other, service, first):
    cloud.add_region("RegionTwo", other, first=first)
    with pytest.raises(CloudError) as caught:
        ask(anywhere, service)
    expected = f"{service}: the catalogue has it in the regions RegionOne, RegionTwo: set [reconcile_nova] region_name"
    assert str(caught.value) == expected


def test_an_endpoint_without_a_region_counts_as_one_of_another_region(anywhere, cloud, other):
    cloud.add_region(None, other, first=True)
    with pytest.raises(CloudError, match="in the regions RegionOne, none: set"):
        ask(anywhere, "compute")


@pytest.mark.parametrize("first", [False, True])
def test_the_region_that_is_set_is_asked_whatever_the_order(site, cloud, other, first):
    cloud.add_region("RegionTwo", other, first=first)
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


def test_a_run_asks_the_region_that_it_began_with(anywhere, cloud, other):
    client = anywhere.cloud_account.client(time.monotonic() + deadline(60))
    client.get("compute", PATHS["compute"])
    cloud.add_region("RegionTwo", other, first=True)
    cloud.expire_tokens()
    for _ in range(2):  # the first one renews the token, and with it the catalogue
        client.get("compute", PATHS["compute"])
    assert other.requests.count() == 0


@pytest.mark.parametrize("service", ["compute", "placement"])
@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"region_name": "regionOne"}, "internal, public in the region regionOne"),
        ({"region_name": "REGIONONE"}, "internal, public in the region REGIONONE"),
        ({"valid_interfaces": "internals"}, "internals in the region RegionOne"),
        ({"valid_interfaces": "Internal"}, "Internal in the region RegionOne"),
        ({"valid_interfaces": "Internal,PUBLIC"}, "Internal, PUBLIC in the region RegionOne"),
        ({"region_name": "regionone", "valid_interfaces": "Public"}, "Public in the region regionone"),
    ],
)
def test_an_endpoint_that_is_not_there_is_named_with_what_the_catalogue_has(cloud, tmp_path, options, asked, service):
    site = NovaSite(tmp_path, cloud, **options)
    with pytest.raises(CloudError) as caught:
        ask(site, service)
    site.close()
    has = "it has RegionOne (admin, internal, public)"
    assert str(caught.value) == f"{service}: the catalogue has no endpoint of it for {asked}; {has}"


@pytest.mark.parametrize("interfaces", ["Internal,public", "internals,Public,admin"])
def test_an_interface_of_another_case_is_passed_over_for_the_next_one(cloud, tmp_path, interfaces):
    site = NovaSite(tmp_path, cloud, valid_interfaces=interfaces)
    assert ask(site, "compute")
    site.close()
