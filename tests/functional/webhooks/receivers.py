# SPDX-License-Identifier: Apache-2.0
"""Receivers on the loopback interface, in the event loop of the test: good ones, slow ones and hostile ones."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import msgspec
from aiohttp.abc import AbstractResolver, ResolveResult

from tests.waiting import eventually
from watcher_sync.extensions.webhooks.deliveries import DeliverySettings
from watcher_sync.extensions.webhooks.sender import Sender

LOOPBACK = ("127.0.0.0/8",)

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Receiver:
    """A server and what it received."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.connections = 0
        self.open = 0
        self.most_open = 0
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        """Whole requests: their first line, their headers with names in lower case, their body."""
        self.received = b""
        """All bytes that the answer has not read as part of a whole request."""
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?token=s3cret"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        self.connections += 1
        self.open += 1
        self.most_open = max(self.most_open, self.open)
        try:
            await self.answer(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            self.received += getattr(error, "partial", b"")
        except asyncio.CancelledError:
            pass
        finally:
            self.open -= 1
            self._tasks.discard(task)
            writer.close()

    async def request(self, reader: asyncio.StreamReader) -> bytes:
        """Reads one whole request, and returns its body."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        first, *lines = head.strip().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        try:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        except asyncio.IncompleteReadError:
            self.received += head.encode()
            raise
        self.requests.append((first, headers, body))
        return body

    def cancel(self) -> None:
        for task in self._tasks:
            task.cancel()


@contextlib.asynccontextmanager
async def receiving(
    answer: Callable[[Receiver], Answer], *, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1", port: int = 0
) -> AsyncIterator[Receiver]:
    """A receiver that handles each connection with the function that ``answer`` makes for it."""
    receiver = Receiver(lambda reader, writer: answer(receiver)(reader, writer))
    server = await asyncio.start_server(receiver.serve, host, port, ssl=tls)
    receiver.port = server.sockets[0].getsockname()[1]
    try:
        yield receiver
    finally:
        server.close()
        receiver.cancel()
        await eventually(lambda: not receiver.open)


def answering(text: bytes) -> Callable[[Receiver], Answer]:
    """Answers each request of a connection with these bytes, and goes on with the next."""

    def make(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await receiver.request(reader)
                writer.write(text)
                await writer.drain()

        return answer

    return make


def status(code: int, *headers: str, body: bytes = b"") -> bytes:
    """An answer with this status."""
    lines = [f"HTTP/1.1 {code} Text of the receiver", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def closing(text: bytes) -> Callable[[Receiver], Answer]:
    """Answers one request with these bytes and closes the connection."""

    def make(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await receiver.request(reader)
            writer.write(text)
            await writer.drain()

        return answer

    return make


def repeating(head: bytes, part: bytes, *, pause: float = 0.0) -> Callable[[Receiver], Answer]:
    """Answers with the head, and then with the part without an end."""

    def make(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await receiver.request(reader)
            writer.write(head)
            while True:
                writer.write(part)
                await writer.drain()
                await asyncio.sleep(pause)

        return answer

    return make


def silent(receiver: Receiver) -> Answer:
    """Accepts, reads and never answers."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            receiver.received += data

    return answer


class Names(AbstractResolver):
    """A resolver with fixed answers: each name has a list of addresses, of which the last one remains."""

    def __init__(self, **answers: list[str]) -> None:
        self.answers = {name.replace("_", "."): list(addresses) for name, addresses in answers.items()}
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked.append(host)
        if host not in self.answers:
            raise OSError(None, "DNS lookup failed")
        addresses = self.answers[host]
        address = addresses.pop(0) if len(addresses) > 1 else addresses[0]
        kind = socket.AF_INET6 if ":" in address else socket.AF_INET
        return [ResolveResult(hostname=host, host=address, port=port, family=kind, proto=0, flags=0)]

    async def close(self) -> None:
        """Has nothing to close."""


def open_settings(**options: Any) -> Any:
    """Settings that permit the loopback interface without TLS, with attributes that a test may change."""
    defaults: dict[str, Any] = {"allowed_networks": LOOPBACK, "allow_http": True, "total_timeout": 30.0}
    return SimpleNamespace(**msgspec.structs.asdict(DeliverySettings(**{**defaults, **options})))


def sender(settings: Any = None, **options: Any) -> Sender:
    """A sender that may connect to the loopback interface, without TLS, and waits for 30 seconds at most.

    :param options: of the settings, and arguments of the sender.
    """
    chosen = {name: options.pop(name) for name in DeliverySettings.__struct_fields__ if name in options}
    return Sender(settings or open_settings(**chosen), **options)


@contextlib.contextmanager
def unused_port() -> Iterator[int]:
    """A port on which nothing listens. It is held meanwhile, so that no other process listens there either."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
