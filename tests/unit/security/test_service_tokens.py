# SPDX-License-Identifier: Apache-2.0
"""The scope of a service token gives the caller nothing, and takes nothing from it."""

from __future__ import annotations

import pytest
from keystonemiddleware.fixture import AuthTokenFixture

from tests.unit.api.conftest import conf, store  # noqa: F401 - fixtures
from tests.unit.security.callers import Api, token

HOSTS = "/v1/compute_nodes"
PATHS = (HOSTS, "/v1/instances?all_projects=true", "/v1/sources")
SCOPES = {"system": {"system": {"all": True}}, "project": {"project_id": "5" * 32}, "domain": {"domain_id": "d" * 32}}


@pytest.fixture
def status(conf, store):  # noqa: F811
    """Sends a GET with the token of a caller, and the token of a service with a scope; returns the status."""
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()

        def get(caller, path, scope):
            service = token(fixture, ["service"], **SCOPES[scope])["X-Auth-Token"]
            path, _, query = path.partition("?")
            return api(caller, "GET", path, query_string=query, headers={"X-Service-Token": service}).status_code

        yield get


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("path", PATHS)
def test_a_service_token_makes_no_reader_of_a_project_a_reader_of_the_system(status, path, scope):
    assert status("reader", path, scope) == 403
    assert status("stranger", path, scope) == 403
    assert status("nobody", path, scope) == 401


@pytest.mark.slow
@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("path", PATHS)
def test_a_reader_of_the_system_stays_one_with_a_service_token(status, path, scope):
    assert status("system_reader", path, scope) == 200


def test_a_header_of_the_caller_gives_no_scope(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        forged = {"OpenStack-System-Scope": "all"}
        assert api("reader", "GET", HOSTS, headers=forged).status_code == 403
        assert api("nobody", "GET", HOSTS, headers=forged).status_code == 401
