# SPDX-License-Identifier: Apache-2.0
"""What a consumer of a log takes from a server that does not do as it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace

import msgspec
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from watcher_sync.client.log.consumer import LogConsumer, LogLost

Receive = Callable[[Msg], Awaitable[None]]


class EagerServer:
    """Answers each request with all messages of its stream, whatever the request asks for.

    It is the client's connection and its JetStream, too.
    """

    def __init__(self, messages: int) -> None:
        self.asked = 0
        self._messages = messages
        self._sent = 0
        self._receive: Receive | None = None

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def add_consumer(self, *_: object) -> SimpleNamespace:
        return SimpleNamespace(name="c")

    async def subscribe(self, _subject: str, *, cb: Receive, **_: object) -> None:
        self._receive = cb

    async def publish(self, _subject: str, request: bytes, _reply: str) -> None:
        assert self._receive is not None
        self.asked += msgspec.json.decode(request)["batch"]
        while self._sent < self._messages:
            self._sent += 1
            reply = f"$JS.ACK.s.c.1.{self._sent}.{self._sent}.0.0"
            await self._receive(Msg(Client(), "s.i", reply, b"{}"))


def test_a_server_that_sends_more_than_was_asked_for_is_left_and_the_rest_is_not_taken() -> None:
    server, taken = EagerServer(messages=5_000), []

    async def nothing() -> None:
        return

    consumer = LogConsumer(
        server,  # type: ignore[arg-type]
        server,  # type: ignore[arg-type]
        "$JS.API",
        lambda _message, sequence: taken.append(sequence),
        alive=lambda: None,
        in_hand=lambda: len(taken),
    )
    with pytest.raises(LogLost) as lost:
        asyncio.run(consumer.run("s", 1, nothing))
    assert len(taken) == server.asked < 5_000
    assert str(lost.value) == "the server sent more than was asked for"
