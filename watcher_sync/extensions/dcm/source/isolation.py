# SPDX-License-Identifier: Apache-2.0
"""Isolation of messages that may end the process, and a slow start after the process has ended.

A message may end the process each time. The server then redelivers everything that was in flight. Its
neighbours reach ``max_deliveries``, too.

* A message above the limit is *isolated*: it is emitted when nothing else is in flight.
* Requests are *serial*, for one message each, at the start and after an isolated message. A message below the limit
  ends this.
* A *slow start* limits what is in flight to what was settled, plus a few.

When a connection ends, the server counts these deliveries, too. :class:`ConnectionLosses` subtracts them.

For the event loop's thread only. The decision record ``redelivery-isolation`` has the figures.
"""

from __future__ import annotations

import collections
from typing import Final

import msgspec
from oslo_log import log as logging

from watcher_sync.transports.nats.messages import JetStreamMessage, stored_time_of

LOG = logging.getLogger(__name__)

Key = tuple[int, int]
"""(epoch, sequence) of one message."""

_SLOW_START_BATCHES: Final = 4
"""Batches after which the slow start is over."""

_FIRST_REQUEST: Final = 32
"""Messages of the first request of a slow start."""


_MAX_LOSSES: Final = 100
"""Connections whose loss is remembered."""


class ConnectionLosses:
    """When this process lost a connection with messages in flight, and the deliveries that this explains.

    A message that ends the process ends this count, too: the next process counts each of its deliveries.
    """

    def __init__(self) -> None:
        # Nanoseconds since 1970, ascending.
        self._times: collections.deque[int] = collections.deque(maxlen=_MAX_LOSSES)

    def add(self, time: int) -> None:
        """A connection is lost.

        :param time: nanoseconds since 1970.
        """
        self._times.append(time)

    def without(self, message: JetStreamMessage) -> JetStreamMessage:
        """The message with the deliveries that no lost connection explains, at least one.

        Only connections count that were lost after the server stored the message.
        """
        if message.deliveries <= 1 or not self._times:
            return message
        stored_at = stored_time_of(message.message.reply)
        lost = sum(time > stored_at for time in self._times)
        return msgspec.structs.replace(message, deliveries=max(1, message.deliveries - lost))


class RedeliveryIsolation:
    """The isolated messages of one source, and the size of its next pull request.

    :param name: of the source.
    :param limit: deliveries above which a message is isolated; 0: none is.
    :param batch: messages of one request, once the slow start is over.
    :param slow_start: False where no earlier process can have ended with messages in flight.
    """

    def __init__(self, name: str, *, limit: int, batch: int, slow_start: bool = True) -> None:
        self._name = name
        self._limit = limit
        self._batch = batch
        self._serial = slow_start and limit > 0
        self._received = 0 if slow_start else _SLOW_START_BATCHES * batch
        self._isolated: dict[Key, JetStreamMessage] = {}

    def __len__(self) -> int:
        """How many messages are isolated and not yet emitted. They count as in flight, too."""
        return len(self._isolated)

    def request_size(self, *, requested: int, in_flight: int, unemitted: int) -> int:
        """Messages that the next request may ask for; 0: none now.

        :param requested: messages that the open requests may still bring.
        :param in_flight: messages that are delivered and not settled.
        :param unemitted: those of them that the engine has not taken yet.
        """
        if self._isolated:
            return 0
        if self._serial:
            return 1 if requested <= 0 and in_flight <= 0 else 0
        size = self._batch
        if self._received < _SLOW_START_BATCHES * self._batch:
            size = min(size, _FIRST_REQUEST + self._received - in_flight)
            if size < self._batch and requested + in_flight > size:
                return 0
        return size if requested + unemitted <= size else 0

    def may_emit(self, message: JetStreamMessage) -> bool:
        """Whether a message that has arrived may be emitted now; if not, :meth:`add` takes it."""
        self._received += 1
        if not 0 < self._limit < message.deliveries:
            self._serial = False
            return True
        return self._serial

    def add(self, key: Key, message: JetStreamMessage) -> None:
        """Isolate a message."""
        if not self._isolated:
            LOG.warning(
                "source %s: isolating message %d after %d deliveries: it is emitted alone",
                self._name,
                message.sequence,
                message.deliveries,
            )
        self._isolated[key] = message

    def pop(self, *, requested: int, in_flight: int) -> tuple[Key, JetStreamMessage] | None:
        """The next isolated message, once no other message is in flight and none is requested.

        If it ends the process, those that wait here get one more delivery, too. So the order alternates with the
        deliveries: lowest sequence first, then highest first. Two restarts settle what surrounds a fatal message.
        """
        if not self._isolated or requested > 0 or in_flight > len(self._isolated):
            return None
        self._serial = True
        turn = max(message.deliveries for message in self._isolated.values())
        key = min(self._isolated) if turn % 2 else max(self._isolated)
        return key, self._isolated.pop(key)

    def clear(self) -> list[Key]:
        """Isolate nothing any more; the keys of what was not emitted."""
        keys = list(self._isolated)
        self._isolated.clear()
        return keys
