# SPDX-License-Identifier: Apache-2.0
"""Pulling from one JetStream consumer, with requests in flight all the time.

The client library's ``fetch`` makes a task and a timer for each message and waits for one request before it
makes the next. Here is what it does, without that: one subscription on an inbox of our own takes everything,
and a request for a batch is a publish that names the inbox as its reply. Two requests are kept in flight, so
that the server never waits for us: as soon as no more than one batch is asked for and not worked off, the next
one is asked for.

How messages are counted: the server does not say which request a message answers, so the open ones are
counted together. A request that ends unfulfilled is told by a status message with the number of messages that
are left of it. A server of the 2.9 series ends one without a word when a message comes at the very moment, so what
may be left of a request is counted no longer than a second after its time. Should the count be wrong nevertheless,
no request is open while we think one is; then there are no heartbeats either, and the pulling begins anew.

:attr:`Pulling.lost` says when that has to happen: the consumer is gone (409, 503), the server ended a request
without saying what is left of it, or nothing, not even a heartbeat, was heard for three times their interval.

A careful life begins with little in hand and takes more as what it took is settled: an engine that dies again and again
soon after its start then has not much more in hand than it has done, and counts up the deliveries of few.

What is delivered again and again may be what ends the engine each time, and whatever is in hand beside it then has
its deliveries counted too. So a message that was delivered more often than ``suspect_after`` is only handed over alone.
A careful life begins with one request for one message, and the next when that one is settled, because the server
delivers first what it delivers again, and goes over to batches with the first message that is no suspect. A suspect
that comes in a batch is put aside, and no more is asked for. What is still on its way is handed over as it comes. When
every request is fulfilled or has expired, and all but what is aside is settled, one suspect after the other is handed
over, the next when that one is settled. Then the requests go on as at the beginning of a careful life. So nothing is
delivered twice on account of a suspect beside it, and it waits :data:`EXPIRES` at most where little comes.

Guaranteed: messages are handed over in the order of their arrival, each with its sequence and the count of its
deliveries, but for those that are put aside. All runs in the thread of the connection's event loop.
"""

from __future__ import annotations

import asyncio
import collections
import itertools
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import msgspec
from nats.aio.subscription import Subscription
from nats.errors import Error as NatsError

from watcher_sync.sources.nats.client import DirectClient, Message

HEARTBEAT: Final = 2.0
"""Seconds of silence after which the server sends a heartbeat for a request."""

EXPIRES: Final = 8.0
"""Seconds after which the server ends a request that is not fulfilled: later than its silence is noticed."""

GIVE_BACK: Final = b"-NAK"
"""What a message is settled with that is to be delivered again."""

_SILENCE: Final = 3 * HEARTBEAT
_GRACE: Final = 1.0
"""Seconds after its end in which we should have been told of it."""
_V1_TOKENS: Final = 9
_PENDING: Final = 4
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
    :param suspect_after: deliveries after which a message is handed over alone only; 0: none is.
    :param put_aside: takes each message that came among others and is to be handed over alone.
    :param aside: how many of those wait; they are in hand.
    :param emit_one_aside: hands one of them over.
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
        put_aside: Callable[[Arrived], None] = lambda _: None,
        aside: Callable[[], int] = lambda: 0,
        emit_one_aside: Callable[[], None] = lambda: None,
    ) -> None:
        self.lost: str | None = None
        """Why this life is over; None while it is not."""
        self.silent = False
        """Whether the server did not answer: the connection is not to be trusted any more."""
        self._connection = connection
        self._subject = subject
        self._batch = batch
        self._deliver = deliver
        self._waiting = waiting
        self._kick = kick
        self._in_hand = in_hand
        self._received = 0 if careful else _WARM * batch
        self._suspect_after = suspect_after
        self._put_aside = put_aside
        self._aside = aside
        self._emit_one_aside = emit_one_aside
        self._alone = careful and suspect_after > 0
        self._inbox = connection.new_inbox()
        self._numbers = itertools.count(1)
        self._open = 0
        # Of each request that may be open: until when, and for how many messages it was; and their sum.
        self._requests: collections.deque[tuple[float, int]] = collections.deque()
        self._requested = 0
        self._heard = 0.0
        self._latest: str | None = None
        self._doubted = False
        self._subscription: Subscription | None = None
        self._request = _request(batch)

    async def begin(self) -> None:
        """Subscribe. :raises nats.errors.Error: when the connection is gone."""
        self._heard = time.monotonic()
        self._subscription = await self._connection.listen(f"{self._inbox}.*", self._receive)

    async def ask(self) -> None:
        """Make as many requests as there is room for, or hand over what waits for its turn to be alone.

        :raises nats.errors.Error: when the connection is gone.
        """
        self._forget_expired()
        if self._aside():
            if self._open <= 0 and self._in_hand() == self._aside():
                self._alone = True
                self._emit_one_aside()
            return
        while self.lost is None and self._has_room():
            now = time.monotonic()
            if self._open <= 0:
                self._heard = now
            size = self._size()
            self._open += size
            self._requested += size
            self._requests.append((now + EXPIRES + _GRACE, size))
            request = self._request if size == self._batch else _request(size)
            await self._connection.publish(self._subject, request, f"{self._inbox}.{next(self._numbers)}")

    def _forget_expired(self) -> None:
        """Not more can be open than was asked for by requests whose time is not over."""
        now = time.monotonic()
        while self._requests and self._requests[0][0] < now:
            self._requested -= self._requests.popleft()[1]
        self._open = min(self._open, self._requested)

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

    def left_behind(self) -> int | None:
        """How many messages the server had left when it sent the latest one; None: none came since the last call."""
        latest, self._latest = self._latest, None
        if latest is None:
            return None
        tokens = latest.split(".")
        return int(tokens[_first_of(tokens) + _PENDING])

    def give_up(self, why: str) -> None:
        """This life is over: somebody has seen that the consumer is gone."""
        self._lose(why)

    def check(self) -> None:
        """Notice silence."""
        if self.lost is not None or self._open <= 0 or time.monotonic() - self._heard <= _SILENCE:
            self._doubted = False
        elif not self._doubted:
            # It may be us who were held up, with the heartbeats waiting to be read: look once more.
            self._doubted = True
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

    def _receive(self, message: Message) -> Awaitable[None] | None:
        self._heard = time.monotonic()
        reply = message.reply
        if not reply:
            self._status(message)
            return None
        if self.lost is not None:
            # It may come from a stream that was made anew meanwhile, and would get the old one's epoch.
            return self._connection.publish_all([(reply, GIVE_BACK)])
        self._open -= 1
        self._received += 1
        self._latest = reply
        tokens = reply.split(".")
        first = _first_of(tokens)
        arrived = Arrived(message, int(tokens[first + 1]), int(tokens[first]))
        if self._open <= self._batch:
            self._kick()
        if not 0 < self._suspect_after < arrived.deliveries:
            self._alone = False
        elif not self._alone:
            self._put_aside(arrived)
            return None
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


def _first_of(tokens: Sequence[str]) -> int:
    """Where in a reply subject its numbers begin: deliveries, stream sequence, consumer sequence, time, pending."""
    return 4 if len(tokens) == _V1_TOKENS else 6


def _request(batch: int) -> bytes:
    return msgspec.json.encode({"batch": batch, "expires": int(EXPIRES * 1e9), "idle_heartbeat": int(HEARTBEAT * 1e9)})
