# SPDX-License-Identifier: Apache-2.0
"""The types of queues: how each one is declared and consumed, and what it says of a message.

Classic and quorum queues are declared as oslo.messaging's notification listener declares the queue of a pool, with a
binding ``<topic>.<priority>`` for each. An existing queue is taken over with the messages in it. The queue is ours, so
it is durable. One with other properties is used as it is, and :attr:`Queue.note` names the difference.

The exchange is its publisher's. The source never declares it: the broker would refuse a publisher that declares it
otherwise. While it is missing, the queue is consumed. The broker does not say whether a binding is new, so one that may
be counts as a gap.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

from pika import exceptions as pika_exceptions

from watcher_sync.extensions.openstack.source.notifier_options import PRIORITIES
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import AckPosition
from watcher_sync.sources.base import Gaps
from watcher_sync.transports.rabbitmq.broker import Broker
from watcher_sync.transports.rabbitmq.connection import BrokerConnection, Channel, is_mismatch, is_missing


class UnfitQueue(Exception):
    """The queue exists and cannot be consumed as configured."""


class Queue:
    """One queue: a strategy for what differs between the types of queues.

    :param name: of the queue; oslo.messaging's pool.
    :param exchange: that publishers use.
    :param topics: each one is bound with every priority.
    """

    queue_type: ClassVar[str] = "classic"

    def __init__(self, name: str, exchange: str, topics: list[str], broker: Broker) -> None:
        self.name = name
        self.exchange = exchange
        self.keys = [f"{topic}.{priority}" for topic in sorted(set(topics)) for priority in PRIORITIES]
        self.note = ""
        """How the existing queue differs from what is configured; empty if it does not."""
        self.gaps = Gaps()
        self._is_declared = False
        self.unbound = ""
        """Why the queue gets nothing new; empty while it is bound."""
        self._deleted = f"queue {name} was deleted"
        """The gap if the queue is missing after it was declared; empty: none."""
        self._gap = ""
        """Why messages may be lost since the queue was bound. It counts once that is bound again; empty: none are."""
        options = broker.options
        self._auto_delete = bool(options["amqp_auto_delete"])
        self._cancels_on_failover = bool(options["enable_cancel_on_failover"])
        self._options = options
        self._transient = (
            "a restart of the broker deletes it. Once it is empty, delete it, and the source declares a durable one:"
            f" rabbitmqctl delete_queue {shlex.quote(name)} --if-empty --vhost {shlex.quote(broker.virtual_host)}"
        )

    # What the types of queues override

    @property
    def auto_delete(self) -> bool:
        """Whether the broker deletes the queue with its last consumer."""
        return self._auto_delete

    @property
    def loses_restart(self) -> bool:
        """Whether what is published just after a restart of the broker may go to no queue."""
        return not (self._options["amqp_durable_queues"] or self._options["rabbit_quorum_queue"])

    def arguments(self) -> dict[str, Any]:
        """Arguments of the queue's declaration."""
        return {"x-ha-policy": "all"} if self._options["rabbit_ha_queues"] else {}

    def consume_arguments(self) -> dict[str, Any]:
        """Arguments of the consumer; asked at each opening."""
        return {"x-cancel-on-ha-failover": True} if self._cancels_on_failover else {}

    def deliveries(self, redelivered: bool, headers: Mapping[str, Any] | None) -> int:
        """How often a message was delivered, this time included."""
        # From 4.3 on the second one leaves out what was nacked, and the first one has every delivery before.
        counts = [headers.get(name) for name in ("x-acquired-count", "x-delivery-count")] if headers else []
        counted = [count for count in counts if isinstance(count, int)]
        return max(counted) + 1 if counted else 2 if redelivered else 1

    def position(self, generation: int, tag: int, headers: Mapping[str, Any] | None) -> AckPosition:
        """Of a message that was delivered now."""
        return AckPosition(generation, tag)

    async def inspect(self, connection: BrokerConnection, waiting: int, consumers: int) -> tuple[int, int]:
        """What waits in the queue, and how many consumers it has.

        :param waiting: the messages that wait, in the broker's words.
        :param consumers: as the broker counts them.
        :raises Failure: the broker does not say it.
        """
        return waiting, consumers

    # Declaring

    async def declare(self, connection: BrokerConnection) -> None:
        """Declare the queue and its bindings; each one may exist.

        :raises UnfitQueue: the queue exists and cannot be consumed as configured.
        :raises Failure: the broker refuses it, or the connection is lost.
        """
        if self._is_declared and not await self._exists(connection):
            self._gap = self._gap or self._deleted
        self.note = await self._declare_queue(connection)
        channel = await connection.open_channel()
        await self.bind(channel)
        if not self.unbound:
            await channel.close()
        self._is_declared = True

    def report_away(self) -> None:
        """No broker accepts us. One that restarts removes a transient exchange, and its publisher may return first."""
        if self._is_declared and self.loses_restart:
            self._gap = f"no broker accepted us, and what exchange {self.exchange} got first may be in no queue"

    async def bind(self, channel: Channel) -> None:
        """Bind the queue to the exchange. If that is missing, the broker closes the channel: see :attr:`unbound`.

        :raises Failure: the queue or permission is missing, or the connection is lost.
        """
        try:  # by itself: the code is the same for a queue that was deleted meanwhile
            await channel.call(channel.library.exchange_declare, self.exchange, passive=True)
        except pika_exceptions.ChannelClosedByBroker as exc:
            if not is_missing(exc):
                raise
            self.unbound = f"queue {self.name} waits for the exchange {self.exchange}, which its publisher declares"
            self._gap = f"exchange {self.exchange} was missing, and what was published first is in no queue of ours"
            return
        for key in self.keys:
            await channel.call(channel.library.queue_bind, self.name, self.exchange, routing_key=key)
        self.unbound = ""
        if self._gap:
            self.gaps.add(self._gap)
            self._gap = ""

    async def _exists(self, connection: BrokerConnection) -> bool:
        channel = await connection.open_channel()
        try:
            await channel.call(channel.library.queue_declare, self.name, passive=True)
        except pika_exceptions.ChannelClosedByBroker as exc:
            if not is_missing(exc):
                raise
            return False
        await channel.close()
        return True

    async def _declare_queue(self, connection: BrokerConnection) -> str:
        """Declare the queue; how an existing one differs.

        The broker names one difference only. So the flags are given as the queue has them, until it names no more.
        """
        flags = {"durable": True, "auto_delete": self.auto_delete}
        differences: list[str] = []
        while (difference := await self._try_declaring(connection, flags)) is not None:
            differences.append(difference)
            flag = _flag_of(difference)
            if flag not in flags or len(differences) > len(flags):
                break
            flags[flag] = not flags[flag]
        if not differences:
            return ""
        if self._is_unfit(differences):
            raise UnfitQueue(f"queue {self.name} is no {self.queue_type} queue: {differences[-1]}")
        advice = "" if flags["durable"] else f"; {self._transient}"
        return f"queue {self.name} is used as it is: {'; '.join(differences)}{advice}"

    def _is_unfit(self, differences: Sequence[str]) -> bool:
        """Whether the queue cannot be consumed as configured.

        :param differences: of the existing queue, in the broker's words.
        """
        return any("x-queue-type" in text and "'stream'" in text for text in differences)

    async def _try_declaring(self, connection: BrokerConnection, flags: Mapping[str, bool]) -> str | None:
        """The difference that the broker names; None: the queue is as declared."""
        channel = await connection.open_channel()
        try:
            await channel.call(channel.library.queue_declare, self.name, arguments=self.arguments() or None, **flags)
        except pika_exceptions.ChannelClosedByBroker as exc:
            if not is_mismatch(exc):
                raise
            return str(exc.reply_text)
        await channel.close()
        return None


def _flag_of(difference: str) -> str:
    """The name after ``inequivalent arg`` in the broker's words; empty if it says something else."""
    _, _, rest = difference.partition("inequivalent arg '")
    return rest.partition("'")[0] if rest else ""


class ClassicQueue(Queue):
    """The default of RabbitMQ."""


class QuorumQueue(Queue):
    """Durable and replicated; the broker counts the deliveries of each message."""

    queue_type = "quorum"

    def arguments(self) -> dict[str, Any]:
        limits = {
            "x-delivery-limit": self._options["rabbit_quorum_delivery_limit"],
            "x-max-in-memory-length": self._options["rabbit_quorum_max_memory_length"],
            "x-max-in-memory-bytes": self._options["rabbit_quorum_max_memory_bytes"],
        }
        return {"x-queue-type": "quorum"} | {name: value for name, value in limits.items() if value}


QUEUES: Final[dict[str, type[Queue]]] = {"classic": ClassicQueue, "quorum": QuorumQueue}
"""queue_type -> its class."""
