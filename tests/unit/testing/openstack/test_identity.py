# SPDX-License-Identifier: Apache-2.0
"""Credentials, scopes, tokens and the catalog."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import openstack
import pytest
from keystoneauth1 import exceptions as auth_exceptions
from keystoneauth1 import loading, session
from openstack import exceptions
from openstack.config import loader
from openstack.connection import Connection

from watcher_sync.testing.openstack import FakeOpenStack, Inventory


def test_a_password_and_an_application_credential_are_accepted(connect: Callable[..., Connection]) -> None:
    for credential in ("password", "application_credential"):
        connection = connect(credential=credential)
        assert len(list(connection.compute.services())) == 3


def test_the_options_are_those_of_keystoneauth(cloud: FakeOpenStack) -> None:
    options = cloud.options()
    plugin = loading.get_plugin_loader(options.pop("auth_type")).load_from_options(**options)
    with session.Session(plugin).session as transport:
        client = session.Session(plugin, session=transport)
        assert client.get_endpoint(service_type="compute", interface="internal") == f"{cloud.compute.url}/v2.1"
        assert client.get_endpoint(service_type="placement", region_name="RegionOne") == cloud.placement.url
        with pytest.raises(auth_exceptions.EndpointNotFound):
            client.get_endpoint(service_type="placement", region_name="elsewhere")


def test_clouds_yaml_is_accepted(cloud: FakeOpenStack, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loader, "CONFIG_FILES", [cloud.clouds_yaml(tmp_path / "clouds.yaml", name="edge")])
    with openstack.connect(cloud="edge") as connection:
        assert len(list(connection.compute.services())) == 3


def test_a_wrong_password_is_refused(cloud: FakeOpenStack) -> None:
    options = cloud.connect_options()
    options["auth"]["password"] = "wrong"
    with openstack.connect(**options) as connection, pytest.raises(exceptions.SDKException, match="401"):
        connection.authorize()


def test_a_project_without_a_role_is_refused(cloud: FakeOpenStack) -> None:
    options = cloud.connect_options("demo")
    options["auth"]["project_name"] = "admin"
    with openstack.connect(**options) as connection, pytest.raises(exceptions.SDKException, match="401"):
        connection.authorize()


def test_a_system_token_is_issued_and_nova_refuses_it(connect: Callable[..., Connection], inventory: Inventory) -> None:
    connection = connect(scope="system")
    assert connection.authorize()
    for listing in (connection.compute.services, connection.compute.servers, connection.placement.resource_providers):
        with pytest.raises(exceptions.ForbiddenException):
            list(listing())
    with (
        FakeOpenStack(inventory, enforce_scope=False) as cloud,
        openstack.connect(**cloud.connect_options(scope="system")) as other,
    ):
        assert len(list(other.compute.services())) == 3


def test_an_expired_token_is_refused_and_the_client_gets_a_new_one(
    cloud: FakeOpenStack, connection: Connection
) -> None:
    list(connection.compute.services())
    cloud.expire_tokens()
    assert len(list(connection.compute.services())) == 3
    assert cloud.requests.count("/auth/tokens", method="POST") == 2


def test_a_token_expires_after_its_lifetime(inventory: Inventory) -> None:
    with (
        FakeOpenStack(inventory, token_lifetime=0.0) as cloud,
        openstack.connect(**cloud.connect_options()) as connection,
    ):
        assert connection.compute.get("/os-services", raise_exc=False).status_code == 401


def test_requests_without_a_token_are_refused(cloud: FakeOpenStack, connection: Connection) -> None:
    for url in (f"{cloud.compute.url}/v2.1/servers", f"{cloud.placement.url}/resource_providers"):
        response = connection.session.get(url, authenticated=False, raise_exc=False)
        assert response.status_code == 401
        assert response.json()["error"]["message"] == "The request you have made requires authentication."


def test_projects_are_listed_with_those_of_the_servers(connection: Connection, inventory: Inventory) -> None:
    inventory.projects["5d0a"] = "vnf"
    inventory.add_server("vm", project_id="77aa")
    assert {(one.id, one.name) for one in connection.identity.projects()} >= {("5d0a", "vnf"), ("77aa", "77aa")}
