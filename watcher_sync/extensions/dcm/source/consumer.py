# SPDX-License-Identifier: Apache-2.0
"""A pull consumer with two requests for a batch open at all times.

The client library's ``fetch`` has one request at a time. Here one inbox receives the answers of all.

The server does not say which request a message answers, so they are counted together. A
status message says what is left of a request that expired. A server of the 2.9 series may end a request without one, so
a request counts for a second beyond its time.

A request is limited in bytes, too: a server that has more to send than its ``max_pending`` closes the connection.

Guaranteed: messages are emitted in the order of their arrival, except isolated ones
(:mod:`~watcher_sync.extensions.dcm.source.isolation`). For the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.isolation import ConnectionLosses, RedeliveryIsolation
from watcher_sync.extensions.dcm.source.settings import OPEN_REQUESTS, JetStreamSettings
from watcher_sync.transports.nats import messages
from watcher_sync.transports.nats.connection import NatsConnection
from watcher_sync.transports.nats.messages import JetStreamMessage, NatsMessage

HEARTBEAT_SECONDS: Final = 2.0
"""Silence after which the server sends a heartbeat for a request."""

EXPIRES_SECONDS: Final = 8.0
"""The server ends a request that is not fulfilled after this time: later than its silence is noticed."""

_SILENCE_SECONDS: Final = 3 * HEARTBEAT_SECONDS
_OVERHEAD_BYTES: Final = 65_536
"""Subject and headers of a message, which the server counts, too."""
_GRACE_SECONDS: Final = 1.0
"""After the end of a request its status message arrives within this time."""


class PullConsumer:
    """One connection's use of one JetStream consumer: from :meth:`begin` to :meth:`end`.

    :param in_flight: takes each message.
    :param isolation: says what the next request may ask for, and which messages are emitted alone.
    :param receive: called with each message that arrives; returns its epoch.
    :param settings: with the messages and the bytes of one request, which are at least those of the largest message
        that the server accepts.
    :param losses: the connections that were lost before this one.
    :param wake: called when a request may be made or the consumer is lost.
    """

    def __init__(
        self,
        connection: NatsConnection,
        settings: JetStreamSettings,
        in_flight: JetStreamInFlight,
        isolation: RedeliveryIsolation,
        *,
        receive: Callable[[JetStreamMessage], int],
        losses: ConnectionLosses,
        wake: Callable[[], None],
    ) -> None:
        self.lost: str | None = None
        """Why this consumer cannot be used any more; None while it can.

        It is gone (409, 503), a request ended without a count, or the server was silent for three heartbeats.
        """
        self.silent = False
        """Whether the server did not answer: then the connection is of no use either."""
        self._connection = connection
        self._subject = settings.pull_subject
        self._in_flight = in_flight
        self._isolation = isolation
        self._epoch_of = receive
        self._batch = settings.batch
        self._max_bytes = max(settings.max_bytes, connection.max_payload + _OVERHEAD_BYTES)
        self._losses = losses
        self._wake = wake
        self._inbox = connection.new_inbox()
        self._numbers = itertools.count(1)
        # Messages that the open requests may still bring.
        self._requested = 0
        # Of each request that may be open: when it is over, and its messages; and the sum of these.
        self._requests: collections.deque[tuple[float, int]] = collections.deque()
        self._requests_total = 0
        # Number -> messages of the requests that may still be open: none of them is answered by a status.
        self._open: dict[int, int] = {}
        self._last_received_at = 0.0
        self._latest_reply: str | None = None
        self._doubted = False
        self._subscription: Subscription | None = None
        self._full_request = _request(self._batch, self._max_bytes)

    async def begin(self) -> None:
        """Subscribe. :raises nats.errors.Error: when the connection is gone."""
        self._last_received_at = time.monotonic()
        self._subscription = await self._connection.listen(f"{self._inbox}.*", self._receive)

    async def request(self) -> None:
        """Make as many requests as there is room for, or emit the next isolated message.

        :raises nats.errors.Error: when the connection is gone.
        """
        self._forget_expired()
        isolated = self._isolation.pop(requested=self._requested, in_flight=len(self._in_flight))
        if isolated is not None:
            (epoch, _), message = isolated
            self._in_flight.emit(epoch, message)
        while self.lost is None and (size := self._next_size()):
            now = time.monotonic()
            if self._requested <= 0:
                self._last_received_at = now
            self._requested += size
            self._requests_total += size
            self._requests.append((now + EXPIRES_SECONDS + _GRACE_SECONDS, size))
            number = next(self._numbers)
            self._open[number] = size
            request = self._full_request if size == self._batch else _request(size, self._max_bytes)
            await self._connection.publish(self._subject, request, f"{self._inbox}.{number}")

    def _next_size(self) -> int:
        if self._in_flight.unemitted_bytes() >= self._max_bytes or self._open_requests() >= OPEN_REQUESTS:
            return 0
        return self._isolation.request_size(
            requested=self._requested, in_flight=len(self._in_flight), unemitted=self._in_flight.unemitted_count()
        )

    def _open_requests(self) -> int:
        """How many requests may be open: without the oldest ones, if the others can bring all that is requested."""
        total = sum(self._open.values())
        while self._open and self._requested <= total - (size := next(iter(self._open.values()))):
            total -= size
            del self._open[next(iter(self._open))]
        return len(self._open)

    def _forget_expired(self) -> None:
        """No more can be requested than by requests whose time is not over."""
        now = time.monotonic()
        while self._requests and self._requests[0][0] < now:
            self._requests_total -= self._requests.popleft()[1]
        self._requested = min(self._requested, self._requests_total)

    def pending(self) -> int | None:
        """How many messages the server had left when it sent the latest one; None: none came since the last call."""
        latest, self._latest_reply = self._latest_reply, None
        return None if latest is None else messages.pending_of(latest)

    def lose(self, why: str) -> None:
        """This consumer cannot be used any more."""
        if self.lost is None:
            self.lost = why
            self._wake()

    def check_silence(self) -> None:
        """Lose the consumer when the server has been silent for three heartbeats, in two checks."""
        if (
            self.lost is not None
            or self._requested <= 0
            or time.monotonic() - self._last_received_at <= _SILENCE_SECONDS
        ):
            self._doubted = False
        elif not self._doubted:
            # This process may have been held up, with heartbeats still to be read: check once more.
            self._doubted = True
        else:
            self.silent = True
            self.lose("the server is silent")

    async def end(self, timeout: float) -> None:
        """Unsubscribe. What the server has sent until then is tracked, or nacked if the consumer is lost.

        :param timeout: seconds.
        """
        subscription, self._subscription = self._subscription, None
        if subscription is None or self.silent:
            return
        try:
            async with asyncio.timeout(timeout):
                await self._connection.end_listening(subscription)
        except (NatsError, TimeoutError, OSError):
            self.silent = True  # the connection is gone, and what it held is delivered again

    def _receive(self, message: NatsMessage) -> Awaitable[None] | None:
        self._last_received_at = time.monotonic()
        reply = message.reply
        if not reply:
            self._on_status(message)
            return None
        if self.lost is not None:
            # It may come from a stream that was replaced meanwhile, and would get the old one's epoch.
            return self._connection.publish_all([(reply, messages.NAK)])
        self._requested -= 1
        self._latest_reply = reply
        received = messages.read(message)
        epoch = self._epoch_of(received)
        received = self._losses.without(received)
        if self._requested <= self._batch:
            self._wake()
        may_emit = self._isolation.may_emit(received)
        if self._in_flight.track(epoch, received):
            if may_emit:
                self._in_flight.emit(epoch, received)
            else:
                self._isolation.add((epoch, received.sequence), received)
        return None

    def _on_status(self, message: NatsMessage) -> None:
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status == "100":
            return
        description = headers.get("Description", "").strip()
        left = headers.get("Nats-Pending-Messages", "")
        number = message.subject.rpartition(".")[2]
        size = self._open.pop(int(number), 0) if number.isdigit() else 0
        if "maxbytes" in description.lower() and left.isdigit() and int(left) == size:
            # The next message alone does not fit.
            self._max_bytes *= 2
            self._full_request = _request(self._batch, self._max_bytes)
        if status == "503":
            self.lose("the consumer is gone")
        elif status == "409" and "consumer" in description.lower():
            self.lose(f"the server says: {description}")
        elif left.isdigit():
            self._requested = max(0, self._requested - int(left))
            self._wake()
        else:
            self.lose(f"the server ended a request: {status} {description}".rstrip())


def _request(batch: int, max_bytes: int) -> bytes:
    return msgspec.json.encode(
        {
            "batch": batch,
            "max_bytes": max_bytes,
            "expires": int(EXPIRES_SECONDS * 1e9),
            "idle_heartbeat": int(HEARTBEAT_SECONDS * 1e9),
        }
    )
