# SPDX-License-Identifier: Apache-2.0
"""HEAD is what GET is without the body: the same status and headers for the same callers (RFC 9110, 9.3.2)."""

from __future__ import annotations

import pytest

from tests.unit.api.conftest import Client, conf, store  # noqa: F401 - fixtures
from tests.unit.security.test_operations import TABLE, api, requested  # noqa: F401 - a fixture
from watcher_sync.assembly.api import make_application

OF_ONE_REQUEST = {"x-openstack-request-id", "date"}
READS = [operation for operation in TABLE if operation.startswith("GET ")]


def sent(result):
    """The status and the headers of an answer."""
    headers = {name.lower(): value for name, value in result.headers.items()}
    return result.status_code, {name: value for name, value in headers.items() if name not in OF_ONE_REQUEST}


@pytest.mark.parametrize("caller", ["nobody", "member", "stranger"])
def test_head_has_the_status_and_the_headers_of_get_and_no_body(api, caller):  # noqa: F811
    for operation in READS:
        _, path, more = requested(api, operation, caller)
        of_get, of_head = api(caller, "GET", path, **more), api(caller, "HEAD", path, **more)
        assert (sent(of_head), of_head.content) == (sent(of_get), b""), operation


def test_allow_has_head_wherever_it_has_get(api):  # noqa: F811
    for operation in READS:
        _, path, _ = requested(api, operation, "admin")
        allowed = api("admin", "PATCH", path).headers["Allow"].split(", ")
        assert {"GET", "HEAD"} <= set(allowed), operation
    assert api("admin", "HEAD", "/v1/login").status_code == 405


def test_a_head_of_a_stream_ends_at_once_and_returns_its_slot(conf, store):  # noqa: F811
    conf.set_override("max_streams", 1, group="api")
    client = Client(make_application(conf, store))
    stream = {"Accept": "text/event-stream"}
    for _ in range(3):
        result = client.simulate_head("/v1/events", headers=stream)
        assert (result.status_code, result.content) == (200, b"")
        assert result.headers["content-type"] == "text/event-stream"
        assert "content-length" not in result.headers


def test_a_head_of_a_long_poll_does_not_wait(conf, store):  # noqa: F811
    conf.set_override("max_streams", 1, group="api")
    conf.set_override("stream_rate", 0.001, group="api")
    conf.set_override("stream_burst", 1, group="api")
    client = Client(make_application(conf, store))
    # Only a request that waits takes a token.
    assert [client.simulate_head("/v1/events?since=0&wait=60").status_code for _ in range(3)] == [200, 200, 200]


def test_a_stream_by_head_counts_as_a_stream(conf, store):  # noqa: F811
    conf.set_override("stream_rate", 0.001, group="api")
    conf.set_override("stream_burst", 1, group="api")
    client = Client(make_application(conf, store))
    stream = {"Accept": "text/event-stream"}
    assert [client.simulate_head("/v1/events", headers=stream).status_code for _ in range(2)] == [200, 429]
