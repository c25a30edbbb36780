# SPDX-License-Identifier: Apache-2.0
"""The documented gunicorn command serves ordinary requests while others send half a head."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.engine.driving import wait_until
from tests.functional.security.serving import documented_api
from watcher_sync.wsgi import gunicorn

HALF = b"GET /v1 HTTP/1.1\r\nHost: local"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    tmp_path = tmp_path_factory.mktemp("api")
    config = tmp_path / "watcher-sync.conf"
    config.write_text(f"[database]\nconnection = sqlite:///{tmp_path / 'ws.sqlite'}\n[api]\nauth_strategy = noauth\n")
    command = [Path(sys.executable).parent / "watcher-sync-manage", "--config-file", config, "db_sync"]
    subprocess.run(command, check=True, timeout=60, capture_output=True)
    with documented_api(config) as client:
        yield client


def connect(api: httpx.Client, data: bytes, stack: contextlib.ExitStack) -> socket.socket:
    """A connection that has sent some bytes."""
    made = stack.enter_context(socket.create_connection(("127.0.0.1", api.base_url.port or 0), timeout=30))
    made.sendall(data)
    return made


def is_closed(connection: socket.socket) -> bool:
    """Waits until the server closes the connection."""
    try:
        return connection.recv(1) == b""
    except ConnectionResetError:
        return True


def slowest(api: httpx.Client, count: int) -> float:
    """The longest time of ordinary requests, each on a connection of its own."""
    seconds = []
    for _ in range(count):
        began = time.monotonic()
        assert httpx.get(f"{api.base_url}/v1", timeout=10).status_code == 200
        seconds.append(time.monotonic() - began)
    return max(seconds)


@pytest.mark.parametrize("slow", [20, 2 * gunicorn.workers * gunicorn.threads])
def test_half_sent_heads_do_not_delay_ordinary_requests(api: httpx.Client, slow: int) -> None:
    slowest(api, 5)
    with contextlib.ExitStack() as stack:
        connections = [connect(api, HALF, stack) for _ in range(slow)]
        for connection in connections:
            connection.sendall(b"h")  # each trickles on
        assert slowest(api, 20) < 1
        if slow > 20:
            # The server closes them when their time is over.
            began = time.monotonic()
            assert all(is_closed(connection) for connection in connections)
            assert time.monotonic() - began < gunicorn.HEAD_SECONDS + 5


def test_a_head_in_pieces_and_a_second_request_on_its_connection_are_answered(api: httpx.Client) -> None:
    with contextlib.ExitStack() as stack:
        connection = connect(api, HALF, stack)
        connection.sendall(b"host\r\n\r\nGET /v1 HTTP/1.1\r\nHost: localhost\r\n")
        received = b""

        def answers(count: int) -> bool:
            nonlocal received
            received += connection.recv(65536)
            return received.count(b"HTTP/1.1 200") == count

        wait_until(lambda: answers(1), 10, "the first answer")
        connection.sendall(b"\r\n")
        wait_until(lambda: answers(2), 10, "the second answer")


def test_a_head_that_is_too_large_is_refused(api: httpx.Client) -> None:
    with contextlib.ExitStack() as stack:
        connection = connect(api, HALF + b"h" * gunicorn.MAX_HEAD_BYTES, stack)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(65536).startswith(b"HTTP/1.1 431")
    assert slowest(api, 1) < 5
