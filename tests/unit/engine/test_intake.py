# SPDX-License-Identifier: Apache-2.0
"""The intake keeps each source's order, holds back only the source that is ahead, and delays no lone event."""

from __future__ import annotations

import threading

import msgspec
import pytest

from tests.simulated import event
from tests.waiting import deadline
from watcher_sync.engine.intake import Intake, IntakeLimits
from watcher_sync.sources.base import IntakeClosed
from watcher_sync.storage.stored.stored_events import columns_of, event_of

TEN_IN_HAND = IntakeLimits(batch_size=1)
"""The limits with which ten events of one source may be in hand."""


class Named:
    """As much of a source as the intake sees."""

    def __init__(self, name, *, waits_for_ack=False):
        self.name = name
        self.waits_for_ack = waits_for_ack


def events(*numbers):
    return [event(n) for n in numbers]


def ids(taken):
    return [(s.name, [e.id for e in found]) for s, found in taken]


def take(intake, most=100, linger=0.0, timeout=5.0):
    return intake.take(most, linger=linger, timeout=timeout)


def test_events_come_out_in_order_in_batches_of_at_most_the_asked_size():
    intake, a = Intake(IntakeLimits()), Named("a")
    emit = intake.emitter(a)
    emit(events(1, 2, 3))
    emit(events(4, 5))
    assert ids(take(intake, 2)) == [("a", ["event-1", "event-2"])]
    assert ids(take(intake, 2)) == [("a", ["event-3"]), ("a", ["event-4"])]
    assert intake.waiting() == 1


def test_a_source_that_is_ahead_waits_and_another_does_not():
    intake, fast, slow = Intake(TEN_IN_HAND), Named("fast"), Named("slow")
    emit = intake.emitter(fast)
    emit(events(*range(10)))
    emitted = threading.Event()
    thread = threading.Thread(target=lambda: (emit(events(10)), emitted.set()), daemon=True)
    thread.start()
    intake.emitter(slow)(events(90))
    assert not emitted.wait(0.1)
    taken = take(intake)
    assert [name for name, _ in ids(taken)] == ["fast", "slow"]
    assert not emitted.wait(0.1)  # taken is still in hand
    intake.done(fast, events(*range(10)))
    assert emitted.wait(deadline(60))
    thread.join(deadline(30))


def test_a_batch_has_an_equal_share_for_each_source_and_what_one_leaves_is_used():
    intake, flood, slow = Intake(IntakeLimits()), Named("flood"), Named("slow")
    for first in range(0, 400, 100):
        intake.emitter(flood)(events(*range(first, first + 100)))
    intake.emitter(slow)(events(900, 901))
    counts = {}
    for source, found in (first := intake.take(100, linger=0, timeout=0)):
        counts[source.name] = counts.get(source.name, 0) + len(found)
    assert counts == {"flood": 98, "slow": 2}
    assert [e.id for source, found in first if source is flood for e in found] == [f"event-{n}" for n in range(98)]
    assert intake.waiting() == 302


def test_where_a_batch_has_no_room_for_all_sources_they_take_turns():
    intake, sources = Intake(IntakeLimits()), [Named(name) for name in "abc"]
    for number, source in enumerate(sources):
        intake.emitter(source)(events(10 * number, 10 * number + 1))
    order = [source.name for _ in range(6) for source, _ in intake.take(1, linger=0, timeout=0)]
    assert order == ["a", "b", "c", "a", "b", "c"]
    assert intake.waiting() == 0


def test_an_event_that_comes_alone_is_not_delayed():
    intake = Intake(IntakeLimits())
    intake.emitter(Named("a"))(events(1))
    assert take(intake, linger=3600.0)


@pytest.mark.slow
@pytest.mark.parametrize(("waits", "found"), [(False, 2), (True, 1)])
def test_while_events_flow_it_lingers_for_more_unless_the_source_waits_for_the_ack(waits, found):
    intake, a = Intake(IntakeLimits()), Named("a", waits_for_ack=waits)
    emit = intake.emitter(a)
    emit(events(1))
    take(intake)
    intake.done(a, events(1))
    emit(events(2))
    timer = threading.Timer(30.0 if waits else 1.0, lambda: emit(events(3)))
    timer.start()
    assert sum(len(e) for _, e in take(intake, 2, linger=60.0)) == found
    timer.cancel()
    timer.join(deadline(60))


def test_closing_gives_back_what_was_not_taken_and_refuses_the_rest_until_it_is_opened():
    intake, a = Intake(TEN_IN_HAND), Named("a")
    emit = intake.emitter(a)
    emit(events(*range(10)))
    refused = []

    def blocked():
        try:
            emit(events(10))
        except IntakeClosed:
            refused.append(True)

    thread = threading.Thread(target=blocked, daemon=True)
    thread.start()
    assert ids(intake.close()) == [("a", [f"event-{n}" for n in range(10)])]
    thread.join(deadline(30))
    assert refused == [True]
    with pytest.raises(IntakeClosed):
        emit(events(11))
    assert take(intake, timeout=0) == []
    intake.done(a, events(1))
    intake.open()
    emit(events(4))
    assert ids(take(intake)) == [("a", ["event-4"])]


@pytest.mark.parametrize("name", ["x" * 256, "\U0001f600" * 60_000, "a\nb", "a\0", "a\ud800"])
def test_an_event_whose_type_is_no_name_is_an_undecodable_one_with_its_data(name):
    intake, a = Intake(IntakeLimits()), Named("a")
    good, odd = event(1), msgspec.structs.replace(event(2), type=name, data={"n": 1})
    intake.emitter(a)([good, odd])
    ((_, taken),) = take(intake)
    assert taken[0] is good
    assert (taken[1].id, taken[1].type, taken[1].data) == (odd.id, "undecodable", {"n": 1})
    assert "255 printable ones are allowed" in taken[1].undecodable
    assert event_of(Row(columns_of(taken[1]))).undecodable is not None


class Row:
    """Columns as attributes."""

    def __init__(self, columns):
        self.__dict__.update(columns)
