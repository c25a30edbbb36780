# SPDX-License-Identifier: Apache-2.0
"""How much is requested after a start, and when an isolated message is emitted."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.dcm.source.isolation import RedeliveryIsolation
from watcher_sync.transports.nats.messages import JetStreamMessage, NatsMessage

BATCH = 100
LIMIT = 5


def message(sequence: int, deliveries: int = 1) -> JetStreamMessage:
    return JetStreamMessage(NatsMessage("dcm.vm", "reply", b""), sequence, deliveries)


def isolation(*, limit: int = LIMIT, slow_start: bool = False) -> RedeliveryIsolation:
    return RedeliveryIsolation("dcm", limit=limit, batch=BATCH, slow_start=slow_start)


@pytest.mark.parametrize(
    ("requested", "in_flight", "unemitted", "size"),
    [(0, 0, 0, 100), (100, 500, 0, 100), (101, 500, 0, 0), (60, 500, 41, 0)],
)
def test_a_batch_is_requested_while_no_more_than_one_is_requested_or_unemitted(
    requested: int, in_flight: int, unemitted: int, size: int
) -> None:
    assert isolation().request_size(requested=requested, in_flight=in_flight, unemitted=unemitted) == size


def test_a_slow_start_requests_what_was_settled_and_a_few_more() -> None:
    made = isolation(limit=0, slow_start=True)
    sizes = []
    for in_flight in (0, 10, 10, 0):
        sizes.append(made.request_size(requested=0, in_flight=in_flight, unemitted=0))
        for number in range(30):
            assert made.may_emit(message(number))
    assert sizes == [32, 32 + 30 - 10, 32 + 60 - 10, 100]


def test_a_slow_start_requests_nothing_while_as_much_is_in_flight() -> None:
    made = isolation(limit=0, slow_start=True)
    for number in range(32):
        made.may_emit(message(number))
    assert made.request_size(requested=0, in_flight=32, unemitted=0) == 32
    assert made.request_size(requested=1, in_flight=32, unemitted=0) == 0


def test_after_a_start_one_message_is_requested_at_a_time_until_one_is_below_the_limit() -> None:
    made = isolation(slow_start=True)
    assert made.request_size(requested=0, in_flight=0, unemitted=0) == 1
    assert made.may_emit(message(1, LIMIT + 1)), "it is alone"
    assert made.request_size(requested=0, in_flight=1, unemitted=0) == 0
    assert made.request_size(requested=0, in_flight=0, unemitted=0) == 1
    assert made.may_emit(message(2, LIMIT))
    assert made.request_size(requested=0, in_flight=0, unemitted=0) > 1
    assert not made.may_emit(message(3, LIMIT + 1)), "others are requested beside it"


@pytest.mark.parametrize(("requested", "in_flight", "emitted"), [(0, 1, True), (1, 1, False), (0, 2, False)])
def test_an_isolated_message_is_emitted_when_nothing_else_is_in_flight_or_requested(
    requested: int, in_flight: int, emitted: bool
) -> None:
    made = isolation()
    isolated = message(7, LIMIT + 1)
    assert not made.may_emit(isolated)
    made.add((1, 7), isolated)
    assert made.request_size(requested=0, in_flight=1, unemitted=0) == 0
    popped = made.pop(requested=requested, in_flight=in_flight)
    assert popped == (((1, 7), isolated) if emitted else None)
    assert len(made) == (not emitted)


def test_without_a_limit_no_message_is_isolated() -> None:
    made = isolation(limit=0, slow_start=True)
    assert made.request_size(requested=0, in_flight=0, unemitted=0) > 1
    assert made.may_emit(message(1, 10_000))


def test_one_line_says_that_isolation_begins(caplog: pytest.LogCaptureFixture) -> None:
    made = isolation()
    for sequence in (7, 8):
        made.add((1, sequence), message(sequence, 6))
    assert [record.getMessage() for record in caplog.records] == [
        "source dcm: isolating message 7 after 6 deliveries: it is emitted alone"
    ]
    assert made.clear() == [(1, 7), (1, 8)]
    assert not made
