# SPDX-License-Identifier: Apache-2.0
"""A name with several addresses, the first of which is silent: the source connects to the next one.

The name is resolved in this process, and the addresses are those of real listeners.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.functional.sources.listening import declare_exchange
from tests.services.ensure import url_of
from tests.unit.sources.test_outage_log import source_of
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.dcm.source.source import NatsJetStreamSource
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import SourceState
from watcher_sync.transports.nats import connection as nats_connection
from watcher_sync.transports.rabbitmq import connection as rabbitmq_connection

NAME = "broker.example"


def listener(stack: ExitStack, port: int, address: str, backlog: int = 100) -> socket.socket:
    made = stack.enter_context(socket.socket())
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind((address, port))
    made.listen(backlog)
    return made


def never_accepts(stack: ExitStack, port: int) -> str:
    """An address that answers no SYN: its queue is full."""
    listener(stack, port, "127.0.0.2", 0)
    for _ in range(4):
        filling = stack.enter_context(socket.socket())
        filling.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            filling.connect(("127.0.0.2", port))
    return "127.0.0.2"


def says_nothing(stack: ExitStack, port: int) -> str:
    """An address that accepts connections and sends nothing."""
    listener(stack, port, "127.0.0.3")
    return "127.0.0.3"


SILENT = {
    "accepts no connection": [never_accepts],
    "says nothing": [says_nothing],
    "both": [never_accepts, says_nothing],
}


def relay(stack: ExitStack, to: tuple[str, int]) -> int:
    """A port on 127.0.0.4 from which the real broker is reached: another process may use the same port elsewhere."""
    server = stack.enter_context(socket.create_server(("127.0.0.4", 0)))

    def run() -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(to)
                for here, there in ((near, far), (far, near)):
                    threading.Thread(target=pipe, args=(here, there), daemon=True).start()

    threading.Thread(target=run, daemon=True).start()
    return int(server.getsockname()[1])


def pipe(here: socket.socket, there: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := here.recv(65536):
            there.sendall(data)
        there.shutdown(socket.SHUT_WR)


@pytest.fixture
def name_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], int]]:
    """Gives the silent addresses, and then the broker of an URL, the name. It returns the port of all."""
    real, addresses = socket.getaddrinfo, [""]

    def getaddrinfo(host: Any, port: Any, *args: Any, **more: Any) -> Any:
        if host != NAME:
            return real(host, port, *args, **more)
        return [found for address in addresses for found in real(address, port, *args, **more)]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    with ExitStack() as stack:

        def named(silent: str, url: str) -> int:
            parts = urllib.parse.urlsplit(url)
            port = relay(stack, (parts.hostname or "", parts.port or 0))
            addresses[:] = [*(make(stack, port) for make in SILENT[silent]), "127.0.0.4"]
            return port

        yield named


@pytest.mark.parametrize("silent", SILENT)
def test_rabbitmq_is_reached_at_the_next_address(
    monkeypatch: pytest.MonkeyPatch, name_of: Callable[[str, str], int], silent: str
) -> None:
    monkeypatch.setattr(rabbitmq_connection, "CONNECT_TIMEOUT_SECONDS", deadline(0.3))
    monkeypatch.setattr(rabbitmq_connection, "_LOGIN_TIMEOUT_SECONDS", deadline(0.6))
    declare_exchange("edges-silent")
    port = name_of(silent, "amqp://127.0.0.1:5672")
    source = source_of(RabbitMQSource, transport_url=f"rabbit://guest:guest@{NAME}:{port}/", exchange="edges-silent")
    states = []
    source.start(lambda _events: None)
    try:
        wait_until(lambda: states.append(source.status().state) or states[-1] is not SourceState.STARTING)
        assert states[-1] is SourceState.CONNECTED, source.status().detail
    finally:
        source.stop(deadline(5))


@pytest.mark.parametrize("silent", SILENT)
def test_nats_is_reached_at_the_next_address(
    monkeypatch: pytest.MonkeyPatch, name_of: Callable[[str, str], int], silent: str
) -> None:
    monkeypatch.setattr(nats_connection, "CONNECT_TIMEOUT_SECONDS", deadline(0.5))
    port = name_of(silent, str(url_of("nats")))
    source = source_of(NatsJetStreamSource, servers=[f"nats://{NAME}:{port}"], stream="edges")

    async def run() -> str:
        client = await nats_connection.connect(source._settings, "s")  # type: ignore[attr-defined]
        try:
            return str(client.connected_url.netloc)  # type: ignore[union-attr]
        finally:
            await nats_connection.close(client)

    assert asyncio.run(run()) == f"127.0.0.4:{port}"
