# SPDX-License-Identifier: Apache-2.0
"""A pull consumer of a stream, ephemeral and without acknowledgements: each message once, in order.

Its requests overlap, so the server always has one that is open unless enough messages are in hand. The server sends
heartbeats for an open request. Every loss ends the consumer, and another one continues after the last message. So does
a message that no request asked for: requests bound what is in hand, whatever the server does.

For the thread of the event loop only.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import msgspec
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.client import JetStreamContext

_BATCH: Final = 500
_MAX_BYTES: Final = 16 * 1024 * 1024
"""Of the messages of one request, about."""
_HEARTBEAT_SECONDS: Final = 2.0
_EXPIRES_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 3 * _HEARTBEAT_SECONDS
_INACTIVE_SECONDS: Final = 60.0
"""After this time without a request the server removes the consumer."""


class LogLost(Exception):
    """The consumer or the connection cannot be used any more, or the log is not there yet. A retry may succeed."""


class LogConsumer:
    """One connection's use of one consumer.

    :param prefix: of the subjects of JetStream's interface.
    :param take: gets each message and its sequence in the stream.
    :param alive: is called when a heartbeat says that there is no message.
    :param in_hand: how many messages were taken and not processed yet.
    """

    def __init__(
        self,
        client: Client,
        js: JetStreamContext,
        prefix: str,
        take: Callable[[Msg, int], None],
        alive: Callable[[], None],
        in_hand: Callable[[], int],
    ) -> None:
        self._client = client
        self._js = js
        self._prefix = prefix
        self._take = take
        self._alive = alive
        self._in_hand = in_hand
        self._wake = asyncio.Event()
        self._is_over = False
        self._error: Exception | None = None
        """Why it is over; None: it brought all that was wanted."""
        self._requested = 0
        """Messages that the open requests may still bring."""
        self._delivered = 0
        self.pending = 0
        """Messages of the stream that follow the last one."""
        self._largest = 1
        self._active_at = 0.0
        """When the server sent something, or was asked again."""

    def wake(self) -> None:
        """There may be room for more messages."""
        self._wake.set()

    def end(self, error: Exception | None = None) -> None:
        """The consumer is over. The first reason counts."""
        if not self._is_over:
            self._is_over, self._error = True, error
            self._wake.set()

    async def run(self, stream: str, first: int, check: Callable[[], Awaitable[None]]) -> None:
        """Receive the messages of a stream until :meth:`end`.

        :param first: the sequence to begin with.
        :param check: is called once, when the server has the consumer; it raises if that is one of another stream.
        :raises Exception: with which it was ended.
        :raises nats.errors.Error: the connection is gone, or the stream.
        """
        config = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=first,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=_INACTIVE_SECONDS,
            mem_storage=True,
        )
        consumer = await self._js.add_consumer(stream, config)
        await check()
        inbox = self._client.new_inbox()
        subscription = await self._client.subscribe(
            inbox, cb=self._receive, pending_msgs_limit=0, pending_bytes_limit=0
        )
        while not self._is_over:
            self._wake.clear()
            await self._request(f"{self._prefix}.CONSUMER.MSG.NEXT.{stream}.{consumer.name}", inbox)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_HEARTBEAT_SECONDS):
                    await self._wake.wait()
            if self._requested and time.monotonic() - self._active_at > _SILENCE_SECONDS:
                self.end(LogLost("the server is silent"))
        if self._error is not None:
            raise self._error
        await subscription.unsubscribe()

    async def _request(self, subject: str, inbox: str) -> None:
        size = max(1, min(_BATCH, _MAX_BYTES // self._largest))
        while not self._is_over and self._requested + self._in_hand() <= size:
            if not self._requested:
                self._active_at = time.monotonic()
            self._requested += size
            request = {
                "batch": size,
                "expires": int(_EXPIRES_SECONDS * 1e9),
                "idle_heartbeat": int(_HEARTBEAT_SECONDS * 1e9),
            }
            await self._client.publish(subject, msgspec.json.encode(request), inbox)

    async def _receive(self, message: Msg) -> None:
        self._active_at = time.monotonic()
        if self._is_over:
            return
        if not message.reply:
            self._on_status(message.headers or {})
            return
        if not self._requested:
            self.end(LogLost("the server sent more than was asked for"))
            return
        self._requested -= 1
        self._delivered += 1
        self._largest = max(self._largest, len(message.data))
        sequence, delivered, self.pending = _numbers_of(message.reply)
        if delivered != self._delivered:
            self.end(LogLost("messages were lost on their way"))
            return
        self._take(message, sequence)
        if self._requested <= _BATCH // 2:
            self._wake.set()

    def _on_status(self, headers: Mapping[str, str]) -> None:
        status = headers.get("Status", "")
        left = headers.get("Nats-Pending-Messages", "")
        if status == "100":
            self._alive()
            return
        if status in ("404", "408") and left.isdigit():
            self._requested = max(0, self._requested - int(left))
            self._wake.set()
        else:
            why = f"{status} {headers.get('Description', '')}".partition("\n")[0]  # other headers may follow
            self.end(LogLost(f"the server ended a request: {why.rstrip()}"))


def _numbers_of(reply: str) -> tuple[int, int, int]:
    """Of a message: its sequences in the stream and for the consumer, and how many follow.

    The subject has 9 tokens, or 11 and more with the domain and the account (NATS ADR-15).
    """
    tokens = reply.split(".")
    first = 5 if len(tokens) == 9 else 7
    return int(tokens[first]), int(tokens[first + 1]), int(tokens[first + 3])
