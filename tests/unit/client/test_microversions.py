# SPDX-License-Identifier: Apache-2.0
"""The client says which version it was written for, and agrees on another one with an API that lacks it."""

from __future__ import annotations

import argparse

import msgspec
import pytest
from keystoneauth1 import adapter, noauth, session

from tests.unit.client.conftest import served
from watcher_sync.client import osc, transport
from watcher_sync.client.errors import ProblemError
from watcher_sync.client.transport import NEWEST_VERSION, OLDEST_VERSION, Transport

VERSION = "HTTP_OPENSTACK_API_VERSION"


@pytest.fixture
def endpoint(answering):
    with served(answering) as url:
        yield url


def connected(endpoint, pinned=None):
    made = session.Session(auth=noauth.NoAuth(endpoint=endpoint))
    return Transport(adapter.Adapter(made, endpoint_override=endpoint, default_microversion=pinned))


def refused(answering, oldest, newest):
    document = {"title": "Not Acceptable", "detail": f"{oldest} to {newest}"}
    body = msgspec.json.encode({**document, "min_version": oldest, "max_version": newest})
    answering.will("406 Not Acceptable", body, Content_Type="application/problem+json")


def answered(answering):
    answering.will("200 OK", b"{}", Content_Type="application/json")


def versions(answering):
    return [environ[VERSION].removeprefix("watcher-sync ") for environ in answering.asked]


def test_each_request_says_the_version_of_the_client(answering, endpoint):
    answered(answering)
    connected(endpoint).request("GET", "/v1/sources")
    assert versions(answering) == [NEWEST_VERSION]


def test_with_an_older_api_both_have_its_version_from_then_on(answering, endpoint, monkeypatch):
    monkeypatch.setattr(transport, "NEWEST_VERSION", "1.12")
    refused(answering, "1.0", "1.9")
    for _ in range(3):
        answered(answering)
    client = connected(endpoint)
    client.request("POST", "/v1/things", body={"a": 1}, query={"b": 2})
    client.request("GET", "/v1/sources")
    client.for_thread().request("GET", "/v1/sources")
    assert versions(answering) == ["1.12", "1.9", "1.9", "1.9"]
    again = answering.asked[1]
    assert (again["REQUEST_METHOD"], again["QUERY_STRING"], again["CONTENT_LENGTH"]) == ("POST", "b=2", "7")


@pytest.mark.parametrize("bounds", [("1.3", "1.9"), ("2.0", "2.4"), ("1.0", "1.0"), ("x", "y"), (None, None)])
def test_without_a_common_version_the_error_says_what_the_api_has(answering, endpoint, bounds):
    refused(answering, *bounds)
    with pytest.raises(ProblemError, match=f"{bounds[0]} to {bounds[1]}") as caught:
        connected(endpoint).request("GET", "/v1/sources")
    assert (caught.value.status, len(answering.asked)) == (406, 1)


def test_two_apis_without_a_common_version_end_the_request(answering, endpoint, monkeypatch):
    monkeypatch.setattr(transport, "NEWEST_VERSION", "1.12")
    refused(answering, "1.0", "1.2")
    refused(answering, "1.5", "1.12")
    with pytest.raises(ProblemError, match=r"1\.5 to 1\.12"):
        connected(endpoint).request("GET", "/v1/sources")
    assert versions(answering) == ["1.12", "1.2"]


def test_a_chosen_version_is_no_matter_of_agreement(answering, endpoint):
    refused(answering, "1.0", "1.0")
    client = connected(endpoint, "1.7")
    with pytest.raises(ProblemError):
        client.request("GET", "/v1/sources")
    answered(answering)
    client.for_thread().request("GET", "/v1/sources")
    assert versions(answering) == ["1.7", "1.7"]


@pytest.mark.parametrize(
    ("given", "cloud", "chosen"),
    [
        ([], None, NEWEST_VERSION),
        (["1"], None, NEWEST_VERSION),
        (["1.9"], None, "1.9"),
        ([], "1.7", "1.7"),
        (["1.9"], "1.7", "1.9"),
    ],
)
def test_the_option_of_openstack_or_its_cloud_chooses_the_version(
    answering, endpoint, given, cloud, chosen, monkeypatch
):
    monkeypatch.delenv("OS_WATCHER_SYNC_API_VERSION", raising=False)
    parser = osc.build_option_parser(argparse.ArgumentParser())
    options = parser.parse_args([word for version in given for word in ("--os-watcher-sync-api-version", version)])

    class Manager:
        session, interface, region_name = session.Session(auth=noauth.NoAuth(endpoint=endpoint)), None, None

        @staticmethod
        def get_configuration():
            named = {name.removeprefix("os_"): value for name, value in vars(options).items()}
            return {**named, "watcher_sync_endpoint": endpoint, "watcher_sync_default_microversion": cloud}

    answering.will("200 OK", b'{"sources": [], "next_marker": null}', Content_Type="application/json")
    assert list(osc.make_client(Manager()).sources()) == []
    assert versions(answering) == [chosen]


def test_openstack_knows_the_versions_of_the_client():
    assert {osc.DEFAULT_API_VERSION, OLDEST_VERSION, NEWEST_VERSION} <= osc.API_VERSIONS.keys()
