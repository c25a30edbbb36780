# SPDX-License-Identifier: Apache-2.0
"""The server and the credentials that the options and the environment choose."""

from __future__ import annotations

import json

import pytest
from keystoneauth1 import adapter, session, token_endpoint
from keystoneauth1.noauth import NoAuth
from keystonemiddleware.fixture import AuthTokenFixture
from openstack.config import loader

from tests.unit.client.conftest import served
from watcher_sync.assembly.api import make_application
from watcher_sync.client import Client, Forbidden, NotConfigured, Unauthorized, connect
from watcher_sync.client.shell import run


@pytest.fixture
def with_keystone(conf, store):
    conf.set_override("auth_strategy", "keystone", group="api")
    with AuthTokenFixture() as tokens, served(make_application(conf, store)) as url:
        yield url, tokens


def with_token(url, token):
    return Client(adapter.Adapter(session.Session(auth=token_endpoint.Token(url, token))))


def test_the_token_of_the_session_is_sent(with_keystone, truth):
    url, tokens = with_keystone
    tokens.add_token_data(token_id="t" * 32, user_id="u" * 32, role_list=["admin"], project_id="p" * 32)
    assert len(list(with_token(url, "t" * 32).entities("compute_node"))) == len(truth["compute_node"])


def test_without_a_valid_token_it_is_unauthorized(with_keystone):
    url, _ = with_keystone
    for client in (connect(url), with_token(url, "made-up")):
        with pytest.raises(Unauthorized, match="valid token"):
            client.sources()


def test_what_the_policy_does_not_allow_is_forbidden(with_keystone):
    url, tokens = with_keystone
    tokens.add_token_data(token_id="t" * 32, user_id="u" * 32, role_list=["reader"], project_id="p" * 32)
    with pytest.raises(Forbidden, match="quarantine:list"):
        list(with_token(url, "t" * 32).quarantine())


def test_a_catalog_without_the_service_is_reported():
    client = Client(adapter.Adapter(session.Session(auth=NoAuth()), service_type="watcher-sync"))
    with pytest.raises(NotConfigured, match="type watcher-sync: register the API in Keystone"):
        client.sources()


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ({"region_name": "regionOne"}, "type watcher-sync with the region regionOne: register"),
        ({"interface": "Public"}, "type watcher-sync with the interface Public: register"),
        ({"region_name": "r", "interface": "i"}, "type watcher-sync with the region r with the interface i: register"),
    ],
)
def test_a_catalog_without_the_endpoint_is_reported_with_what_was_asked_for(options, asked):
    client = Client(adapter.Adapter(session.Session(auth=NoAuth()), service_type="watcher-sync", **options))
    with pytest.raises(NotConfigured, match=asked):
        client.sources()


AUTH = {"auth_url": "http://127.0.0.1:9/v3", "username": "reader", "password": "secret", "project_name": "lab"}


@pytest.fixture
def clouds(tmp_path, monkeypatch):
    """Writes the clouds of clouds.yaml."""
    file = tmp_path / "clouds.yaml"
    monkeypatch.setattr(loader, "CONFIG_FILES", [str(file)])
    return lambda **clouds: file.write_text(json.dumps({"clouds": clouds}))


def test_a_type_on_the_command_line_has_only_its_own_options(url, clouds, monkeypatch, capsys):
    token = ["--os-auth-type", "admin_token", "--os-endpoint", url, "--os-token", "t"]
    ask = ["entity", "list", "compute_node", "-f", "value", "-c", "id"]
    assert run([*token, *ask]) == 0
    wanted = capsys.readouterr().out
    clouds(edge={"auth": AUTH})  # the only one, so openstacksdk takes its options
    assert (run([*token, *ask]), capsys.readouterr().out) == (0, wanted)
    assert (run(["--os-cloud", "edge", *token, *ask]), capsys.readouterr().out) == (0, wanted)
    clouds()
    for name, value in AUTH.items():
        monkeypatch.setenv(f"OS_{name.upper()}", value)
    assert (run([*token, *ask]), capsys.readouterr().out) == (0, wanted)


def test_an_option_of_a_cloud_that_its_type_does_not_know_is_named_in_one_line(clouds, capsys):
    clouds(edge={"auth": {**AUTH, "usernme": "reader"}})
    assert run(["--os-cloud", "edge", "source", "list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: the authentication has an option that its type does not know: ")
    assert "usernme" in line


@pytest.mark.parametrize("option", ["--os-cacert", "--os-cert"])
def test_a_file_of_tls_that_is_missing_is_named_in_one_line(option, clouds, capsys):
    clouds()
    address = "https://127.0.0.1:9"
    assert run(["--os-auth-type", "none", "--os-endpoint", address, option, "/nowhere.pem", "source", "list"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ")
    assert "/nowhere.pem" in line
