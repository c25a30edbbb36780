# SPDX-License-Identifier: Apache-2.0
"""The server and the credentials that the options and the environment choose."""

from __future__ import annotations

import pytest
from keystoneauth1 import adapter, session, token_endpoint
from keystoneauth1.noauth import NoAuth
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.client.conftest import served
from watcher_sync.assembly.api import make_application
from watcher_sync.client import Client, Forbidden, NotConfigured, Unauthorized, connect


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


def test_a_catalog_without_the_service_is_told():
    client = Client(adapter.Adapter(session.Session(auth=NoAuth()), service_type="watcher-sync"))
    with pytest.raises(NotConfigured, match="type watcher-sync: register the API in Keystone"):
        client.sources()
