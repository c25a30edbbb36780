# SPDX-License-Identifier: Apache-2.0
"""The faults that a test can inject, as openstacksdk meets them."""

from __future__ import annotations

import time

import pytest
from keystoneauth1.exceptions import UnknownConnectionError
from openstack import exceptions
from openstack.connection import Connection

from watcher_sync.testing.openstack import (
    Cut,
    Delay,
    Do,
    ExpireTokens,
    FakeOpenStack,
    Garbage,
    Inventory,
    forbidden,
    marker_not_found,
    server_error,
    too_many_requests,
)


@pytest.fixture(autouse=True)
def servers(inventory: Inventory) -> list[str]:
    return [inventory.add_server(f"vm-{i}", host=f"compute-{i % 3}").id for i in range(25)]


def listed(connection: Connection) -> list[str]:
    return [server.id for server in connection.compute.servers(details=True, all_projects=True)]


def test_an_error_meets_the_page_that_was_meant(cloud: FakeOpenStack, connection: Connection) -> None:
    fault = cloud.fail(server_error(500), path="/servers/detail", after=1)
    with pytest.raises(exceptions.HttpException) as caught:
        listed(connection)
    assert caught.value.status_code == 500
    assert fault.hits == 1
    assert cloud.requests.count("/servers/detail") == 2
    assert len(listed(connection)) == 25


def test_a_fault_can_last_until_it_is_healed(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(forbidden(), path="/os-hypervisors", count=None)
    for _ in range(2):
        with pytest.raises(exceptions.ForbiddenException):
            list(connection.compute.hypervisors())
    cloud.heal()
    assert len(list(connection.compute.hypervisors())) == 3


def test_a_connection_ends_within_a_page(cloud: FakeOpenStack, connection: Connection) -> None:
    fault = cloud.fail(Cut(), path="/servers/detail", after=2, count=None)
    with pytest.raises(UnknownConnectionError, match="Connection broken"):
        listed(connection)
    assert fault.hits


def test_429_has_retry_after(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(too_many_requests(7), path="/os-services", count=None)
    response = connection.compute.get("/os-services", raise_exc=False)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")


def test_tokens_expire_between_two_pages(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(ExpireTokens(), path="/servers/detail", after=1)
    assert len(listed(connection)) == 25
    assert cloud.requests.count("/auth/tokens", method="POST") == 2


def test_the_server_that_is_the_marker_is_archived_between_two_pages(
    cloud: FakeOpenStack, connection: Connection, inventory: Inventory
) -> None:
    cloud.fail(Do(lambda request: inventory.purge_server(str(request.last("marker")))), path="/servers/detail", after=1)
    with pytest.raises(exceptions.BadRequestException, match="marker"):
        listed(connection)
    cloud.fail(marker_not_found(), path="/servers/detail", after=1)
    with pytest.raises(exceptions.BadRequestException, match="marker"):
        listed(connection)


def test_an_answer_comes_late(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(Delay(0.2), path="/os-services")
    began = time.monotonic()
    list(connection.compute.services())
    assert time.monotonic() - began >= 0.2


def test_an_answer_is_no_json(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(Garbage(), path="/os-aggregates")
    response = connection.compute.get("/os-aggregates")
    assert (response.status_code, response.text[:6]) == (200, "<html>")


def test_a_fault_can_be_for_one_service_alone(cloud: FakeOpenStack, connection: Connection) -> None:
    cloud.fail(server_error(503), service="placement", count=None)
    assert len(listed(connection)) == 25
    with pytest.raises(exceptions.SDKException):
        list(connection.placement.resource_providers())


def test_requests_are_counted_by_path(cloud: FakeOpenStack, connection: Connection) -> None:
    listed(connection)
    assert cloud.requests.by_path()["compute", "GET", "/v2.1/servers/detail"] == 3
    assert cloud.requests.last()[-1].last("all_tenants") == "True"
    cloud.requests.clear()
    assert cloud.requests.count() == 0
