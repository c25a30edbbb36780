# SPDX-License-Identifier: Apache-2.0
"""The connection to one of the servers of a cluster. For the thread of the event loop only."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

Closed = Callable[[Exception | None], None]
"""Called when the connection has ended, with the last error that the server or the library reported."""
Connect = Callable[[Closed], Awaitable[Client]]
"""Connects once. Raises an error of NATS or of the operating system when no server accepts us."""

_TIMEOUT_SECONDS: Final = 5
_CLOSE_SECONDS: Final = 1.0


def connector(servers: Sequence[str], options: Mapping[str, Any]) -> Connect:
    """What connects to one of the servers, in any order. The library alone would try one that is away for two minutes.

    :param servers: their URLs, at least one.
    :param options: for the library's ``connect``.
    """

    async def connect(closed: Closed) -> Client:
        failure: Exception | None = None
        for server in random.sample(servers, len(servers)):
            try:
                return await _connect_to(server, options, closed)
            except (NatsError, OSError) as exc:
                failure = exc
        assert failure is not None, "no server is given"
        raise failure

    return connect


async def _connect_to(server: str, options: Mapping[str, Any], closed: Closed) -> Client:
    client = Client()
    complaint: Exception | None = None

    async def complain(error: Exception) -> None:
        nonlocal complaint
        complaint = error

    async def on_closed() -> None:
        closed(complaint)

    try:
        async with asyncio.timeout(4 * _TIMEOUT_SECONDS):
            await client.connect(
                servers=[server],
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=_TIMEOUT_SECONDS,
                ping_interval=15,
                error_cb=complain,
                closed_cb=on_closed,
                **options,
            )
    except BaseException as exc:
        await close(client)
        if isinstance(complaint, NatsError | OSError) and isinstance(exc, Exception):
            raise complaint from None
        raise
    return client


async def close(client: Client) -> None:
    """Close, in bounded time: the library may wait for an end that never comes.

    The library asserts that its client has begun to connect. One with an option that it refuses has not.
    """
    with contextlib.suppress(NatsError, OSError, AssertionError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await client.close()
