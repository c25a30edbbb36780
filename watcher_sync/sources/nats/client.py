# SPDX-License-Identifier: Apache-2.0
"""A connection to NATS for whoever takes and answers many messages.

The client library puts each message that it has read into an object and a queue, from which a task of the
subscription takes it; and it makes of each publish a command of its own, checks the subject and wakes the task that
writes. Here a message goes from the parser straight to who listens, and the answers to a batch are one command.

The library writes a PING past what still waits to be written. So the PONG that a flush, or the end of a subscription,
waits for said nothing of what had been sent just before; here it does.

What is used of the library beyond its public names: ``_process_msg`` and ``_process_headers``, which its parser and
itself call for each message, ``_send_command`` and ``_flush_pending``, which every publish ends with, ``_send_ping``,
which every flush begins with, ``_pending`` and ``_transport``, which its flusher empties into one another,
``_error_cb``, and a subscription's ``_id``. Tests hold them against the installed version.

Guaranteed: messages are handed over in the order of their arrival, with headers or without; what a listener raises
goes to the error callback, and the connection lives on. For the event loop's thread alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import msgspec
from nats.aio.client import Client
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError


class Message(msgspec.Struct, gc=False):
    """What came."""

    subject: str
    reply: str
    """Where an answer goes; empty: nobody waits for one."""
    data: bytes
    headers: dict[str, str] | None = None


Listen = Callable[[Message], Awaitable[None] | None]
"""Takes a message; what it returns is awaited before the next one is read."""


class DirectClient(Client):
    """The library's client, with :meth:`listen` and :meth:`publish_all`."""

    def __init__(self) -> None:
        super().__init__()
        self._listeners: dict[int, Listen] = {}

    async def listen(self, subject: str, listener: Listen) -> Subscription:
        """Subscribe. :raises nats.errors.Error: when the connection is gone."""
        subscription = await self.subscribe(subject, cb=_queued)
        self._listeners[subscription._id] = listener
        return subscription

    async def end_listening(self, subscription: Subscription) -> None:
        """Unsubscribe; when it returns, all that the server had sent is handed over.

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


async def _queued(_message: object) -> None:
    """What the library's own way would call."""
