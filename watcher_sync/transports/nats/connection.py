# SPDX-License-Identifier: Apache-2.0
"""Connections to NATS: made once, closed in bounded time, and their errors in one line.

The library's own reconnecting is off: a connection that ends is discarded, and the caller makes a new one. It has the
library's public names only; the decision record ``nats-client`` has the price.
"""

from __future__ import annotations

import asyncio
import os
import random
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import ConnectionClosedError
from nats.errors import Error as NatsError

from watcher_sync.transports.addresses import addresses_of
from watcher_sync.transports.nats.client_settings import CONNECT_TIMEOUT_SECONDS, DEFAULT_PORT, NatsClientSettings
from watcher_sync.transports.nats.messages import NatsMessage

_CLOSE_TIMEOUT_SECONDS: Final = 1.0


Listen = Callable[[NatsMessage], Awaitable[None] | None]
"""Takes a message; what it returns is awaited before the next one is passed on."""


class NatsConnection(Client):
    """A connection that stores the last error that the server or the library reported."""

    def __init__(self) -> None:
        super().__init__()
        self.complaint: Exception | None = None

    async def complain(self, error: Exception) -> None:
        """The library's callback for errors."""
        self.complaint = error

    @property
    def why(self) -> Exception | None:
        """Why it ended; None where that is unknown."""
        return self.last_error or self.complaint

    def explained(self, failure: str) -> str:
        """A failure with the error that was reported since the last call, such as a permission that is missing."""
        error, self.complaint = self.complaint, None
        return failure if error is None else f"{failure} ({describe(error)})"

    async def listen(self, subject: str, listener: Listen) -> Subscription:
        """Subscribe: the listener gets every message, in order. What it raises goes to :meth:`complain`.

        The requests of a consumer limit what can wait, so the library limits nothing: it would drop messages.

        :raises nats.errors.Error: when the connection is gone.
        """

        async def receive(message: Msg) -> None:
            waiting = listener(NatsMessage(message.subject, message.reply, message.data, message.headers))
            if waiting is not None:
                await waiting

        return await self.subscribe(subject, cb=receive, pending_msgs_limit=0, pending_bytes_limit=0)

    async def end_listening(self, subscription: Subscription) -> None:
        """Unsubscribe; when it returns, the listener has all that the server had sent.

        The library's PING would overtake the UNSUB, and what the server sends between the two would be lost until its
        ``ack_wait`` is over. A command that waits to be written takes the only place in the queue of writes
        (``flusher_queue_size``), so the UNSUB is written before the PING.

        :raises nats.errors.Error: when the connection is gone.
        """
        spare = await self.subscribe(self.new_inbox())
        await spare.unsubscribe()
        await subscription.drain()  # type: ignore[no-untyped-call]

    async def publish_all(self, messages: Iterable[tuple[str, bytes]]) -> None:
        """Publish payloads to subjects.

        :raises nats.errors.ConnectionClosedError: when the connection is gone; nothing was taken from the messages.
        """
        if self.is_closed:
            raise ConnectionClosedError
        for subject, data in messages:
            await self.publish(subject, data)

    async def confirm(self) -> None:
        """Wait until the server has read all that was published.

        The library's PING overtakes what waits to be written, which is written during its round trip. So the second
        PONG says it.

        :raises nats.errors.Error: when the connection is gone.
        """
        await self.flush()
        await self.flush()


async def connect(
    settings: NatsClientSettings, name: str, *, closed: Callable[[], None] | None = None
) -> NatsConnection:
    """Connect to one of the servers, in any order, at its first address that accepts us.

    :param name: of the source or outlet.
    :param closed: called when the connection has ended, also one that was not made.
    :raises nats.errors.Error, OSError: when no server accepts us; of several servers, it names each.
    """
    failures: dict[urllib.parse.SplitResult, Exception] = {}
    for server in random.sample(settings.servers, len(settings.servers)):
        try:
            for address in await addresses_of(server.hostname or "", server.port or DEFAULT_PORT):
                try:
                    return await _connect_to(server, address, settings, name, closed)
                except (NatsError, OSError) as exc:
                    failures[server] = exc
        except OSError as exc:  # the name has no address
            failures[server] = exc
    if len(failures) == 1:
        raise failures.popitem()[1]
    raise NatsError(
        "; ".join(f"{server.netloc.rpartition('@')[2]}: {_cause_of(failures[server])}" for server in settings.servers)
    )


def _cause_of(failure: Exception) -> str:
    """The failure in one line, without the address that asyncio adds."""
    if (
        isinstance(failure, OSError) and failure.errno and failure.errno > 0
    ):  # that of a name without address is negative
        return os.strerror(failure.errno)
    return describe(failure)


async def _connect_to(
    server: urllib.parse.SplitResult,
    address: str,
    settings: NatsClientSettings,
    name: str,
    closed: Callable[[], None] | None,
) -> NatsConnection:
    """:raises nats.errors.Error, OSError: when the address does not accept us."""
    client = NatsConnection()

    async def on_closed() -> None:
        if closed is not None:
            closed()

    try:
        arguments = settings.connect_arguments(client, server.hostname or "")
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS * 4):
            await client.connect(
                name=f"watcher-sync {name}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                ping_interval=15,
                flusher_queue_size=1,
                error_cb=client.complain,
                closed_cb=on_closed,
                servers=[_at(server, address)],
                **arguments,
            )
        settings.require_tls(client)
    except BaseException as exc:
        was_greeted = client.client_id is not None  # it is None after the close
        await close(client)
        cause = client.complaint if isinstance(exc, NatsError) and client.complaint is not None else exc
        if isinstance(cause, ConnectionError) and was_greeted:
            # The server sent INFO and then closed: authentication failed before it could send -ERR.
            raise NatsError("the server closed the connection at the login, it may not know us") from None
        if cause is not exc:
            raise cause from None
        raise
    return client


def _at(server: urllib.parse.SplitResult, address: str) -> str:
    """The URL of a server with one of its addresses."""
    user, at, _ = server.netloc.rpartition("@")
    host = f"[{address}]" if ":" in address else address
    return server._replace(netloc=f"{user}{at}{host}:{server.port or DEFAULT_PORT}").geturl()


async def close(client: NatsConnection) -> None:
    """Close, in bounded time: after a failed TLS handshake the library waits for an end that never comes.

    The library asserts that its client has begun to connect. One whose files cannot be read has not.
    """
    with suppress(NatsError, OSError, AssertionError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_SECONDS):
            await client.close()


def describe(error: Exception | None) -> str:
    """An error in one line."""
    if error is None:
        return "it was closed"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = " ".join(str(error).split()).removeprefix("nats: ")
    return text[:300] or type(error).__name__
