# SPDX-License-Identifier: Apache-2.0
"""What is in hand is settled once, by its latest delivery, and in its own stream only."""

from __future__ import annotations

import threading

import pytest

from watcher_sync.events import Event
from watcher_sync.sources.nats.client import Message
from watcher_sync.sources.nats.consumer import GIVE_BACK, Arrived
from watcher_sync.sources.nats.in_flight import ACK, InFlight
from watcher_sync.sources.nats.stream import NotReady, microseconds


def arrived(sequence: int, reply: str, deliveries: int = 1) -> Arrived:
    return Arrived(Message("dcm.vm", reply, b""), sequence, deliveries)


def event(epoch: int, sequence: int, deliveries: int = 1) -> Event:
    return Event(id="e", type="t", source="dcm", sequence=(epoch, sequence), deliveries=deliveries)


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def hands(stopping: threading.Event) -> InFlight:
    return InFlight(stopping)


def test_an_acked_message_is_acked_once(hands: InFlight) -> None:
    hands.deliver(1, arrived(7, "first"))
    hands.settle([event(1, 7)], None)
    hands.settle([event(1, 7)], None)
    assert list(hands.settlements(1)) == [("first", ACK)]
    assert hands.empty


def test_a_message_that_is_delivered_again_while_in_hand_is_emitted_once_and_settled_by_its_latest_delivery(
    hands: InFlight,
) -> None:
    hands.deliver(1, arrived(7, "first"))
    hands.deliver(1, arrived(7, "second", 2))
    taken = hands.take(10, 0.0)
    assert taken is not None
    assert [a.sequence for _, a in taken] == [7]
    hands.settle([event(1, 7)], None)
    assert list(hands.settlements(1)) == [("second", ACK)]


def test_a_settlement_of_another_epoch_is_dropped(hands: InFlight) -> None:
    hands.deliver(1, arrived(7, "old"))
    hands.deliver(2, arrived(7, "new"))
    hands.settle([event(1, 7)], None)
    assert list(hands.settlements(2)) == []
    assert not hands.empty
    assert hands.rest(2) == ["new"]
    assert hands.empty


@pytest.mark.parametrize(
    ("delay", "deliveries", "payload"),
    [
        (0.0, 3, GIVE_BACK),
        (1.0, 1, GIVE_BACK + b' {"delay":1000000000}'),
        (1.0, 3, GIVE_BACK + b' {"delay":4000000000}'),
        (1.0, 2**40, GIVE_BACK + b' {"delay":60000000000}'),
    ],
)
def test_a_release_waits_longer_each_time(hands: InFlight, delay: float, deliveries: int, payload: bytes) -> None:
    hands.deliver(1, arrived(7, "reply", deliveries))
    hands.settle([event(1, 7, deliveries)], delay)
    assert list(hands.settlements(1)) == [("reply", payload)]


def test_what_is_not_emitted_at_the_stop_is_given_back(hands: InFlight, stopping: threading.Event) -> None:
    hands.deliver(1, arrived(7, "seven"))
    hands.deliver(2, arrived(8, "eight"))
    stopping.set()
    assert hands.take(10, 0.0) is None
    assert hands.unemitted(2) == ["eight"]
    assert hands.empty


def test_the_rest_of_a_batch_waits_for_the_next_take(hands: InFlight) -> None:
    for n in range(5):
        hands.deliver(1, arrived(n, str(n)))
    lots = [[a.sequence for _, a in hands.take(2, 0.0) or ()] for _ in range(3)]
    assert lots == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:00Z", 0),
        ("1970-01-01T00:00:01.5Z", 1_500_000),
        ("2026-07-25T17:20:00.123456789Z", 1_785_000_000_123_456),
        ("2026-07-25T19:20:00.1234+02:00", 1_785_000_000_123_400),
    ],
)
def test_a_creation_time_is_an_epoch_in_microseconds(text: str, expected: int) -> None:
    assert microseconds(text) == expected


def test_what_is_no_creation_time_is_not_taken_for_one() -> None:
    with pytest.raises(NotReady, match="no time"):
        microseconds("yesterday")
