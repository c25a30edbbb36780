# SPDX-License-Identifier: Apache-2.0
"""Messages reach the emitting thread in order, and settlements the I/O thread once."""

from __future__ import annotations

import threading

import pytest

from tests.waiting import deadline
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import AckPosition, QueuedMessage, RabbitInFlight


def message(tag: int, size: int = 1) -> QueuedMessage:
    return QueuedMessage(AckPosition(1, tag), b"x" * size, 1)


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def in_flight(stopping: threading.Event) -> RabbitInFlight:
    return RabbitInFlight(stopping)


def test_messages_are_taken_in_order_and_bounded_in_number_and_bytes(in_flight: RabbitInFlight) -> None:
    in_flight.add([message(tag) for tag in range(5)])
    assert [m.position.tag for m in in_flight.take(2) or []] == [0, 1]
    in_flight.add([message(5, 10), message(6, 10)])
    assert in_flight.unemitted_bytes() == 23
    assert [m.position.tag for m in in_flight.take(100, 8) or []] == [2, 3, 4, 5]
    assert [m.position.tag for m in in_flight.drop_unemitted()] == [6]


def test_a_stop_ends_the_wait_for_messages(in_flight: RabbitInFlight, stopping: threading.Event) -> None:
    taken: list[object] = []
    emitter = threading.Thread(target=lambda: taken.append(in_flight.take(10)))
    emitter.start()
    stopping.set()
    in_flight.wake()
    emitter.join(deadline(30))
    assert taken == [None]


def test_settlements_are_passed_on_once(in_flight: RabbitInFlight) -> None:
    events = [Event(id="e", type="t", source="nova")]
    in_flight.settle(events, None)
    in_flight.settle(events, 2.0)
    assert in_flight.wait_settled(0)
    assert list(in_flight.settlements()) == [(events, None), (events, 2.0)]
    assert list(in_flight.settlements()) == []
    assert not in_flight.wait_settled(0)
