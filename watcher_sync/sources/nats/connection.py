# SPDX-License-Identifier: Apache-2.0
"""Connections to NATS: made once, closed in bounded time, and their errors in one line.

The library's own reconnecting is off: a connection that ends is discarded, and the caller makes a new one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from nats.errors import Error as NatsError

from watcher_sync.sources.nats.client import DirectClient, check_library
from watcher_sync.sources.nats.settings import CONNECT_TIMEOUT_SECONDS, Settings

_CLOSE_TIMEOUT_SECONDS: Final = 1.0


class Connection(DirectClient):
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


async def connect(settings: Settings, name: str, *, closed: Callable[[], None] | None = None) -> Connection:
    """Connect to one of the servers, each of which is tried twice.

    :param name: of the source.
    :param closed: called when the connection has ended.
    :raises nats.errors.Error, OSError: when no server accepts us.
    :raises UnsupportedClientLibrary: before anything is sent.
    """
    check_library()
    client = Connection()

    async def on_closed() -> None:
        if closed is not None:
            closed()

    try:
        arguments = settings.connect_arguments(client)
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS * (2 * len(arguments["servers"]) + 2)):
            await client.connect(
                name=f"watcher-sync {name}",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=CONNECT_TIMEOUT_SECONDS,
                ping_interval=15,
                error_cb=client.complain,
                closed_cb=on_closed,
                **arguments,
            )
        settings.require_tls(client)
    except BaseException as exc:
        await close(client)
        cause = client.complaint if isinstance(exc, NatsError) and client.complaint is not None else exc
        if isinstance(cause, ConnectionError) and client._server_info:
            # The server sent INFO and then closed: authentication failed before it could send -ERR.
            raise NatsError("the server closed the connection at the login, it may not know us") from None
        if cause is not exc:
            raise cause from None
        raise
    return client


async def close(client: Connection) -> None:
    """Close, in bounded time: after a failed TLS handshake the library waits for an end that never comes."""
    with suppress(NatsError, OSError):
        async with asyncio.timeout(_CLOSE_TIMEOUT_SECONDS):
            await client.close()


def describe(error: Exception | None) -> str:
    """An error in one line."""
    if error is None:
        return "it was closed"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = " ".join(str(error).split()).removeprefix("nats: ")
    return text[:200] or type(error).__name__
