# SPDX-License-Identifier: Apache-2.0
"""What the direct client puts on the wire, and in which order."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.protocol.parser import Parser

from watcher_sync.sources.nats import client as client_module
from watcher_sync.sources.nats.client import DirectClient, Message, UnsupportedClientLibrary, check_library


class Wire:
    """A server with a few commands, and the commands that it received after the greeting."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self._writer: asyncio.StreamWriter | None = None

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        writer.write(b'INFO {"max_payload": 1048576}\r\n')
        while line := await reader.readline():
            self.lines.append(line.split()[0])
            if line == b"PING\r\n":
                writer.write(b"PONG\r\n")
        writer.close()

    def send(self, line: bytes) -> None:
        assert self._writer is not None
        self._writer.write(line)


@contextlib.asynccontextmanager
async def connected(wire: Wire, **options: Any) -> AsyncIterator[DirectClient]:
    server = await asyncio.start_server(wire.serve, "127.0.0.1", 0)
    client = DirectClient()
    await client.connect(f"nats://127.0.0.1:{server.sockets[0].getsockname()[1]}", **options)
    assert wire.lines == [b"CONNECT", b"PING"]
    wire.lines.clear()
    try:
        yield client
    finally:
        await client.close()
        server.close()
        await server.wait_closed()


def test_a_flush_asks_after_all_that_was_published_before_it() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        async with connected(wire) as client:
            await client.publish_all([("a", b"PAYLOAD"), ("b", b"PAYLOAD")])
            await client.publish("c", b"PAYLOAD")
            await client.flush()
            return list(wire.lines)

    assert asyncio.run(run()) == [b"PUB", b"PAYLOAD"] * 3 + [b"PING"]


def test_the_end_of_listening_asks_after_it_unsubscribed_so_nothing_comes_behind_the_answer() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        async with connected(wire) as client:
            subscription = await client.listen("a", lambda _message: None)
            await client.flush()
            await client.end_listening(subscription)
            return list(wire.lines)

    assert asyncio.run(run()) == [b"SUB", b"PING", b"UNSUB", b"PING"]


def test_what_waited_to_be_written_is_written_once() -> None:
    async def run() -> list[bytes]:
        wire = Wire()
        async with connected(wire) as client:
            for _ in range(3):
                await client.publish("a", b"PAYLOAD")
                await client.flush()
            await client.flush()
            return list(wire.lines)

    assert asyncio.run(run()) == [b"PUB", b"PAYLOAD", b"PING"] * 3 + [b"PING"]


def test_the_installed_library_is_supported() -> None:
    check_library()


@pytest.mark.parametrize("name", list(client_module._METHODS))
def test_a_method_that_the_library_renamed_is_named_before_a_connection(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(Client, name)
    with pytest.raises(UnsupportedClientLibrary, match=rf"nats-py [\d.]+ is not supported: Client\.{name} is missing"):
        check_library()


@pytest.mark.parametrize("name", list(client_module._METHODS))
def test_a_method_that_has_other_parameters_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(self: Client, frame: bytes) -> None:
        """As a later release may have it."""

    monkeypatch.setattr(Client, name, other)
    with pytest.raises(UnsupportedClientLibrary, match=rf"Client\.{name} has the parameters self, frame, not self, "):
        check_library()


@pytest.mark.parametrize("name", client_module._ATTRIBUTES)
def test_an_attribute_that_the_library_renamed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Client.__init__

    def init(self: Client) -> None:
        made(self)
        vars(self).pop(name)

    monkeypatch.setattr(Client, "__init__", init)
    monkeypatch.delattr(Client, name, raising=False)
    with pytest.raises(UnsupportedClientLibrary, match=rf"Client\.{name} is missing"):
        check_library()


def test_a_subscription_without_its_id_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Subscription, "__init__", lambda self, *arguments: None)
    with pytest.raises(UnsupportedClientLibrary, match=r"Subscription\._id is missing"):
        check_library()


def test_a_parser_that_calls_another_method_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async def parse(self: Parser, data: bytes) -> None:
        """As a later release may have it."""

    monkeypatch.setattr(Parser, "parse", parse)
    with pytest.raises(UnsupportedClientLibrary, match=r"Parser\.parse does not call Client\._process_msg"):
        check_library()


def test_a_message_that_the_library_passes_past_the_listener_closes_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is not acknowledged, so the server delivers it again."""
    monkeypatch.setattr(DirectClient, "_process_msg", Client._process_msg)

    async def run() -> tuple[list[Message], list[Exception]]:
        wire = Wire()
        heard: list[Message] = []
        errors: list[Exception] = []
        closed = asyncio.Event()

        async def on_error(error: Exception) -> None:
            errors.append(error)

        async def on_close() -> None:
            closed.set()

        async with connected(wire, error_cb=on_error, closed_cb=on_close) as client:
            await client.listen("a", heard.append)
            await client.flush()
            wire.send(b"MSG a 1 2\r\nhi\r\n")
            async with asyncio.timeout(60):
                await closed.wait()
            assert client.is_closed
        return heard, errors

    heard, errors = asyncio.run(run())
    assert heard == []
    assert [str(error).partition(": ")[2] for error in errors] == ["it delivered a message past Client._process_msg"]
    assert isinstance(errors[0], UnsupportedClientLibrary)
