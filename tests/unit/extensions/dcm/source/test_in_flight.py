# SPDX-License-Identifier: Apache-2.0
"""What is in flight is settled once, by its latest delivery, and in its own stream only."""

from __future__ import annotations

import threading

import pytest

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.stream import covers, microseconds, nanoseconds
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.messages import ACK, NAK, JetStreamMessage, NatsMessage


def message(sequence: int, reply: str, deliveries: int = 1) -> JetStreamMessage:
    return JetStreamMessage(NatsMessage("dcm.vm", reply, b""), sequence, deliveries)


def event(epoch: int, sequence: int, deliveries: int = 1) -> Event:
    return Event(id="e", type="t", source="dcm", sequence=(epoch, sequence), deliveries=deliveries)


def deliver(in_flight: JetStreamInFlight, epoch: int, received: JetStreamMessage) -> None:
    if in_flight.track(epoch, received):
        in_flight.emit(epoch, received)


@pytest.fixture
def stopping() -> threading.Event:
    return threading.Event()


@pytest.fixture
def in_flight(stopping: threading.Event) -> JetStreamInFlight:
    return JetStreamInFlight(stopping)


def test_an_acked_message_is_acked_once(in_flight: JetStreamInFlight) -> None:
    deliver(in_flight, 1, message(7, "first"))
    in_flight.settle([event(1, 7)], None)
    in_flight.settle([event(1, 7)], None)
    assert list(in_flight.settlements()) == [("first", ACK)]
    assert in_flight.empty


def test_a_message_redelivered_while_in_hand_is_emitted_once_and_its_last_delivery_is_settled(
    in_flight: JetStreamInFlight,
) -> None:
    deliver(in_flight, 1, message(7, "first"))
    deliver(in_flight, 1, message(7, "second", 2))
    taken = in_flight.take(10, 0.0)
    assert taken is not None
    assert [a.sequence for _, a in taken] == [7]
    in_flight.settle([event(1, 7)], None)
    assert list(in_flight.settlements()) == [("second", ACK)]


def test_a_settlement_of_a_stream_that_was_replaced_is_dropped(in_flight: JetStreamInFlight) -> None:
    deliver(in_flight, 1, message(7, "old"))
    in_flight.forget_replies()
    deliver(in_flight, 2, message(7, "new"))
    in_flight.settle([event(1, 7)], None)
    assert list(in_flight.settlements()) == []
    assert not in_flight.empty
    assert in_flight.pop_all() == ["new"]
    assert in_flight.empty


def test_a_message_of_a_restored_stream_that_is_in_flight_is_settled_by_its_new_delivery(
    in_flight: JetStreamInFlight,
) -> None:
    deliver(in_flight, 1, message(7, "old"))
    in_flight.forget_replies()
    assert in_flight.replies() == []
    assert not in_flight.track(1, message(7, "new", 2))
    in_flight.settle([event(1, 7)], None)
    assert list(in_flight.settlements()) == [("new", ACK)]


@pytest.mark.parametrize(
    ("delay", "deliveries", "payload"),
    [
        (0.0, 3, NAK),
        (1.0, 1, NAK + b' {"delay":1000000000}'),
        (1.0, 3, NAK + b' {"delay":4000000000}'),
        (1.0, 2**40, NAK + b' {"delay":60000000000}'),
    ],
)
def test_a_release_waits_longer_each_time(
    in_flight: JetStreamInFlight, delay: float, deliveries: int, payload: bytes
) -> None:
    deliver(in_flight, 1, message(7, "reply", deliveries))
    in_flight.settle([event(1, 7, deliveries)], delay)
    assert list(in_flight.settlements()) == [("reply", payload)]


def test_what_is_not_emitted_at_the_stop_is_given_back(in_flight: JetStreamInFlight, stopping: threading.Event) -> None:
    deliver(in_flight, 1, message(7, "seven"))
    in_flight.forget_replies()
    deliver(in_flight, 2, message(8, "eight"))
    stopping.set()
    assert in_flight.take(10, 0.0) is None
    assert in_flight.pop_unemitted([]) == ["eight"]
    assert in_flight.empty


def test_the_rest_of_a_batch_waits_for_the_next_take(in_flight: JetStreamInFlight) -> None:
    for n in range(5):
        deliver(in_flight, 1, message(n, str(n)))
    lots = [[a.sequence for _, a in in_flight.take(2, 0.0) or ()] for _ in range(3)]
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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:01.5Z", 1_500_000_000),
        ("2026-07-25T17:20:00.123456789Z", 1_785_000_000_123_456_789),
        ("2026-07-25T19:20:00.1234+02:00", 1_785_000_000_123_400_000),
        ("2026-07-25T17:20:00Z", 1_785_000_000_000_000_000),
        ("0001-01-01T00:00:00Z", 0),
    ],
)
def test_a_time_of_the_server_has_nanoseconds(text: str, expected: int) -> None:
    assert nanoseconds(text) == expected


@pytest.mark.parametrize(
    ("subject", "other", "expected"),
    [
        ("dcm.*", "dcm.*", True),
        ("dcm.*", "dcm.vm", True),
        ("dcm.>", "dcm.*.*", True),
        ("dcm.>", "dcm.>", True),
        (">", "dcm.vm", True),
        ("dcm.*", "dcm.>", False),
        ("dcm.*", "dcm.vm.x", False),
        ("dcm.*", "dcm", False),
        ("dcm.>", "dcm", False),
        ("dcm.vm", "dcm.*", False),
        ("dcm.*", "other.vm", False),
    ],
)
def test_a_subject_covers_what_its_wildcards_match(subject: str, other: str, expected: bool) -> None:
    assert covers(subject, other) is expected
