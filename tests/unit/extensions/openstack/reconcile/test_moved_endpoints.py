# SPDX-License-Identifier: Apache-2.0
"""A service that moved is found by the next request, and not when the token ends."""

from __future__ import annotations

import time

import pytest

from tests.nova_sites import NovaSite, truth
from tests.waiting import deadline
from watcher_sync.extensions.openstack.cloud.client import CloudClient
from watcher_sync.extensions.openstack.cloud.errors import CloudError, CloudNotFound
from watcher_sync.testing.openstack import Answer, ApiError, FakeOpenStack, server_error

pytestmark = pytest.mark.slow

PATHS = {"compute": "/servers/detail", "placement": "/resource_providers"}


def client_of(site: NovaSite) -> CloudClient:
    return site.cloud_account.client(time.monotonic() + deadline(120))


def tokens(cloud: FakeOpenStack) -> int:
    return cloud.requests.count("/auth/tokens", method="POST")


def leave(cloud: FakeOpenStack, service, way: str) -> None:
    """The service moves; at its former port nothing listens, or another program that has none of its paths."""
    former = cloud.move(service)
    if way == "closed":
        former.stop()
    else:
        cloud.fail(Answer(ApiError(404, "no")), when=lambda request: request.base == former.url, count=None)


@pytest.mark.parametrize("way", ["closed", "404"])
@pytest.mark.parametrize("service", PATHS)
def test_a_service_that_moved_is_found_within_the_request(site: NovaSite, cloud: FakeOpenStack, service, way):
    client_of(site).get(service, PATHS[service])
    leave(cloud, service, way)
    before = tokens(cloud)
    client_of(site).get(service, PATHS[service])
    assert tokens(cloud) == before + 1


@pytest.mark.parametrize("way", ["closed", "404"])
def test_a_nova_that_moved_is_compared_completely(site: NovaSite, cloud: FakeOpenStack, way):
    site.reconcile()
    leave(cloud, "compute", way)
    cloud.inventory.add_server("new", host="compute-0")
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


def test_a_service_that_the_catalogue_did_not_have_is_found_by_the_next_run(site: NovaSite, cloud: FakeOpenStack):
    endpoints, cloud._identity._endpoints = cloud._identity._endpoints, dict
    with pytest.raises(CloudError, match="the catalogue has no endpoint"):
        client_of(site).get("compute", PATHS["compute"])
    cloud._identity._endpoints = endpoints
    client_of(site).get("compute", PATHS["compute"])


def test_a_service_that_is_away_costs_one_token_a_run(site: NovaSite, cloud: FakeOpenStack):
    client_of(site).get("compute", PATHS["compute"])
    cloud.compute.stop()
    before = tokens(cloud)
    client = client_of(site)
    for _ in range(3):
        with pytest.raises(CloudError):
            client.get("compute", PATHS["compute"])
    assert tokens(cloud) == before + 1


def test_what_a_service_does_not_have_costs_one_request_more_a_run_and_no_token(site: NovaSite, cloud: FakeOpenStack):
    client_of(site).get("compute", PATHS["compute"])
    client, before = client_of(site), tokens(cloud)
    for _ in range(3):
        with pytest.raises(CloudNotFound):
            client.get("compute", "/servers/2b0f7c1e-0000-4000-8000-000000000000")
    assert (client.requests, tokens(cloud)) == (4, before)


def test_a_service_that_answers_with_errors_keeps_its_token(site: NovaSite, cloud: FakeOpenStack):
    client_of(site).get("compute", PATHS["compute"])
    before = tokens(cloud)
    cloud.fail(server_error(503), service="compute", count=None)
    with pytest.raises(CloudError):
        client_of(site).get("compute", PATHS["compute"])
    assert tokens(cloud) == before
