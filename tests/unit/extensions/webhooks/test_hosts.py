# SPDX-License-Identifier: Apache-2.0
"""Admission of work per host: limits, order, fairness and the breaker."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from watcher_sync.extensions.webhooks import hosts
from watcher_sync.extensions.webhooks.hosts import HostGate


class Gate:
    """A gate with a clock of its own and a record of what was started."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.started: list[tuple[str, Any]] = []
        self.gate: HostGate[Any] = HostGate(
            lambda host, item: self.started.append((host, item)), monotonic=lambda: self.now, **options
        )

    def add(self, host: str, *items: Any) -> None:
        for item in items:
            self.gate.add(host, item)

    def fail(self, host: str, times: int = 1) -> None:
        for _ in range(times):
            self.gate.done(host, answered=False)

    def items(self, host: str) -> list[Any]:
        return [item for name, item in self.started if name == host]

    def open(self, host: str, failures: int) -> None:
        """Opens the breaker of a host with items that fail one after the other."""
        for number in range(failures):
            self.add(host, f"failing-{number}")
            self.fail(host)
        assert self.gate.is_open(host)
        self.started.clear()

    def pass_time(self) -> None:
        """Goes to the time that the gate asks for, and ticks."""
        due = self.gate.next_due()
        assert due is not None
        self.now = due
        self.gate.tick()


def test_an_item_starts_at_once_where_there_is_room() -> None:
    gate = Gate()

    gate.add("a", 1)

    assert gate.started == [("a", 1)]
    assert (gate.gate.running, gate.gate.queued) == (1, 0)


def test_a_host_runs_at_most_its_limit_and_the_rest_follows_in_order() -> None:
    gate = Gate(per_host=2)
    gate.add("a", *range(5))
    assert gate.items("a") == [0, 1]

    for _ in range(3):
        gate.gate.done("a", answered=True)

    assert gate.items("a") == [0, 1, 2, 3, 4]


def test_a_host_whose_items_never_end_does_not_delay_another() -> None:
    gate = Gate(per_host=2, total=10)
    gate.add("hanging", *range(100))

    gate.add("good", "x")

    assert gate.items("good") == ["x"]
    assert len(gate.items("hanging")) == 2


def test_hosts_take_turns_when_the_total_is_the_limit() -> None:
    gate = Gate(per_host=10, total=1)
    gate.add("busy", *range(50))
    gate.add("b", "b1", "b2")
    gate.add("c", "c1")

    for _ in range(6):
        gate.gate.done(gate.started[-1][0], answered=True)

    assert [host for host, _ in gate.started] == ["busy", "busy", "b", "c", "busy", "b", "busy"]


def test_with_an_open_breaker_nothing_is_started_until_the_pause_ends() -> None:
    gate = Gate(failures_to_open=3, open_seconds=30.0)
    gate.open("a", 3)
    gate.add("a", 1, 2)
    gate.add("b", "other")

    gate.now += 29.9
    gate.gate.tick()

    assert gate.started == [("b", "other")]
    assert gate.gate.next_due() == pytest.approx(1030.0)


def test_one_failure_less_does_not_open_the_breaker() -> None:
    gate = Gate(failures_to_open=3)
    for _ in range(5):
        gate.add("a", 1, 2, 3)
        gate.fail("a", 2)
        assert not gate.gate.is_open("a")
        gate.gate.done("a", answered=True)

    assert len(gate.started) == 15


def test_after_the_pause_one_probe_is_started_and_its_answer_closes_the_breaker() -> None:
    gate = Gate(failures_to_open=3)
    gate.open("a", 3)
    gate.add("a", 1, 2, 3)

    gate.pass_time()
    assert gate.items("a") == [1]
    gate.now += 100
    gate.gate.tick()
    assert gate.items("a") == [1]
    gate.gate.done("a", answered=True)

    assert gate.items("a") == [1, 2, 3]
    assert not gate.gate.is_open("a")


def test_a_probe_that_fails_begins_another_pause() -> None:
    gate = Gate(failures_to_open=3)
    gate.open("a", 3)
    gate.add("a", 1, 2)
    gate.pass_time()

    gate.fail("a")
    gate.gate.tick()

    assert gate.items("a") == [1]
    assert gate.gate.next_due() == gate.now + 30.0
    gate.pass_time()
    assert gate.items("a") == [1, 2]


def test_the_probe_waits_for_items_that_started_before_the_pause() -> None:
    gate = Gate(failures_to_open=2, per_host=4)
    gate.add("a", 1, 2, 3, 4, 5, 6)
    gate.fail("a", 2)
    started = len(gate.started)
    gate.now += 31
    gate.gate.tick()
    assert len(gate.started) == started
    assert gate.gate.next_due() is None, "a time in the past would make the owner's loop busy"

    while gate.gate.running > 1:
        gate.fail("a")
    assert len(gate.started) == started
    gate.fail("a")

    assert len(gate.started) == started + 1


def test_a_late_answer_of_an_earlier_item_closes_the_breaker() -> None:
    gate = Gate(failures_to_open=2, per_host=3)
    gate.add("a", 1, 2, 3, 4)
    gate.fail("a", 2)
    assert gate.gate.is_open("a")

    gate.gate.done("a", answered=True)

    assert not gate.gate.is_open("a")
    assert gate.items("a") == [1, 2, 3, 4]


def test_an_item_that_was_not_sent_says_nothing_about_its_host() -> None:
    gate = Gate(failures_to_open=2)
    gate.add("a", 1, 2, 3)
    gate.fail("a")
    gate.gate.done("a", answered=None)
    gate.fail("a")
    assert gate.gate.is_open("a"), "the failures before and after it are consecutive"

    gate.add("a", 4, 5)
    gate.pass_time()
    assert gate.items("a")[-1] == 4
    gate.gate.done("a", answered=None)

    assert gate.gate.is_open("a")
    assert gate.items("a")[-1] == 5, "the next item is the probe"


def test_an_item_that_is_added_after_the_pause_is_the_probe() -> None:
    gate = Gate(failures_to_open=1)
    gate.open("a", 1)
    gate.now += 31

    gate.add("a", 1, 2)

    assert gate.items("a") == [1]


def test_a_host_whose_answers_do_not_end_gets_one_item_at_a_time_with_pauses_between_them() -> None:
    gate = Gate(per_host=3)
    gate.add("a", *range(6))
    for _ in range(3):
        gate.gate.done("a", answered=True, ended=False)
    assert gate.items("a") == [0, 1, 2]
    assert gate.gate.next_due() == gate.now + hosts.ENDLESS_PAUSE_SECONDS

    gate.pass_time()
    assert gate.items("a") == [0, 1, 2, 3]
    gate.now += 1
    gate.gate.tick()
    assert gate.items("a") == [0, 1, 2, 3]
    gate.gate.done("a", answered=True, ended=False)
    assert gate.items("a") == [0, 1, 2, 3]
    gate.pass_time()
    gate.gate.done("a", answered=True)

    assert gate.items("a") == [0, 1, 2, 3, 4, 5], "an answer that ended"


def test_answers_that_do_not_end_are_remembered_while_their_host_is_idle() -> None:
    gate = Gate(per_host=3)
    gate.add("a", 1)
    gate.gate.done("a", answered=True, ended=False)

    gate.add("a", 2, 3)
    gate.add("b", 4)
    assert gate.started[1:] == [("b", 4)]
    gate.pass_time()
    assert gate.started[2:] == [("a", 2)]

    gate.gate.done("a", answered=None)
    assert gate.started[3:] == [("a", 3)], "what was not sent costs no pause"
    gate.gate.done("a", answered=True, ended=False)
    gate.now += 20 * 30.0 + 1
    gate.gate.done("b", answered=True)
    gate.add("c", 5)
    gate.gate.done("c", answered=True)
    assert gate.gate.remembered == 0


def test_a_probe_whose_answer_does_not_end_closes_the_breaker_and_begins_the_short_pause() -> None:
    gate = Gate(failures_to_open=1)
    gate.open("a", 1)
    gate.add("a", 1, 2)
    gate.pass_time()

    gate.gate.done("a", answered=True, ended=False)

    assert not gate.gate.is_open("a")
    assert gate.gate.next_due() == gate.now + hosts.ENDLESS_PAUSE_SECONDS
    gate.pass_time()
    gate.fail("a")
    assert gate.gate.is_open("a")


def test_only_hosts_with_waiting_items_have_a_due_time() -> None:
    gate = Gate(failures_to_open=1)
    gate.open("a", 1)
    assert gate.gate.next_due() is None
    gate.now += 5
    gate.open("b", 1)
    gate.add("b", 1)
    assert gate.gate.next_due() == 1035.0

    gate.add("a", 1)
    assert gate.gate.next_due() == 1030.0

    assert gate.gate.drop(lambda item: item == 1) == 2
    assert gate.gate.next_due() is None


def test_dropped_items_never_start_and_the_others_do() -> None:
    gate = Gate(per_host=1)
    gate.add("a", *range(6))
    gate.add("b", *range(6))

    assert gate.gate.drop(lambda item: item % 2 == 1) == 6
    assert gate.gate.queued == 4
    for host in "aaabbb":
        gate.gate.done(host, answered=True)

    assert gate.items("a") == gate.items("b") == [0, 2, 4]


def test_a_start_may_call_the_gate_and_the_order_remains() -> None:
    order = []

    def start(host: str, item: int) -> None:
        order.append(item)
        if item < 2000:
            gate.add(host, item + 1)
        gate.done(host, answered=True)

    gate: HostGate[int] = HostGate(start, per_host=1)
    gate.add("a", 0)

    assert order == list(range(2001))
    assert gate.remembered == 0


def test_an_answering_host_without_items_is_forgotten() -> None:
    gate = Gate()
    for number in range(1000):
        gate.add(f"host-{number}", 1)
        gate.gate.done(f"host-{number}", answered=True)

    assert gate.gate.remembered == 0


def test_a_failing_host_without_items_is_forgotten_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "_MAX_IDLE_HOSTS", 50)
    gate = Gate(failures_to_open=1)
    for number in range(200):
        gate.open(f"host-{number}", 1)
    assert gate.gate.remembered == 50

    gate.now += 20 * 30.0 + 1
    gate.add("other", 1)
    gate.gate.done("other", answered=True)

    assert gate.gate.remembered == 0


def test_an_end_without_a_start_is_refused() -> None:
    gate = Gate()

    with pytest.raises(ValueError, match="no item"):
        gate.gate.done("a", answered=True)


class Histories(RuleBasedStateMachine):
    """Any history of calls: the limits hold, the order of a host holds, and nothing that could run waits."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = Gate(per_host=2, total=4, failures_to_open=2, open_seconds=10.0)
        self.running: Counter[str] = Counter()
        self.added: dict[str, list[int]] = {name: [] for name in "abc"}
        self.endless: set[str] = set()
        self.number = 0
        self.seen = 0

    def count_started(self) -> None:
        for host, _ in self.gate.started[self.seen :]:
            self.running[host] += 1
        self.seen = len(self.gate.started)

    @rule(host=st.sampled_from("abc"))
    def add(self, host: str) -> None:
        self.number += 1
        self.added[host].append(self.number)
        self.gate.add(host, self.number)
        self.count_started()

    @rule(host=st.sampled_from("abc"), answered=st.sampled_from([True, False, None]), ended=st.booleans())
    def end(self, host: str, answered: bool | None, ended: bool) -> None:
        if self.running[host]:
            self.running[host] -= 1
            if answered:
                (self.endless.discard if ended else self.endless.add)(host)
            self.gate.gate.done(host, answered=answered, ended=ended)
            self.count_started()

    @rule(seconds=st.floats(0, 12))
    def wait(self, seconds: float) -> None:
        self.gate.now += seconds
        self.gate.gate.tick()
        self.count_started()

    @invariant()
    def limits_hold(self) -> None:
        assert self.running.total() == self.gate.gate.running <= 4
        assert all(count <= 2 for count in self.running.values())

    @invariant()
    def order_of_a_host_holds(self) -> None:
        for host, numbers in self.added.items():
            items = self.gate.items(host)
            assert items == numbers[: len(items)]

    @invariant()
    def nothing_waits_without_a_reason(self) -> None:
        if self.gate.gate.running < 4:
            for host, numbers in self.added.items():
                if len(self.gate.items(host)) < len(numbers):
                    assert self.running[host] == 2 or self.gate.gate.is_open(host) or host in self.endless
        if self.gate.gate.queued and not self.gate.gate.running:
            assert self.gate.gate.next_due() is not None

    @rule()
    def a_tick_leaves_nothing_due(self) -> None:
        self.gate.gate.tick()
        self.count_started()
        due = self.gate.gate.next_due()
        assert due is None or due > self.gate.now


TestHistories = Histories.TestCase
TestHistories.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
