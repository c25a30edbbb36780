# SPDX-License-Identifier: Apache-2.0
"""The documented gunicorn command serves ordinary requests while others send slowly."""

from __future__ import annotations

import contextlib
import math
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.functional.security.serving import BIN, documented_api
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.wsgi import gunicorn

UNREAD = b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nx"
ATTEMPTS = 4
HALF = b"GET /v1 HTTP/1.1\r\nHost: local"


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    tmp_path = tmp_path_factory.mktemp("api")
    config = tmp_path / "watcher-sync.conf"
    url = f"sqlite:///{tmp_path / 'ws.sqlite'}"
    config.write_text(f"[database]\nconnection = {url}\n[api]\nauth_strategy = noauth\n")
    migrate(opened(url, builtin_kinds())).database.dispose()
    with documented_api(config) as client:
        yield client


def connect(api: httpx.Client, data: bytes, stack: contextlib.ExitStack) -> socket.socket:
    """A connection that has sent some bytes."""
    made = stack.enter_context(socket.create_connection(("127.0.0.1", api.base_url.port or 0), timeout=deadline(60)))
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
        assert httpx.get(f"{api.base_url}/v1", timeout=deadline(60)).status_code == 200
        seconds.append(time.monotonic() - began)
    return max(seconds)


def is_quick(attempt: Callable[[contextlib.ExitStack], float], seconds: float = gunicorn.HEAD_SECONDS / 2) -> bool:
    """Whether one of some attempts takes less time. A pause of the machine delays one attempt, slow clients delay all.

    :param attempt: opens slow connections, which are closed after it, and measures ordinary requests.
    """
    for _ in range(ATTEMPTS):
        with contextlib.ExitStack() as stack:
            if attempt(stack) < seconds:
                return True
    return False


@pytest.mark.parametrize("slow", [pytest.param(20, marks=pytest.mark.rare), 2 * gunicorn.workers * gunicorn.threads])
def test_half_sent_heads_do_not_delay_ordinary_requests(api: httpx.Client, slow: int) -> None:
    def half_sent(stack: contextlib.ExitStack) -> list[socket.socket]:
        connections = [connect(api, HALF, stack) for _ in range(slow)]
        for connection in connections:
            with contextlib.suppress(ConnectionError):  # after a pause their time is over
                connection.sendall(b"h")  # each trickles on
        return connections

    def beside_them(stack: contextlib.ExitStack) -> float:
        half_sent(stack)
        return slowest(api, 20)

    slowest(api, 5)
    assert is_quick(beside_them)
    if slow > 20:
        # The server closes them when their time is over.
        with contextlib.ExitStack() as stack:
            connections = half_sent(stack)
            assert all(is_closed(connection) for connection in connections)


@pytest.mark.parametrize("pause", [0.0, 0.5], ids=["at-once", "after-a-pause"])
def test_a_head_in_pieces_and_a_second_request_on_its_connection_are_answered(api: httpx.Client, pause: float) -> None:
    with contextlib.ExitStack() as stack:
        connection = connect(api, HALF, stack)
        connection.sendall(b"host\r\n\r\nGET /v1 HTTP/1.1\r\nHost: localhost\r\n")
        received = b""

        def answers(count: int) -> bool:
            nonlocal received
            received += connection.recv(65536)
            return received.count(b"HTTP/1.1 200") == count

        wait_until(lambda: answers(1), what="the first answer")
        # In the pause the server finds that it has read a part of the second head with the first one.
        time.sleep(pause)
        connection.sendall(b"\r\n")
        wait_until(lambda: answers(2), what="the second answer")


def test_a_head_that_is_too_large_is_refused(api: httpx.Client) -> None:
    with contextlib.ExitStack() as stack:
        connection = connect(api, HALF + b"h" * gunicorn.MAX_HEAD_BYTES, stack)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(65536).startswith(b"HTTP/1.1 431")
    assert is_quick(lambda _: slowest(api, 1))


def test_bodies_that_the_application_leaves_unread_do_not_delay_ordinary_requests(api: httpx.Client) -> None:
    def beside_them(stack: contextlib.ExitStack) -> float:
        slow = 2 * gunicorn.workers * gunicorn.threads
        connections = [connect(api, UNREAD, stack) for _ in range(slow)]
        first = slowest(api, 20)
        for connection in connections:
            with contextlib.suppress(ConnectionError):
                connection.sendall(b"x")  # each trickles on
        second = slowest(api, 20)
        assert all(connection.recv(65536).startswith(b"HTTP/1.1 405") for connection in connections)
        return max(first, second)

    slowest(api, 5)
    assert is_quick(beside_them)


def test_clients_that_do_not_close_after_the_answer_do_not_delay_ordinary_requests(api: httpx.Client) -> None:
    def beside_them(stack: contextlib.ExitStack) -> float:
        for data in (b"GET /v1 HTTP/1.0\r\nHost: localhost\r\n\r\n", b"BAD\r\n\r\n") * 10:
            connect(api, data, stack)
        return slowest(api, 5)

    assert is_quick(beside_them)


def test_a_connection_serves_on_when_an_unread_body_has_arrived(api: httpx.Client) -> None:
    body = b"POST /v1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n12345"
    with contextlib.ExitStack() as stack:
        connection = connect(api, body, stack)
        assert connection.recv(65536).startswith(b"HTTP/1.1 405")
        connection.sendall(HALF + b"host\r\n\r\n")
        received = b""
        while b"HTTP/1.1 200" not in received:
            data = connection.recv(65536)
            assert data
            received += data


def test_a_body_that_the_application_reads_has_a_total_deadline(tmp_path: Path) -> None:
    (tmp_path / "settings.py").write_text(
        "from watcher_sync.wsgi.gunicorn import *\nfrom watcher_sync.wsgi import gunicorn\n"
        "gunicorn.BODY_SECONDS = 2.0\nworkers, threads = 1, 2\n"
    )
    (tmp_path / "reading.py").write_text(
        "def application(environ, start_response):\n"
        "    data = environ['wsgi.input'].read()\n"
        "    start_response('200 OK', [('Content-Length', str(len(data)))])\n"
        "    return [data]\n"
    )
    port = free_port()
    command = [BIN / "gunicorn", "--config", "settings.py", "--bind", f"127.0.0.1:{port}", "reading:application"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=tmp_path, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=deadline(60)) as client:
            wait_until(lambda: serves(client), what="the application")

            def beside_them(stack: contextlib.ExitStack) -> float:
                connections = [connect(client, UNREAD, stack) for _ in range(4)]
                began = time.monotonic()
                stop = threading.Event()
                trickle = threading.Thread(target=send_slowly, args=(connections, stop))
                trickle.start()
                stack.callback(trickle.join)
                stack.callback(stop.set)
                large = b"x" * 3 * gunicorn.MAX_HEAD_BYTES
                try:
                    is_whole = client.post("/", content=large).content == large
                except httpx.TransportError:
                    is_whole = False
                if not is_whole:  # as after a pause beyond the deadline of this body
                    return math.inf
                assert all(client.get("/").status_code == 200 for _ in range(5))
                return time.monotonic() - began

            assert is_quick(beside_them, 25)  # less than the 30 s of the default
    finally:
        process.terminate()
        process.wait(deadline(60))


def serves(client: httpx.Client) -> bool:
    try:
        return client.get("/").status_code == 200
    except httpx.TransportError:
        return False


def send_slowly(connections: list[socket.socket], stop: threading.Event) -> None:
    """Sends a byte on each connection, ten times a second."""
    while not stop.wait(0.1):
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(b"x")
