# SPDX-License-Identifier: Apache-2.0
"""Every notification that the cloud published, in the order in which the message buses had it.

The recorder has a queue of its own on each message bus. So the story can wait for the event that ends a step, and a
failing test can show what Nova said. One thread reads each queue; any thread may look at what was read.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self

import kombu

from tests.real_nova.cloud import EXCHANGE, TOPIC
from tests.real_nova.processes import wait_for
from tests.waiting import deadline

PRIORITIES = ("info", "warn", "error", "critical")

_IDLE_SECONDS = 1.0
_WAIT_SECONDS = 90.0


class Notification(NamedTuple):
    """One notification."""

    event_type: str
    publisher: str
    timestamp: str
    data: dict[str, Any]
    """The fields of the payload."""
    document: dict[str, Any]
    """The whole envelope."""

    @property
    def request(self) -> str:
        """The id of the request that led to it."""
        return str(self.document["_context_request_id"])

    def __str__(self) -> str:
        data = self.data
        task = (data.get("task_state"), (data.get("state_update") or {}).get("nova_object.data"))
        return (
            f"{self.timestamp} {self.publisher} {self.event_type} host={data.get('host')} state={data.get('state')} "
            f"task_state={task} updated_at={data.get('updated_at')}"
        )


class Recorder:
    """Reads all notifications from now on.

    :param urls: of the message buses, as oslo.messaging has them.
    """

    def __init__(self, urls: Iterable[str], *, exchange: str = EXCHANGE, topic: str = TOPIC) -> None:
        self.notifications: list[Notification] = []
        self._last_at = time.monotonic()
        connections = [kombu.Connection(amqp_url(url)) for url in urls]
        self._queues = [(one, bind_queue(one, "recorder", exchange, topic)) for one in connections]
        self._ending = threading.Event()
        self._threads = [
            threading.Thread(target=self._read, args=queue, name="recorder", daemon=True) for queue in self._queues
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        for thread, (connection, queue) in zip(self._threads, self._queues, strict=True):
            thread.join(deadline(10))
            queue(connection.default_channel).delete()
            connection.release()

    @property
    def count(self) -> int:
        return len(self.notifications)

    def since(self, number: int) -> Sequence[Notification]:
        """The notifications after the first ``number``."""
        return self.notifications[number:]

    def await_event(self, event_type: str, server_id: str | None, since: int) -> None:
        """Wait for an event of a server, or of anything.

        :raises CloudBroken: it did not come.
        """

        def came() -> bool:
            return any(
                n.event_type == event_type and server_id in (None, n.data.get("uuid"), n.data.get("instance_uuid"))
                for n in self.since(since)
            )

        wait_for(came, _WAIT_SECONDS, f"{event_type} of {server_id}")

    def await_silence(self) -> None:
        """Wait until the cloud has published nothing for a moment."""
        wait_for(lambda: time.monotonic() - self._last_at > _IDLE_SECONDS, _WAIT_SECONDS, "silence")

    def _read(self, connection: kombu.Connection, queue: kombu.Queue) -> None:
        with connection.Consumer(queue, callbacks=[self._on_message], no_ack=True):
            while not self._ending.is_set():
                with suppress(TimeoutError):
                    connection.drain_events(timeout=0.2)

    def _on_message(self, body: Any, _message: kombu.Message) -> None:
        document = json.loads(body) if isinstance(body, str | bytes) else body
        envelope = json.loads(document["oslo.message"]) if "oslo.message" in document else document
        data = envelope["payload"].get("nova_object.data", {})
        notification = Notification(
            envelope["event_type"], envelope["publisher_id"], envelope["timestamp"], data, envelope
        )
        self.notifications.append(notification)
        self._last_at = time.monotonic()


def amqp_url(url: str) -> str:
    """The URL of a message bus for AMQP clients."""
    return "amqp://" + url.partition("://")[2]


def bind_queue(
    connection: kombu.Connection, name: str, exchange_name: str = EXCHANGE, topic: str = TOPIC
) -> kombu.Queue:
    """A queue with a copy of every notification from now on. oslo.messaging declares a pool's queue in the same way."""
    exchange = kombu.Exchange(exchange_name, "topic", durable=False, auto_delete=False)
    bindings = [kombu.binding(exchange, routing_key=f"{topic}.{priority}") for priority in PRIORITIES]
    queue = kombu.Queue(name, bindings=bindings, durable=False, auto_delete=False)
    queue(connection.default_channel).declare()
    return queue
