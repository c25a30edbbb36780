# SPDX-License-Identifier: Apache-2.0
"""The ledger acknowledges what was committed, all of it, nothing else, and on the channel that delivered it only."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.extensions.openstack.source.rabbitmq.in_flight import AckLedger, AckPosition


class Broker:
    """RabbitMQ's side of a queue with one consumer: what waits, and what each channel was delivered."""

    def __init__(self) -> None:
        self.generation = 0
        self.waiting: list[int] = []
        self.unacked: dict[int, int] = {}
        self.acked: list[int] = []
        self.last_tag = 0

    def open(self, generation: int) -> None:
        self.waiting = sorted([*self.waiting, *self.unacked.values()])
        self.unacked = {}
        self.generation = generation
        self.last_tag = 0

    def deliver(self) -> tuple[int, int] | None:
        """(tag, message)."""
        if not self.waiting:
            return None
        self.last_tag += 1
        self.unacked[self.last_tag] = self.waiting.pop(0)
        return self.last_tag, self.unacked[self.last_tag]

    def ack_up_to(self, tag: int) -> None:
        assert tag in self.unacked, "unknown delivery tag: RabbitMQ closes the channel"
        for one in [one for one in self.unacked if one <= tag]:
            self.acked.append(self.unacked.pop(one))

    def requeue(self, tag: int) -> None:
        assert tag in self.unacked, "unknown delivery tag: RabbitMQ closes the channel"
        self.waiting.append(self.unacked.pop(tag))


class Consumer:
    """A ledger between the broker and an engine that settles in any order."""

    def __init__(self, messages: int) -> None:
        self.broker = Broker()
        self.ledger = AckLedger()
        self.broker.waiting = list(range(messages))
        self.in_hand: list[tuple[AckPosition, int]] = []
        self.committed: set[int] = set()
        self.now = 0.0
        self.reopen()

    def reopen(self) -> None:
        self.broker.open(self.ledger.open())

    def deliver(self) -> None:
        if (delivered := self.broker.deliver()) is not None:
            tag, message = delivered
            self.ledger.add(tag, 10, self.now)
            self.in_hand.append((AckPosition(self.ledger.generation, tag), message))

    def commit(self, which: int) -> None:
        if self.in_hand:
            position, message = self.in_hand.pop(which % len(self.in_hand))
            self.committed.add(message)
            self.ledger.commit(position)
            self.send()

    def nack(self, which: int, delay: float) -> None:
        if self.in_hand:
            position, _ = self.in_hand.pop(which % len(self.in_hand))
            self.ledger.give_back(position, self.now + delay)
            self.send()

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.send()

    def send(self) -> None:
        for tag in self.ledger.pop_due(self.now):
            self.broker.requeue(tag)
        highest = self.ledger.pop_ackable()
        if highest is not None:
            self.broker.ack_up_to(highest)
        assert set(self.broker.acked) <= self.committed, "acknowledged, but not committed"
        assert self.ledger.bytes == 10 * len(self.ledger)


STEPS = st.one_of(
    st.tuples(st.just("deliver")),
    st.tuples(st.just("commit"), st.integers(0, 50)),
    st.tuples(st.just("nack"), st.integers(0, 50), st.sampled_from([0.0, 1.0, 3.0])),
    st.tuples(st.just("pass_time"), st.sampled_from([0.5, 2.0])),
    st.tuples(st.just("reopen")),
)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.lists(STEPS, max_size=120))
def test_in_any_order_of_events_nothing_uncommitted_is_acked_and_all_that_is_committed_is(steps: list[Any]) -> None:
    consumer = Consumer(30)
    for name, *arguments in steps:
        getattr(consumer, name)(*arguments)
    # The engine settles the rest, and the broker's queue runs empty.
    for _ in range(1000):
        if not (consumer.broker.waiting or consumer.broker.unacked):
            break
        consumer.deliver()
        consumer.commit(0)
        consumer.pass_time(5.0)
    assert sorted(consumer.broker.acked) == list(range(30))
    assert (len(consumer.ledger), consumer.ledger.bytes, consumer.ledger.oldest_at) == (0, 0, None)


def delivered(count: int) -> tuple[AckLedger, list[AckPosition]]:
    ledger = AckLedger()
    generation = ledger.open()
    for tag in range(1, count + 1):
        ledger.add(tag, 100, float(tag))
    return ledger, [AckPosition(generation, tag) for tag in range(1, count + 1)]


def test_an_ack_covers_all_committed_tags_before_the_first_open_one() -> None:
    ledger, positions = delivered(5)
    for position in (positions[0], positions[1], positions[3]):
        ledger.commit(position)
    assert ledger.pop_ackable() == 2
    assert ledger.pop_ackable() is None
    ledger.commit(positions[2])
    assert ledger.pop_ackable() == 4
    assert ledger.oldest_at == 5.0


def test_a_returned_tag_does_not_hold_up_the_acks_behind_it_once_its_delay_is_over() -> None:
    ledger, positions = delivered(3)
    ledger.commit(positions[0])
    ledger.give_back(positions[1], due=10.0)
    ledger.commit(positions[2])
    assert (ledger.pop_due(9.0), ledger.pop_ackable(), ledger.next_due) == ([], 1, 10.0)
    assert (ledger.pop_due(10.0), ledger.pop_ackable(), ledger.next_due) == ([2], 3, None)


def test_an_ack_never_names_a_tag_that_was_returned() -> None:
    ledger, positions = delivered(2)
    ledger.commit(positions[0])
    ledger.give_back(positions[1], due=0.0)
    assert ledger.pop_due(0.0) == [2]
    assert ledger.pop_ackable() == 1


def test_settlements_of_a_closed_channel_are_dropped_although_its_tags_are_used_again() -> None:
    ledger, old = delivered(3)
    ledger.open()
    ledger.add(1, 100, 9.0)
    ledger.add(2, 100, 9.0)
    ledger.commit(old[0])
    ledger.give_back(old[1], due=0.0)
    assert (ledger.pop_ackable(), ledger.pop_due(99.0), len(ledger), ledger.bytes) == (None, [], 2, 200)


def test_a_settlement_counts_once() -> None:
    ledger, positions = delivered(1)
    ledger.commit(positions[0])
    ledger.give_back(positions[0], due=0.0)
    ledger.commit(positions[0])
    assert (ledger.pop_due(1.0), ledger.pop_ackable(), ledger.bytes) == ([], 1, 0)
