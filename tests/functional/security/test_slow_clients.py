# SPDX-License-Identifier: Apache-2.0
"""The documented gunicorn command behind nginx with the example: slow clients delay no other one."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from gunicorn.config import make_settings

from tests.functional.security.serving import behind_nginx, documented_api
from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.waiting import deadline, wait_until
from watcher_sync.conf.api import OPTS
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.wsgi import gunicorn

SLOW = 2 * gunicorn.workers * gunicorn.threads
"""Clients that would occupy all threads twice."""
STREAMS = 500
ATTEMPTS = 4
DEFAULTS = {option.name: option.default for option in OPTS}

HEAD = b"Host: localhost\r\nContent-Type: application/cloudevents+json\r\n"
HALF = b"GET /v1 HTTP/1.1\r\nHost: local"
UNREAD = b"POST /v1 HTTP/1.1\r\n" + HEAD + b"Content-Length: 1000000\r\n\r\nx"
READ = UNREAD.replace(b"/v1", b"/v1/events")
LONG_POLL = b"GET /v1/events?wait=60 HTTP/1.1\r\n" + HEAD + b"\r\n"
EVENT_STREAM = b"GET /v1/events HTTP/1.1\r\nAccept: text/event-stream\r\n" + HEAD + b"\r\n"


class Proxy:
    """nginx in front of the API, and connections to it."""

    def __init__(self, api: httpx.Client, client: httpx.Client, trust: ssl.SSLContext) -> None:
        self.api = api
        """Past the proxy."""
        self.client = client
        self._trust = trust

    def connect(self, data: bytes, stack: ExitStack) -> ssl.SSLSocket:
        """A connection of its own that has sent some bytes and does not wait for an answer."""
        plain = socket.create_connection(("127.0.0.1", self.client.base_url.port or 0), timeout=deadline(60))
        made = stack.enter_context(self._trust.wrap_socket(plain, server_hostname="localhost"))
        made.sendall(data)
        made.setblocking(False)
        return made

    def protocol(self, *offered: str) -> str | None:
        """Which of these protocols the proxy chooses for a connection."""
        self._trust.set_alpn_protocols(list(offered))
        with ExitStack() as stack:
            return self.connect(b"", stack).selected_alpn_protocol()

    def serves_beside(self, data: bytes, count: int) -> bool:
        """Whether ordinary requests, each on a new connection, are answered while so many slow ones are not."""
        with ExitStack() as stack:
            slow = [self.connect(data, stack) for _ in range(count)]
            for _ in range(20):
                assert self.ask().status_code == 200
            return all(arrived(connection) is None for connection in slow)

    def ask(self, path: str = "/v1", method: str = "GET", address: str = "127.0.0.1", **headers: str) -> httpx.Response:
        """A request on a new connection.

        :param address: of the client.
        """
        transport = httpx.HTTPTransport(verify=self._trust, local_address=address)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        with httpx.Client(base_url=self.client.base_url, transport=transport, timeout=deadline(60)) as client:
            return client.request(method, path, headers=names)


def arrived(connection: ssl.SSLSocket) -> bytes | None:
    """What has come on a connection; None: nothing; empty: its end."""
    try:
        return connection.recv(65536)
    except ssl.SSLWantReadError:
        return None
    except ConnectionResetError:
        return b""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Proxy]]:
    """Starts the API with options, and nginx."""
    with ExitStack() as stack:

        def started(**options: object) -> Proxy:
            config = tmp_path / "watcher-sync.conf"
            url = f"sqlite:///{tmp_path / 'ws.sqlite'}"
            lines = [f"{name} = {value}" for name, value in {"auth_strategy": "noauth", **options}.items()]
            config.write_text(f"[database]\nconnection = {url}\n[api]\n" + "\n".join(lines))
            migrate(opened(url, builtin_kinds())).database.dispose()
            api = stack.enter_context(documented_api(config))
            return Proxy(api, *stack.enter_context(behind_nginx(api, tmp_path)))

        yield started


def test_half_sent_heads_delay_no_ordinary_request_and_are_closed(serve: Callable[..., Proxy]) -> None:
    proxy = serve()
    # A pause of the machine may be longer than the time for a head.
    assert any(proxy.serves_beside(HALF, SLOW) for _ in range(ATTEMPTS))
    with ExitStack() as stack:
        connection = proxy.connect(HALF, stack)
        wait_until(lambda: arrived(connection) == b"", what="the end of a connection without a request")


@pytest.mark.parametrize("data", [READ, UNREAD], ids=["read", "unread"])
def test_slow_bodies_delay_no_ordinary_request(serve: Callable[..., Proxy], data: bytes) -> None:
    proxy = serve()
    assert any(proxy.serves_beside(data, SLOW) for _ in range(ATTEMPTS))


@pytest.mark.parametrize("data", [LONG_POLL, EVENT_STREAM], ids=["long-polls", "event-streams"])
def test_more_streams_than_the_api_permits_delay_no_ordinary_request(serve: Callable[..., Proxy], data: bytes) -> None:
    proxy = serve(max_streams_per_identity=1000, stream_rate=0)
    with ExitStack() as stack:
        streams = dict.fromkeys((proxy.connect(data, stack) for _ in range(STREAMS)), b"")

        def receive() -> None:
            for connection, received in streams.items():
                streams[connection] = received + (arrived(connection) or b"")

        def count(text: bytes) -> int:
            """The answers that had the text when the last bytes were received."""
            return sum(text in received for received in streams.values())

        def refused() -> int:
            receive()
            return count(b" 503 ")

        permitted = DEFAULTS["max_streams"]
        wait_until(lambda: refused() >= STREAMS - gunicorn.workers * permitted, what="the refusals")
        for _ in range(20):
            assert proxy.ask().status_code == 200
        if data == EVENT_STREAM:  # the first bytes come at once, so nothing holds back events
            wait_until(lambda: refused() + count(b"retry: ") == STREAMS, what="the first bytes of all others")
        # Further refusals may come at any time, so all is counted at one moment.
        remaining = STREAMS - refused()
        assert remaining >= permitted  # one worker is full, at least
        assert count(b"retry: " if data == EVENT_STREAM else b"HTTP") == (
            remaining if data == EVENT_STREAM else STREAMS - remaining
        )


def test_the_api_sees_the_client_the_host_and_the_scheme(serve: Callable[..., Proxy]) -> None:
    proxy = serve(trusted_proxies="127.0.0.1", write_rate=0.001, write_burst=1)

    def write(address: str, **headers: str) -> int:
        return proxy.ask("/v1/vnf_instances/none", "DELETE", address, **headers).status_code

    # Each worker permits an address one write.
    assert 429 in [write("127.0.0.1") for _ in range(gunicorn.workers + 1)]
    assert write("127.0.0.2") == 404
    # What a client says of itself does not count.
    assert 429 in [write("127.0.0.2", X_Forwarded_For=f"127.0.0.{3 + n}") for n in range(gunicorn.workers)]
    origin = str(proxy.client.base_url).rstrip("/")
    assert proxy.ask(Origin=origin).status_code == 200
    assert proxy.ask(Origin=origin.replace("https", "http")).status_code == 403


def test_the_proxy_has_http_2_for_browsers_and_http_1_1_for_others(serve: Callable[..., Proxy]) -> None:
    proxy = serve()
    assert (proxy.protocol("h2", "http/1.1"), proxy.protocol("http/1.1")) == ("h2", "http/1.1")


def test_a_path_reaches_the_api_as_the_client_sent_it(serve: Callable[..., Proxy]) -> None:
    proxy = serve()
    path = "/v1/pods/edge%2Fns%2f%2Fname"
    expected = proxy.api.get(path)
    assert "edge/ns//name" in expected.json()["detail"]
    assert proxy.client.get(path).json()["detail"] == expected.json()["detail"]


def test_the_proxy_permits_the_bodies_that_the_api_permits(serve: Callable[..., Proxy]) -> None:
    proxy = serve()
    limit = DEFAULTS["max_body_bytes"]
    for size, status in ((limit, 400), (limit + 1, 413)):
        answer = proxy.client.post(
            "/v1/events", content=b"x" * size, headers={"Content-Type": "application/cloudevents+json"}
        )
        assert answer.status_code == status


def test_every_answer_of_the_proxy_asks_browsers_for_https(serve: Callable[..., Proxy]) -> None:
    proxy = serve()
    for path in ("/", "/v1", "/v1/pods/none"):
        assert proxy.client.get(path).headers["Strict-Transport-Security"] == "max-age=31536000"
    assert "Strict-Transport-Security" not in proxy.api.get("/v1").headers


def test_every_setting_of_gunicorn_exists() -> None:
    imported = {"annotations", "Any", "MAX_DISCARDED_BYTES", "resource"}
    assert {name for name in vars(gunicorn) if not name.startswith("_")} <= {*make_settings(), *imported}
