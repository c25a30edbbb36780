# SPDX-License-Identifier: Apache-2.0
"""Each way in which a connection to RabbitMQ cannot be made is a failure that the source retries."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator

import msgspec
import pytest
from oslo_config import cfg

from tests.unit.sources.test_outage_log import source_of
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import SourceState
from watcher_sync.transports.rabbitmq import connection
from watcher_sync.transports.rabbitmq.broker import read_broker

pytestmark = pytest.mark.slow


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that accepts connections and says nothing, such as a proxy whose broker is away."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


@pytest.mark.parametrize("query", ["", "?ssl=true"], ids=["plain", "TLS"])
def test_a_server_that_says_nothing_is_an_outage(monkeypatch: pytest.MonkeyPatch, silent: int, query: str) -> None:
    monkeypatch.setattr(connection, "_LOGIN_TIMEOUT_SECONDS", 0.1)
    source = source_of(
        RabbitMQSource, transport_url=f"rabbit://someone:hush@127.0.0.1:{silent}/{query}", exchange="nova"
    )
    source.start(lambda _events: None)
    try:
        wait_until(lambda: source.status().state not in (SourceState.STARTING, SourceState.CONNECTED))
        assert source.status().state is SourceState.DISCONNECTED
        assert source.status().detail.startswith("cannot connect: ")
        assert "Timeout while setting up" in source.status().detail
    finally:
        source.stop(time.monotonic() + deadline(5))


def test_a_connection_whose_certificates_are_missing_leaves_the_loop_as_it_was(silent: int) -> None:
    """The start has checked them, and a rotation may remove them later."""
    broker = read_broker("[source_x]", f"rabbit://someone:hush@127.0.0.1:{silent}/", cfg.ConfigOpts())
    removed = {"ssl": True, "ssl_ca_file": "/no/such/ca.pem"}
    broker = msgspec.structs.replace(broker, options={**broker.options, **removed})

    async def handler_after_attempt() -> object:
        with pytest.raises(FileNotFoundError):
            await connection.connect(broker, broker.hosts[0], "x")
        return asyncio.get_running_loop().get_exception_handler()

    assert asyncio.run(handler_after_attempt()) is None
