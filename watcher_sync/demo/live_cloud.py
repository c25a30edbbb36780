# SPDX-License-Identifier: Apache-2.0
"""Publishes the simulated cloud's notifications on an in-memory bus, in real time.

The bus is kombu's in-memory transport (``kombu+memory:////``), which has RabbitMQ's exchanges, topics and queues. A
message is lost if it is published before a listener has bound its queue, as on any bus.

Guarantee: after :meth:`LiveCloud.stop`, each notification that the simulator made was published at least once. Bad
input and disorder do not change the truth. ``held_back`` limits how far the cloud runs ahead, at its end, too.

One thread runs the simulator and publishes. Any thread may read the counts.
"""

from __future__ import annotations

import itertools
import json
import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec
from kombu.connection import Connection
from kombu.entity import Exchange
from kombu.messaging import Producer

from watcher_sync.testing.nova.cloud import CloudSimulator, duplicated, pace, shuffled
from watcher_sync.testing.nova.notifications import Document
from watcher_sync.testing.poison import poison

TRANSPORT_URL: Final = "kombu+memory:////"
"""Where to listen, for oslo.messaging."""

_PORTION: Final = 25
"""Notifications that are made at once, so that their order can differ from the order of publication."""
_LARGEST: Final = 1 << 16


class LiveCloud:
    """A cloud simulator with a thread that publishes.

    :param rate: notifications a second; None: as fast as it goes.
    :param poison_percent: bodies that belong into quarantine, in percent of the notifications.
    :param disorder: whether some notifications come out of order, and some twice.
    :param held_back: asked before each notification; the cloud waits while it returns True.
    :param seed: decides the disorder and the poison.
    """

    def __init__(
        self,
        simulator: CloudSimulator,
        *,
        rate: float | None,
        poison_percent: float = 0.0,
        disorder: bool = False,
        held_back: Callable[[], bool] = lambda: False,
        seed: int = 0,
        exchange: str = "nova",
        topic: str = "versioned_notifications",
    ) -> None:
        self.published = 0
        """Messages on the bus, of every kind."""
        self.poisoned = 0
        """Those of them that belong into quarantine."""
        self.repeated = 0
        """Those of them that came a second time."""
        self.failure: Exception | None = None
        """What ended the cloud before its time."""
        self._simulator = simulator
        self._rate = rate
        self._poison_share = poison_percent / 100
        self._disorder = disorder
        self._held_back = held_back
        self._rng = random.Random(seed)
        self._exchange = _exchange(exchange)
        self._topic = topic
        self._bad_bodies = self._poison()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="simulated-cloud", daemon=True)

    def start(self) -> None:
        """Begin to publish; returns at once."""
        self._thread.start()

    def stop(self, timeout: float) -> bool:
        """Begin nothing more and publish what is in hand; whether that was done in ``timeout`` seconds."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            with Connection(TRANSPORT_URL.removeprefix("kombu+")) as connection:  # type: ignore[no-untyped-call]
                producer = Producer(connection, exchange=self._exchange)  # type: ignore[no-untyped-call]
                self._publish_all(producer, self._simulator.events(), self._rate)
        except Exception as exc:  # noqa: BLE001 - the edge of our thread: the demo reports it
            self.failure = exc

    def _publish_all(self, producer: Any, events: Iterator[Document], rate: float | None) -> None:
        stream = self._until_stopped(events)
        if self._disorder:
            stream = self._disordered(stream)
        if rate is not None:
            stream = pace(stream, rate, clock=time.monotonic, sleep=self._stopping.wait)
        for event in stream:
            while self._held_back():
                time.sleep(0.01)
            self._publish(producer, _body(event), event["priority"].lower())
            if self._rng.random() < self._poison_share:
                self._publish(producer, next(self._bad_bodies), "info")
                self.poisoned += 1

    def _publish(self, producer: Any, body: bytes, priority: str) -> None:
        producer.publish(
            body,
            routing_key=f"{self._topic}.{priority}",
            content_type="application/json",
            content_encoding="utf-8",
        )
        self.published += 1

    def _until_stopped(self, events: Iterator[Document]) -> Iterator[Document]:
        """What was taken from the simulator is part of the truth, so the last one taken is published, too."""
        while not self._stopping.is_set():
            event = next(events, None)
            if event is None:
                return
            yield event

    def _disordered(self, events: Iterator[Document]) -> Iterator[Document]:
        while portion := list(itertools.islice(events, _PORTION)):
            doubled = duplicated(portion, self._rng, 0.04)
            self.repeated += len(doubled) - len(portion)
            yield from shuffled(doubled, self._rng, window=8)

    def _poison(self) -> Iterator[bytes]:
        """Bad bodies without end, in random order; only tests use the huge ones."""
        while True:
            bodies = [item.raw for item in poison(self._rng, form="oslo") if item.quarantine]
            small = [body for body in bodies if len(body) < _LARGEST and _is_passed_on(body)]
            self._rng.shuffle(small)
            yield from small


def _body(event: Document) -> bytes:
    """Wrapped, without the unique id by which oslo.messaging drops a notification that comes twice."""
    return msgspec.json.encode({"oslo.version": "2.0", "oslo.message": msgspec.json.encode(event).decode()})


def _is_passed_on(body: bytes) -> bool:
    """Whether oslo.messaging passes a bad body on as it is.

    It drops what is no notification with a priority, and of two equal keys it preserves the last one only.
    """
    try:
        wrapper = json.loads(body)
        inner = json.loads(wrapper["oslo.message"], object_pairs_hook=_unequal)
        return wrapper["oslo.version"] == "2.0" and isinstance(inner["priority"], str)
    except (KeyError, TypeError, ValueError, RecursionError):
        return False


def _unequal(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def _exchange(name: str) -> Any:
    """As oslo.messaging declares it."""
    return Exchange(name, type="topic", durable=False, auto_delete=False)  # type: ignore[no-untyped-call]
