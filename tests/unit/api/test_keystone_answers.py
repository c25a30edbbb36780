# SPDX-License-Identifier: Apache-2.0
"""What Keystone, or a proxy in front of it, answers to the check of a token."""

from __future__ import annotations

import json

import pytest
from oslo_service import backend

pytestmark = pytest.mark.slow

backend.init_backend(backend.BackendType.THREADING)

from tests.unit.api.conftest import Client  # noqa: E402
from watcher_sync.assembly.api import make_application  # noqa: E402
from watcher_sync.conf import keystone  # noqa: E402
from watcher_sync.testing.openstack import FakeOpenStack, Garbage, Rewrite  # noqa: E402
from watcher_sync.testing.openstack.identity import PASSWORD  # noqa: E402

NOT_KEYSTONE = b"<html>default backend - 404</html>"


@pytest.fixture
def cloud():
    with FakeOpenStack() as cloud:
        yield cloud


@pytest.fixture
def client(conf, store, cloud):
    conf.set_override("auth_strategy", "keystone", group="api")
    keystone.register_opts(conf)
    for name, value in cloud.options("admin").items():
        conf.set_override(name, value, group=keystone.GROUP)
    return Client(make_application(conf, store))


@pytest.fixture
def token(client):
    body = {"user": "demo", "password": PASSWORD, "project": "demo"}
    return {"X-Auth-Token": client.simulate_post("/v1/login", json=body).json["token"]}


@pytest.mark.parametrize(
    "answer",
    [
        Garbage(),
        Garbage(b""),
        Garbage(b'{"status": "maintenance"}'),
        Garbage(b'{"token": []}'),
        Garbage(b'{"token": {}}'),
        Garbage(NOT_KEYSTONE, 404),
        Garbage(b'{"message": "no route matched"}', 404),
    ],
)
def test_an_answer_that_is_not_of_keystone_is_503_and_says_nothing_about_the_token(
    client, cloud, token, problem, answer
):
    cloud.fail(answer, path="/auth/tokens", method="GET")
    refused = client.simulate_get("/v1/instances", headers=token)
    problem(refused, 503)
    assert int(refused.headers["Retry-After"]) > 0
    assert client.simulate_get("/v1/instances", headers=token).status_code == 200


def test_a_token_that_keystone_does_not_know_is_401(client, token, problem):
    problem(client.simulate_get("/v1/instances", headers={"X-Auth-Token": "made-up"}), 401)


def test_an_application_credential_with_access_rules_may_do_what_they_allow(client, cloud, token, problem):
    rules = [{"id": "1", "service": "watcher-sync", "method": "GET", "path": "/v1/instances"}]
    endpoints = {"type": "watcher-sync", "name": "watcher-sync", "id": "1", "endpoints": []}

    def restricted(body: bytes) -> bytes:
        document = json.loads(body)
        document["token"]["catalog"].append(endpoints)
        document["token"]["application_credential"] = {"id": "1", "restricted": True, "access_rules": rules}
        return json.dumps(document).encode()

    cloud.fail(Rewrite(restricted), path="/auth/tokens", method="GET")
    assert client.simulate_get("/v1/instances", headers=token).status_code == 200
    problem(client.simulate_get("/v1/pods", headers=token), 401)
