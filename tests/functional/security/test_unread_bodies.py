# SPDX-License-Identifier: Apache-2.0
"""Bodies that are large, malformed, not read or not sent: under gunicorn as documented, and under watcher-sync-api."""

from __future__ import annotations

import http.client
import json
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest

from tests.functional.executables import BIN
from tests.functional.security.serving import documented_api, running
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services.servers import free_port
from tests.waiting import deadline, seconds_until, wait_until
from watcher_sync.api.http.request_input import DISCARD_SECONDS, MAX_DISCARDED_BYTES
from watcher_sync.conf.api import OPTS
from watcher_sync.testing.kinds import builtin_kinds

LIMIT = next(option.default for option in OPTS if option.name == "max_body_bytes")
TOPICS = "/apis/management/v1alpha1/watchtopics"
SERVERS = ["gunicorn", "watcher-sync-api"]


class Api:
    """A server, and connections to it."""

    def __init__(self, client: httpx.Client, log: Path, stack: ExitStack) -> None:
        self.port = client.base_url.port or 0
        self._log = log
        self._stack = stack

    def connect(self) -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=deadline(60))
        return self._stack.enter_context(made)

    def log_lines(self) -> list[str]:
        return self._log.read_text().splitlines()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Api]]:
    """Starts a server without authentication, but with JWTs on the paths of agents."""
    with ExitStack() as stack:

        def started(server: str, *options: str) -> Api:
            config, key = tmp_path / "watcher-sync.conf", tmp_path / "key"
            key.write_text("x" * 32)
            url, port = f"sqlite:///{tmp_path / 'ws.sqlite'}", free_port()
            config.write_text(
                f"[database]\nconnection = {url}\n[api]\nauth_strategy = noauth\nport = {port}\n"
                f"[outlet_watch]\nauth_strategy = jwt\njwt_key_files = {key}\njwt_algorithms = HS256\n"
                "jwt_issuer = issuer\njwt_audience = audience\n"
            )
            migrate(opened(url, builtin_kinds())).database.dispose()
            if server == "gunicorn":
                client = stack.enter_context(documented_api(config, *options))
            else:
                client = stack.enter_context(httpx.Client(base_url=f"http://127.0.0.1:{port}"))
                command: list[str | Path] = [BIN / "watcher-sync-api", "--config-file", config]
                stack.enter_context(running(command, tmp_path / "api.log", client))
            return Api(client, tmp_path / "api.log", stack)

        yield started


def head(path: str, *fields: str, length: int | None = None, method: str = "POST") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost", "Authorization: Bearer bad", *fields]
    if length is not None:
        lines.append(f"Content-Length: {length}")
    return "\r\n".join([*lines, "", ""]).encode()


def answer_of(connection: socket.socket, method: str = "POST") -> tuple[http.client.HTTPResponse, bytes]:
    """The next answer on a connection."""
    answer = http.client.HTTPResponse(connection, method=method)
    answer.begin()
    return answer, answer.read()


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(
    ("path", "size", "status"),
    [(TOPICS, 1_000_000, 401), (TOPICS, LIMIT + 1_000_000, 401), ("/v1/events", LIMIT + 1_000_000, 413)],
    ids=["no token", "no token, and beyond the limit", "beyond the limit"],
)
def test_a_refusal_before_a_large_body_is_received_and_the_connection_does_what_it_says(
    serve: Callable[[str], Api], server: str, path: str, size: int, status: int
) -> None:
    api = serve(server)
    connection = api.connect()
    for _ in range(3):
        connection.sendall(head(path, "Content-Type: application/cloudevents+json", length=size) + b"x" * size)
        answer, body = answer_of(connection)
        assert (answer.status, json.loads(body)["status"]) == (status, status)
        if answer.will_close:
            assert connection.recv(1) == b"", "a clean end"
            connection = api.connect()
    assert answer.will_close is (server != "gunicorn")


@pytest.mark.parametrize("server", SERVERS)
def test_a_body_beyond_what_is_discarded_ends_its_connection_and_the_answer_says_so(
    serve: Callable[[str], Api], server: str
) -> None:
    api = serve(server)
    connection = api.connect()
    connection.sendall(head(TOPICS, length=2 * MAX_DISCARDED_BYTES) + b"x" * MAX_DISCARDED_BYTES)
    answer, _ = answer_of(connection)
    assert (answer.status, answer.will_close) == (401, True)
    assert connection.recv(1) == b"", "a clean end"
    connection = api.connect()
    connection.sendall(head(TOPICS, length=1) + b"x")
    assert answer_of(connection)[0].status == 401


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("sent", [b"", b"x"], ids=["silent", "drip"])
def test_a_body_that_does_not_come_delays_its_answer_for_seconds_only(
    serve: Callable[[str], Api], server: str, sent: bytes
) -> None:
    api = serve(server)
    connection = api.connect()
    connection.sendall(head("/none", length=1_000_000))

    def is_answered() -> bool:
        with suppress(ConnectionError):
            connection.sendall(sent)
        return bool(select.select([connection], [], [], 0)[0])

    assert seconds_until(is_answered, what="the answer") < deadline(10)
    answer, _ = answer_of(connection)
    assert answer.status == 404
    with suppress(ConnectionError):  # bytes that the server did not read make its end a reset
        assert connection.recv(1) == b"", "the connection ends"
    assert not any("Traceback" in line for line in api.log_lines())


def test_bodies_that_do_not_come_occupy_all_threads_for_seconds_only(serve: Callable[..., Api]) -> None:
    api = serve("gunicorn", "--workers", "1", "--threads", "4")
    for _ in range(8):
        api.connect().sendall(head("/none", length=1_000_000))

    def is_healthy() -> bool:
        return httpx.get(f"http://127.0.0.1:{api.port}/healthcheck", timeout=deadline(60)).status_code == 200

    assert seconds_until(is_healthy, what="an answer") < deadline(10)


def test_a_client_that_waits_for_100_is_answered_at_once_and_need_not_send_its_body(
    serve: Callable[[str], Api],
) -> None:
    api = serve("watcher-sync-api")
    connection = api.connect()
    connection.sendall(head("/none", "Expect: 100-continue", length=1_000_000))
    wait_until(
        lambda: select.select([connection], [], [], 0)[0], DISCARD_SECONDS / 2, what="an answer without a discard"
    )
    answer, _ = answer_of(connection)
    assert (answer.status, answer.will_close) == (404, True)


BAD_CHUNKS = {
    "size": b"zz\r\nx\r\n0\r\n\r\n",
    "empty size": b"\r\nx\r\n0\r\n\r\n",
    "terminator": b"1\r\nxy\r\n0\r\n\r\n",
    "extension": b"1;=\r\nx\r\n0\r\n\r\n",
    "trailer": b"1\r\nx\r\n0\r\nbad\r\n\r\n",
    "line": b"1" * 10_000,
}


def test_a_malformed_chunk_is_a_bad_request_without_a_traceback(serve: Callable[[str], Api]) -> None:
    api = serve("gunicorn")
    for name, body in BAD_CHUNKS.items():
        before = len(api.log_lines())
        connection = api.connect()
        connection.sendall(
            head("/v1/events", "Transfer-Encoding: chunked", "Content-Type: application/cloudevents+json") + body
        )
        answer, document = answer_of(connection)
        assert (answer.status, answer.will_close) == (400, True), name
        assert json.loads(document)["status"] == 400, name

        def lines(before: int = before) -> list[str]:
            return [line for line in api.log_lines()[before:] if "POST /v1/events" in line and "status: 400" in line]

        wait_until(lambda: len(lines()) == 2, what="the lines of access and audit")
        written = api.log_lines()[before:]
        assert not any("Traceback" in line or " ERROR " in line for line in written), (name, written)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize(("path", "status"), [("/v1/events", 400), (TOPICS, 401), ("/none", 404)])
def test_a_length_of_5000_digits_is_a_bad_request_without_a_traceback(
    serve: Callable[[str], Api], server: str, path: str, status: int
) -> None:
    """gunicorn refuses it before the application, which does so where it reads a body."""
    api = serve(server)
    connection = api.connect()
    fields = ("Content-Type: application/cloudevents+json", f"Content-Length: {'9' * 5000}")
    connection.sendall(head(path, *fields) + b"{}")
    answer, _ = answer_of(connection)
    assert answer.status == (400 if server == "gunicorn" else status)
    assert not any("Traceback" in line or " ERROR " in line for line in api.log_lines())


def test_a_server_that_decodes_no_chunks_says_so_at_once(serve: Callable[[str], Api]) -> None:
    api = serve("watcher-sync-api")
    connection = api.connect()
    fields = ("Transfer-Encoding: chunked", "Content-Type: application/cloudevents+json")
    connection.sendall(head("/v1/events", *fields) + b"2\r\n{}\r\n0\r\n\r\n")
    answer, document = answer_of(connection)
    assert answer.status == 400
    assert "Content-Length" in json.loads(document)["detail"]


@pytest.mark.parametrize("field", ["SCRIPT_NAME: /other", "PATH_INFO: /v1/quarantine"])
def test_a_header_cannot_move_the_path_of_a_request(serve: Callable[[str], Api], field: str) -> None:
    api = serve("gunicorn")
    connection = api.connect()
    connection.sendall(f"GET /v1 HTTP/1.1\r\nHost: localhost\r\n{field}\r\n\r\n".encode())
    answer = http.client.HTTPResponse(connection)
    answer.begin()
    assert answer.status == 200
    assert b"quarantine" not in answer.read() or "PATH" not in field
    assert not any("Traceback" in line or "WARNING" in line for line in api.log_lines())


def test_a_client_that_goes_in_the_middle_of_its_body_leaves_no_traceback(serve: Callable[[str], Api]) -> None:
    api = serve("gunicorn")
    for fields, body in ((("Transfer-Encoding: chunked",), b"5\r\nx"), (("Content-Length: 9",), b"x")):
        connection = api.connect()
        connection.sendall(head("/v1/events", "Content-Type: application/cloudevents+json", *fields) + body)
        connection.shutdown(socket.SHUT_WR)
        with suppress(ConnectionError, http.client.HTTPException):
            assert answer_of(connection)[0].status == 400
    assert not any("Traceback" in line for line in api.log_lines())


@pytest.mark.parametrize("server", SERVERS)
def test_a_connection_has_the_next_answer_after_that_to_a_head(serve: Callable[[str], Api], server: str) -> None:
    api = serve(server)
    connection = api.connect()
    stream = "Accept: text/event-stream"
    for path, status, *fields in (("/v1", 200), ("/v1/events", 200, stream), ("/none", 404), (TOPICS, 401)):
        seen = {}
        for method in ("HEAD",) if fields else ("HEAD", "GET"):
            connection.sendall(head(path, *fields, method=method))
            answer, body = answer_of(connection, method)
            assert (answer.status, bool(body)) == (status, method == "GET"), path
            seen[method] = answer.headers["Content-Length"]
            if answer.will_close:
                assert connection.recv(1) == b"", "a clean end"
                connection = api.connect()
        assert fields or seen["HEAD"] == seen["GET"] != "0", path
    assert answer.will_close is (server != "gunicorn")
