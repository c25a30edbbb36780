# SPDX-License-Identifier: Apache-2.0
"""A NATS connection that receives and acknowledges many messages a second.

nats-py queues each message and makes each publish a command. Here the parser calls the listener directly. The
acks of a batch are one command. nats-py writes a PING before commands that wait, so its PONG says nothing about
them. This client writes them first.

It uses private names of nats-py, :data:`_METHODS` and :data:`_ATTRIBUTES`. :func:`check_library` compares them with
the installed version. The decision record ``nats-client`` has the figures.

Guaranteed: messages arrive in order. An exception of a listener goes to the error callback. A message that bypasses
its listener closes the connection, so the server redelivers it. For the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

import msgspec
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError
from nats.protocol.parser import Parser

from watcher_sync.exceptions import SourceError

_METHODS: Final[dict[str, tuple[str, ...]]] = {
    "_process_msg": ("self", "sid", "subject", "reply", "data", "headers"),  # the parser calls it for each message
    "_process_headers": ("self", "headers"),
    "_send_command": ("self", "cmd", "priority"),  # with _flush_pending the end of every publish
    "_flush_pending": ("self", "force_flush"),
    "_send_ping": ("self", "future"),  # the beginning of every flush
}
"""Private methods of the library's client, with their parameters."""

_ATTRIBUTES: Final = ("_pending", "_pending_data_size", "_transport", "_error_cb", "_server_info")
"""Private attributes of the library's client."""


class UnsupportedClientLibrary(SourceError):
    """The installed nats-py lacks a private name that the driver uses, or uses it in another way."""


class Message(msgspec.Struct, gc=False):
    """A message as it was received."""

    subject: str
    reply: str
    """Where an answer goes; empty: none is expected."""
    data: bytes
    headers: dict[str, str] | None = None


Listen = Callable[[Message], Awaitable[None] | None]
"""Takes a message; what it returns is awaited before the next one is read."""


def check_library() -> None:
    """Compare the private names that are used here with the installed nats-py.

    :raises UnsupportedClientLibrary: naming the first one that is missing or has other parameters.
    """
    for name, expected in _METHODS.items():
        method = getattr(Client, name, None)
        if not inspect.iscoroutinefunction(method):
            raise _unsupported(f"Client.{name} is missing or no coroutine")
        found = tuple(inspect.signature(method).parameters)
        if found != expected:
            raise _unsupported(f"Client.{name} has the parameters {', '.join(found)}, not {', '.join(expected)}")
    client = Client()
    for name in _ATTRIBUTES:
        if not hasattr(client, name):
            raise _unsupported(f"Client.{name} is missing")
    if getattr(Subscription(client, 1, "subject"), "_id", None) != 1:
        raise _unsupported("Subscription._id is missing")
    if "_process_msg" not in Parser.parse.__code__.co_names:
        raise _unsupported("Parser.parse does not call Client._process_msg")


def _unsupported(why: str) -> UnsupportedClientLibrary:
    return UnsupportedClientLibrary(f"nats-py {importlib.metadata.version('nats-py')} is not supported: {why}")


class DirectClient(Client):
    """The library's client, with :meth:`listen` and :meth:`publish_all`."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: dict[int, Listen] = {}
        self._closing: asyncio.Task[None] | None = None

    async def listen(self, subject: str, listener: Listen) -> Subscription:
        """Subscribe. :raises nats.errors.Error: when the connection is gone."""
        subscription = await self.subscribe(subject, cb=self._close_bypassed)
        self._listeners[subscription._id] = listener
        return subscription

    async def end_listening(self, subscription: Subscription) -> None:
        """Unsubscribe; when it returns, the listener has all that the server had sent.

        :raises nats.errors.Error: when the connection is gone.
        """
        await subscription.drain()  # type: ignore[no-untyped-call]
        self._listeners.pop(subscription._id, None)

    async def publish_all(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Publish, as one command, payloads to subjects that came from the server.

        :raises nats.errors.ConnectionClosedError: when the connection is gone.
        """
        if self.is_closed:
            raise ConnectionClosedError  # before anything is taken from the messages
        lines = [b"PUB %b  %d\r\n%b\r\n" % (subject.encode(), len(data), data) for subject, data in messages]
        if lines:
            self.stats["out_msgs"] += len(lines)
            await self._send_command(b"".join(lines))
            await self._flush_pending()

    async def _send_ping(self, future: asyncio.Future[bool] | None = None) -> None:
        if self.is_connected and self._pending:
            self._transport.writelines(self._pending)  # type: ignore[union-attr]
            self._pending, self._pending_data_size = [], 0
        await super()._send_ping(future)

    async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: bytes) -> None:
        listener = self._listeners.get(sid)
        if listener is None:
            await super()._process_msg(sid, subject, reply, data, headers)
            return
        self.stats["in_msgs"] += 1
        self.stats["in_bytes"] += len(data)
        found = await self._process_headers(headers) if headers else None
        try:
            waiting = listener(Message(subject.decode(), reply.decode(), data, found))
            if waiting is not None:
                await waiting
        except Exception as exc:  # noqa: BLE001 - as the library does it: the connection is not to blame
            await self._error_cb(exc)

    async def _close_bypassed(self, _message: object) -> None:
        """The library's own delivery, which :meth:`_process_msg` replaces: report it and close the connection."""
        await self._error_cb(_unsupported("it delivered a message past Client._process_msg"))
        # In a task of its own: close() cancels the one that runs this.
        self._closing = asyncio.ensure_future(self.close())
