# SPDX-License-Identifier: Apache-2.0
"""Pulling from one JetStream consumer, with requests in flight all the time.

The client library's ``fetch`` makes a task and a timer for each message and waits for one request before it
makes the next. Here is what it does, without that: one subscription on an inbox of our own takes everything,
and a request for a batch is a publish that names the inbox as its reply. Two requests are kept in flight, so
that the server never waits for us: as soon as no more than one batch is asked for and not worked off, the next
one is asked for.

How messages are counted: the server does not say which request a message answers, so the open ones are
counted together. A request that ends unfulfilled is told by a status message with the number of messages that
are left of it. Should the count ever be wrong, no request is open while we think one is; then there are no
heartbeats either, and the pulling begins anew.

:attr:`Pulling.lost` says when that has to happen: the consumer is gone (409, 503), the server ended a request
without saying what is left of it, or nothing, not even a heartbeat, was heard for three times their interval.

A careful life begins with little in hand and takes more as what it took is settled: an engine that dies again and again
soon after its start then has not much more in hand than it has done, and counts up the deliveries of few.

What is delivered again and again may be what ends the engine each time, and whatever is in hand beside it then has
its deliveries counted too. So a message that was delivered more often than ``suspect_after`` is only taken alone:
one request for one message, and the next when that one is settled. A careful life begins so, because the server
delivers first what it delivers again, and goes over to batches with the first message that is no suspect. A
suspect that comes in a batch is not handed over: :attr:`Pulling.suspects` is set, and the pulling begins anew. What
comes beside it is handed over, lest its deliveries are counted up, too.

Guaranteed: messages are handed over in the order of their arrival, each with its sequence and the count of its
deliveries. All runs in the thread of the connection's event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from watcher_sync.sources.nats_client import DirectClient, Message

HEARTBEAT: Final = 2.0
"""Seconds of silence after which the server sends a heartbeat for a request."""

EXPIRES: Final = 30.0
"""Seconds after which the server ends a request that is not fulfilled."""

GIVE_BACK: Final = b"-NAK"
"""What a message is settled with that is to be delivered again."""

_LAST_REQUEST: Final = b'{"batch":1,"expires":1000000000}'
_SILENCE: Final = 3 * HEARTBEAT
_V1_TOKENS: Final = 9
_WARM: Final = 4
"""Batches after which a life goes on at full speed."""
_FIRST: Final = 32
"""Messages of the first request of a life."""


class Arrived(msgspec.Struct, frozen=True, gc=False):
    """A message as it came, with what its reply subject tells."""

    message: Message
    sequence: int
    deliveries: int


class Pulling:
    """One life on one consumer: from the subscription to :meth:`end`.

    :param subject: that pull requests are published to.
    :param batch: messages of one request.
    :param deliver: takes each message.
    :param waiting: how many delivered messages wait to be worked off.
    :param kick: called when there is something to look at: a request may be made, or all is lost.
    :param in_hand: how many delivered messages are not settled.
    :param careful: whether to begin with little; not after a mere loss of the connection.
    :param suspect_after: deliveries after which a message is taken alone only; 0: none is.
    """

    def __init__(
        self,
        connection: DirectClient,
        subject: str,
        *,
        batch: int,
        deliver: Callable[[Arrived], None],
        waiting: Callable[[], int],
        kick: Callable[[], None],
        in_hand: Callable[[], int] = lambda: 0,
        careful: bool = False,
        suspect_after: int = 0,
    ) -> None:
        self.lost: str | None = None
        """Why this life is over; None while it is not."""
        self.silent = False
        """Whether the server did not answer: the connection is not to be trusted any more."""
        self.suspects: list[str] = []
        """Where to give back what came in a batch and is to be taken alone."""
        self._connection = connection
        self._subject = subject
        self._batch = batch
        self._deliver = deliver
        self._waiting = waiting
        self._kick = kick
        self._in_hand = in_hand
        self._received = 0 if careful else _WARM * batch
        self._suspect_after = suspect_after
        self._alone = careful and suspect_after > 0
        self._inbox = connection.new_inbox()
        self._numbers = itertools.count(1)
        self._open = 0
        self._heard = 0.0
        self._suspect = False
        self._subscription: Subscription | None = None
        self._request = _request(batch)

    async def begin(self) -> None:
        """Subscribe. :raises nats.errors.Error: when the connection is gone."""
        self._heard = time.monotonic()
        self._subscription = await self._connection.listen(f"{self._inbox}.*", self._receive)

    async def ask(self) -> None:
        """Make as many requests as there is room for. :raises nats.errors.Error: when the connection is gone."""
        while self.lost is None and self._has_room():
            if self._open <= 0:
                self._heard = time.monotonic()
            size = self._size()
            self._open += size
            request = self._request if size == self._batch else _request(size)
            await self._connection.publish(self._subject, request, f"{self._inbox}.{next(self._numbers)}")

    def _has_room(self) -> bool:
        if self._alone:
            # What a former life has in hand does not keep this one from its first request.
            return self._open <= 0 and not (self._received and self._in_hand())
        size = self._size()
        if size < self._batch and self._open + self._in_hand() > size:
            return False
        return self._open + self._waiting() <= size

    def _size(self) -> int:
        """Messages that the next request is for."""
        if self._alone:
            return 1
        if self._received >= _WARM * self._batch:
            return self._batch
        return min(self._batch, _FIRST + self._received - self._in_hand())

    def give_up(self, why: str) -> None:
        """This life is over: somebody has seen that the consumer is gone."""
        self._lose(why)

    def check(self) -> None:
        """Notice silence."""
        if self.lost is not None or self._open <= 0 or time.monotonic() - self._heard <= _SILENCE:
            self._suspect = False
        elif not self._suspect:
            # It may be us who were held up, with the heartbeats waiting to be read: look once more.
            self._suspect = True
        else:
            self.silent = True
            self._lose("the server is silent")

    async def end(self, timeout: float) -> None:
        """Have the server send nothing more; what it has sent until then is handed over, or if all is lost, given back.

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

    async def give_back(self, replies: Sequence[str], timeout: float) -> None:
        """Have these messages delivered again, to whoever asks next; for the time after :meth:`end`.

        Our last requests are still open at the server, and a server of the 2.9 series loses sight of a message,
        until ack_wait is over, that it takes up for requests of which none has an inbox any more. So one more
        request for one message is made, on an inbox that is there. On the way to it the server clears ours away,
        and what it brings is given back in turn.

        :param timeout: seconds to wait for what it brings.
        :raises nats.errors.Error: when the connection is gone.
        """
        if not replies:
            return
        answered = asyncio.Event()
        brought: list[str] = []

        async def receive(message: Msg) -> None:
            if message.reply:
                brought.append(message.reply)
            answered.set()

        inbox = self._connection.new_inbox()
        await self._connection.subscribe(inbox, cb=receive)
        await self._connection.publish(self._subject, _LAST_REQUEST, inbox)
        await self._connection.publish_all((reply, GIVE_BACK) for reply in replies)
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                await answered.wait()
        for reply in brought:
            await self._connection.publish(reply, GIVE_BACK)

    def _receive(self, message: Message) -> Awaitable[None] | None:
        self._heard = time.monotonic()
        reply = message.reply
        if not reply:
            self._status(message)
            return None
        if self.lost is not None and not self.suspects:
            # It may come from a stream that was made anew meanwhile, and would get the old one's epoch.
            return self._connection.publish_all([(reply, GIVE_BACK)])
        self._open -= 1
        self._received += 1
        tokens = reply.split(".")
        first = 4 if len(tokens) == _V1_TOKENS else 6
        arrived = Arrived(message, int(tokens[first + 1]), int(tokens[first]))
        if not 0 < self._suspect_after < arrived.deliveries:
            self._alone = False
        elif not self._alone:
            # Not given back yet: our requests are open, and it would be with us again at once.
            self.suspects.append(reply)
            self._lose(f"a message was delivered {arrived.deliveries} times, it is taken alone")
            return None
        if self._open <= self._batch:
            self._kick()
        self._deliver(arrived)
        return None

    def _status(self, message: Message) -> None:
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status == "100":
            return
        description = headers.get("Description", "").strip()
        left = headers.get("Nats-Pending-Messages", "")
        if status == "503":
            self._lose("the consumer is gone")
        elif status == "409" and "consumer" in description.lower():
            self._lose(f"the server says: {description}")
        elif left.isdigit():
            self._open = max(0, self._open - int(left))
            self._kick()
        else:
            self._lose(f"the server ended a request: {status} {description}".rstrip())

    def _lose(self, why: str) -> None:
        if self.lost is None:
            self.lost = why
            self._kick()


def _request(batch: int) -> bytes:
    return msgspec.json.encode({"batch": batch, "expires": int(EXPIRES * 1e9), "idle_heartbeat": int(HEARTBEAT * 1e9)})
