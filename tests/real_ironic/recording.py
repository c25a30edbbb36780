# SPDX-License-Identifier: Apache-2.0
"""Every notification that Ironic published, in the order in which the message bus had it."""

from __future__ import annotations

import json
import threading
import time
from contextlib import suppress
from typing import Any, Self

import kombu

from tests.real_ironic.cloud import EXCHANGE, TOPIC
from tests.real_nova.processes import wait_for
from tests.real_nova.recording import PRIORITIES, amqp_url
from tests.waiting import deadline

_IDLE_SECONDS = 1.0
_WAIT_SECONDS = 60.0


class Recorder:
    """Reads all notifications from now on, in a thread of its own.

    :param url: of the message bus, as oslo.messaging has it.
    """

    def __init__(self, url: str) -> None:
        self.notifications: list[dict[str, Any]] = []
        """The envelopes."""
        self._last_at = time.monotonic()
        self._connection = kombu.Connection(amqp_url(url))
        self._queue = bind_queue(self._connection, "recorder")
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._read, name="recorder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._thread.join(deadline(10))
        self._queue(self._connection.default_channel).delete()
        self._connection.release()

    def await_silence(self) -> None:
        """Wait until Ironic has published nothing for a moment."""
        wait_for(lambda: time.monotonic() - self._last_at > _IDLE_SECONDS, _WAIT_SECONDS, "silence")

    def _read(self) -> None:
        with self._connection.Consumer(self._queue, callbacks=[self._on_message], no_ack=True):
            while not self._ending.is_set():
                with suppress(TimeoutError):
                    self._connection.drain_events(timeout=0.2)

    def _on_message(self, body: Any, _message: kombu.Message) -> None:
        document = json.loads(body) if isinstance(body, str | bytes) else body
        self.notifications.append(json.loads(document["oslo.message"]))
        self._last_at = time.monotonic()


def bind_queue(connection: kombu.Connection, name: str) -> kombu.Queue:
    """A queue with a copy of every notification from now on. oslo.messaging declares a pool's queue in the same way."""
    exchange = kombu.Exchange(EXCHANGE, "topic", durable=False, auto_delete=False)
    bindings = [kombu.binding(exchange, routing_key=f"{TOPIC}.{priority}") for priority in PRIORITIES]
    queue = kombu.Queue(name, bindings=bindings, durable=False, auto_delete=False)
    queue(connection.default_channel).declare()
    return queue
