# SPDX-License-Identifier: Apache-2.0
"""What a connection puts on the wire, and in which order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from watcher_sync.transports.nats.connection import NatsConnection


class Wire:
    """A server with a few commands, and the commands that it received after the greeting."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"max_payload": 1048576}\r\n')
        while line := await reader.readline():
            self.lines.append(line.split()[0])
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()


@contextlib.asynccontextmanager
async def connected(wire: Wire) -> AsyncIterator[NatsConnection]:
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    client = NatsConnection()
    await client.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", flusher_queue_size=1)
    assert wire.lines == [b"CONNECT", b"PING"]
    wire.lines.clear()
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


def test_what_is_confirmed_was_read_before_the_answer() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        async with connected(wire) as client:
            await client.publish_all([("a", b"PAYLOAD"), ("b", b"PAYLOAD")])
            await client.publish("c", b"PAYLOAD")
            await client.confirm()
            return list(wire.lines)

    lines = asyncio.run(run())
    assert lines.count(b"PUB") == 3
    assert lines[-1] == b"PING"


def test_the_end_of_listening_asks_after_it_unsubscribed_so_nothing_comes_behind_the_answer() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        async with connected(wire) as client:
            subscription = await client.listen("a", lambda _message: None)
            await client.confirm()
            wire.lines.clear()
            await client.end_listening(subscription)
            return list(wire.lines)

    assert asyncio.run(run()) == [b"SUB", b"UNSUB", b"UNSUB", b"PING"]
