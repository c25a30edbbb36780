# SPDX-License-Identifier: Apache-2.0
"""A request to any service that fails for a moment is repeated within the run, and within its deadline."""

from __future__ import annotations

import time

import pytest

from tests.nova_sites import NovaSite, truth
from tests.waiting import deadline
from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud.client import CloudClient, OpenStackCloud
from watcher_sync.extensions.openstack.cloud.errors import CloudError, RateLimited
from watcher_sync.testing.openstack import (
    Answer,
    ApiError,
    Cut,
    FakeOpenStack,
    Garbage,
    forbidden,
    server_error,
    too_many_requests,
)

pytestmark = pytest.mark.slow

PASSING = [server_error(502), server_error(503), server_error(504), too_many_requests(), Cut(0), Cut(0.5)]
LASTING = [server_error(500), server_error(400), forbidden(), Garbage()]
MAX_RETRIES = 5


def shown(action: object) -> str:
    return f"{action.error.status}" if isinstance(action, Answer) else repr(action)[:10]


def get(client: CloudClient) -> bytes:
    return client.get("compute", "/servers/detail")


@pytest.mark.parametrize("action", PASSING, ids=shown)
@pytest.mark.parametrize(
    ("service", "path", "after"),
    [("identity", "/auth/tokens", 0), ("compute", "/servers/detail", 1), ("compute", "/os-services", 0)],
)
def test_one_request_that_fails_for_a_moment_costs_nothing(
    site: NovaSite, cloud: FakeOpenStack, action, service, path, after
):
    fault = cloud.fail(action, service=service, path=path, after=after)
    assert site.reconcile().complete
    assert (fault.hits, len(site.waits), site.instances()) == (1, 1, truth(cloud))


def test_a_service_that_does_not_name_its_versions_for_a_moment_is_asked_again(site: NovaSite, cloud: FakeOpenStack):
    cloud.fail(server_error(503), service="compute", count=2)
    assert site.reconcile().complete
    assert site.instances() == truth(cloud)


@pytest.mark.parametrize("service", ["identity", "compute"])
def test_a_service_that_comes_back_within_the_pauses_is_listed(site: NovaSite, cloud: FakeOpenStack, service):
    listener = getattr(cloud, service)
    listener.stop()
    account = OpenStackCloud(site.conf, wait=lambda _seconds: listener.start())
    client = account.client(time.monotonic() + deadline(120))
    assert get(client).startswith(b"{")


@pytest.mark.parametrize("action", LASTING, ids=shown)
def test_a_failure_that_lasts_is_not_repeated(site: NovaSite, cloud: FakeOpenStack, action):
    fault = cloud.fail(action, path="/os-services", count=None)
    assert not site.reconcile().complete
    assert (fault.hits, site.waits) == (1, [])


@pytest.mark.parametrize("action", [server_error(503), Cut(0)], ids=shown)
def test_a_service_that_stays_away_costs_a_run_a_few_growing_pauses(site: NovaSite, cloud: FakeOpenStack, action):
    client = site.cloud_account.client(time.monotonic() + deadline(120))
    get(client)
    fault = cloud.fail(action, service="compute", count=None)
    for _ in range(4):
        with pytest.raises(CloudError):
            get(client)
    assert (fault.hits, len(site.waits)) == (MAX_RETRIES + 4, MAX_RETRIES)
    assert all(most / 2 <= pause <= most for pause, most in zip(site.waits, (0.5, 1, 2, 4, 4), strict=True))
    cloud.heal()
    get(client)
    cloud.fail(action, service="compute")  # the next failure is the first one again
    get(client)


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_the_client_pauses_as_long_as_a_service_asks(site: NovaSite, cloud: FakeOpenStack, status):
    client = site.cloud_account.client(time.monotonic() + deadline(120))
    cloud.fail(Answer(ApiError(status, "later", {"Retry-After": "7"})), path="/servers/detail", count=2)
    get(client)
    assert site.waits == [7.0, 7.0]
    cloud.fail(Answer(ApiError(status, "later", {"Retry-After": "86400"})), path="/servers/detail")
    with pytest.raises(RateLimited, match="86400"):
        get(client)


@pytest.mark.parametrize("seconds", [0.1, 1.0, 3.0, 10.0])
@pytest.mark.parametrize("action", PASSING, ids=shown)
def test_no_pause_exceeds_the_deadline_of_the_run(site: NovaSite, cloud: FakeOpenStack, action, seconds):
    waits: list[float] = []
    account = OpenStackCloud(site.conf, monotonic=lambda: sum(waits), wait=waits.append)
    cloud.fail(action, service="compute", count=None)
    client = account.client(seconds)
    for _ in range(3):
        with pytest.raises(ReconcileError):
            get(client)
    assert sum(waits) < seconds
