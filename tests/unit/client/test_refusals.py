# SPDX-License-Identifier: Apache-2.0
"""Whatever goes wrong is one of the client's errors, and a sentence."""

from __future__ import annotations

import socket
import threading

import pytest

from watcher_sync.client import (
    BadRequest,
    ClientError,
    Conflict,
    Forbidden,
    Gone,
    NotConfigured,
    NotFound,
    PreconditionFailed,
    ProblemError,
    ServerFailed,
    Unauthorized,
    Unavailable,
    UnexpectedResponse,
    Unprocessable,
    Unreachable,
    connect,
)

VM = {"service_type": "vm", "instance_name": "a"}


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, BadRequest),
        (401, Unauthorized),
        (403, Forbidden),
        (404, NotFound),
        (405, ProblemError),
        (406, ProblemError),
        (409, Conflict),
        (410, Gone),
        (412, PreconditionFailed),
        (413, ProblemError),
        (415, ProblemError),
        (422, Unprocessable),
        (500, ServerFailed),
        (502, Unavailable),
        (503, Unavailable),
        (504, Unavailable),
    ],
)
def test_a_problem_is_the_error_of_its_status(answering, answered_client, status, error):
    answering.will(
        f"{status} X",
        b'{"type":"about:blank","title":"T","status":%d,"detail":"It is so.","holder":"h"}' % status,
        Content_Type="application/problem+json",
        Retry_After="7",
    )
    with pytest.raises(ClientError) as caught:
        answered_client.sources()
    assert type(caught.value) is error
    assert (caught.value.status, str(caught.value), caught.value.retry_after) == (status, "It is so.", 7.0)
    assert caught.value.document["holder"] == "h"


DEEP = b'{"x": ' + 200_000 * b"["


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b"", b"[]", b'"x"', b'{"errors": 3}', b"\xff", DEEP])
def test_a_refusal_that_is_no_problem_document_is_reported_by_its_status(answering, answered_client, body):
    answering.will("502 Bad Gateway", body)
    with pytest.raises(Unavailable, match="502 Bad Gateway from http://127"):
        answered_client.sources()


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"sources": [{}]}', b'{"sources": 3}', b"{}", b"\xff", DEEP])
def test_an_answer_of_something_else_is_a_bad_answer(answering, answered_client, body):
    answering.will("200 OK", body)
    with pytest.raises(UnexpectedResponse):
        answered_client.sources()


def test_what_is_no_watcher_sync_is_a_bad_answer(answering, answered_client):
    answering.will("200 OK", b'{"version": {"id": "v3"}}')
    with pytest.raises(UnexpectedResponse, match="not this API"):
        answered_client.kinds()


def test_members_of_a_later_api_are_ignored(answering, answered_client):
    answering.will(
        "200 OK",
        b'{"more": 1, "sources": [{"source": "n", "state": "connected", "fresh": true, "new": {},'
        b' "updated_at": "2026-01-01T00:00:00Z"}]}',
    )
    assert [source.source for source in answered_client.sources()] == ["n"]


def test_a_closed_port_is_unreachable_and_says_why_in_one_line():
    with socket.socket() as taken:  # bound and not listening: a connection is refused
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(Unreachable) as caught:
            connect(f"http://127.0.0.1:{port}").sources()
    assert str(caught.value) == f"http://127.0.0.1:{port}: Connection refused"


def test_a_server_that_does_not_answer_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = connect(f"http://127.0.0.1:{server.getsockname()[1]}", timeout=0.2)
        with pytest.raises(Unreachable, match="no answer in time"):
            client.sources()


def test_the_wrong_field_of_a_request_is_named(client):
    with pytest.raises(BadRequest) as caught:
        list(client.entities("instance", filters={"colour": "red"}))
    (error,) = caught.value.errors
    assert (error.where, error.pointer) == ("query", "/colour")


@pytest.mark.slow
def test_the_second_of_two_writers_is_refused(client):
    made = client.create_service_type_instance({"id": "a", **VM})
    with pytest.raises(Conflict, match="exists already"):
        client.create_service_type_instance({"id": "a", **VM})
    assert client.stored("service_type_instance", "a") == made
    replaced = client.replace_service_type_instance("a", {**VM, "instance_name": "b"}, if_match=made.etag)
    assert replaced.entity["instance_name"] == "b"
    with pytest.raises(PreconditionFailed):
        client.replace_service_type_instance("a", VM, if_match=made.etag)
    with pytest.raises(PreconditionFailed):
        client.delete_service_type_instance("a", if_match=made.etag)
    client.delete_service_type_instance("a", if_match=replaced.etag)
    with pytest.raises(NotFound):
        client.entity("service_type_instance", "a")
    with pytest.raises(Conflict, match="deleted"):
        client.create_service_type_instance({"id": "a", **VM})


@pytest.mark.parametrize("endpoint", ["127.0.0.1:8790", "localhost", "http://", "http:///v1", "ftp://host"])
def test_an_endpoint_that_is_no_address_is_refused_with_its_form(endpoint):
    with pytest.raises(NotConfigured, match=f"must be like http://HOST:PORT, not '{endpoint}'"):
        connect(endpoint).sources()


def test_a_server_of_another_protocol_is_named_without_python():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        closing = threading.Thread(target=lambda: server.accept()[0].close(), daemon=True)
        closing.start()
        with pytest.raises(Unreachable) as caught:
            connect(f"http://127.0.0.1:{port}").sources()
    assert str(caught.value) in (
        f"http://127.0.0.1:{port}: no answer of HTTP",
        f"http://127.0.0.1:{port}: Connection reset by peer",
    )


@pytest.mark.parametrize("body", [b"<html>", b'{"error": {"code": 404, "title": "Not Found"}}'])
def test_another_server_of_http_is_said_to_be_one(answering, answered_client, body):
    answering.will("404 Not Found", body)
    with pytest.raises(
        UnexpectedResponse, match=r"no watcher_sync API at http://127.*: 404 Not Found from .*no answer"
    ):
        answered_client.kind("instance")
