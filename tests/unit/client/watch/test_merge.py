# SPDX-License-Identifier: Apache-2.0
"""The merge buffer: no gap, no duplicate, ascending order, whatever the stream and the catch-up bring."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from watcher_sync.client.watch.merge import MAX_LAGGING, MergeBuffer, Missing, Ready


def buffer(watermark=0, limit=100) -> MergeBuffer[str]:
    made: MergeBuffer[str] = MergeBuffer(watermark, limit)
    made.connect()
    return made


def drained(merging):
    """What the buffer gives until it needs something, and what it then says."""
    found = []
    while isinstance(step := merging.take(), Ready):
        found.append(step.sequence)
    return found, step


def caught_up(merging, *sequences):
    merging.begin_catch_up()
    accepted = [each for each in sequences if merging.accept(each)]
    assert merging.end_catch_up()
    return accepted


def test_without_a_watermark_the_first_event_is_the_begin():
    merging = buffer()

    assert merging.take() is None
    merging.add(7, 5, "a")
    merging.add(9, 7, "b")

    assert drained(merging) == ([7, 9], None)
    assert merging.watermark == 9


def test_a_connection_with_a_watermark_begins_with_a_catch_up():
    merging = buffer(5)

    assert merging.take() == Missing(5, None)
    assert caught_up(merging, 6, 8) == [6, 8]
    assert merging.take() is None
    assert merging.watermark == 8


def test_live_events_wait_for_the_catch_up_and_those_that_it_brought_are_dropped():
    merging = buffer(5)
    merging.begin_catch_up()
    merging.add(8, 7, "live")
    merging.add(9, 8, "live")
    assert [each for each in (6, 7, 8) if merging.accept(each)] == [6, 7, 8]
    assert merging.end_catch_up()

    assert drained(merging) == ([9], None)
    assert merging.dropped == 1


def test_a_resumed_stream_needs_no_catch_up():
    merging = buffer(5)
    merging.add(6, 5, "a")

    assert merging.is_contiguous()
    assert drained(merging) == ([6], None)


def test_a_gap_is_shown_once_the_events_before_it_are_taken():
    merging = buffer(5)
    caught_up(merging)
    merging.add(6, 5, "a")
    merging.add(9, 8, "b")

    assert drained(merging) == ([6], Missing(6, 8))
    assert caught_up(merging, 7, 8, 9) == [7, 8, 9]
    assert drained(merging) == ([], None)


def test_before_the_first_catch_up_a_gap_is_only_the_reason_for_it():
    merging = buffer(5)
    merging.add(9, 8, "a")

    assert merging.take() == Missing(5, None)


def test_a_stock_stream_may_begin_after_the_catch_up_so_its_first_event_needs_another():
    merging = buffer(5)
    caught_up(merging, 6)
    merging.add(9, None, "live")

    assert merging.take() == Missing(6, None)
    assert caught_up(merging, 7, 9) == [7, 9]
    merging.add(12, None, "live")
    assert drained(merging) == ([12], None)


def test_each_connection_of_a_stock_service_is_verified_again():
    merging = buffer(5)
    caught_up(merging)
    merging.add(6, None, "a")
    caught_up(merging, 6)
    merging.connect()

    assert merging.take() == Missing(6, None)
    caught_up(merging)
    merging.add(8, None, "b")
    assert merging.take() == Missing(6, None)


def test_a_full_buffer_drops_the_newest_and_asks_for_a_catch_up_after_the_rest():
    merging = buffer(5, limit=2)
    caught_up(merging)
    merging.add(6, 5, "a")
    merging.add(7, 6, "b")
    merging.add(8, 7, "dropped")

    assert merging.overflows == 1
    assert drained(merging) == ([6, 7], Missing(7, None))
    assert caught_up(merging, 8) == [8]
    assert merging.take() is None


def test_a_catch_up_that_lacks_a_dropped_event_is_repeated():
    merging = buffer(5, limit=1)
    caught_up(merging)
    merging.add(6, 5, "a")
    merging.add(7, 6, "dropped")
    merging.add(9, 7, "dropped, too")
    assert drained(merging) == ([6], Missing(6, None))

    merging.begin_catch_up()
    assert merging.accept(7)
    assert not merging.end_catch_up()
    assert caught_up(merging, 9) == [9]
    assert merging.take() is None


def test_after_an_overflow_no_event_hides_those_that_were_dropped():
    merging = buffer(1, limit=2)
    merging.add(2, 1, "verified")
    assert drained(merging)[0] == [2]
    merging.add(3, None, "a")
    merging.add(4, None, "b")
    merging.add(5, None, "dropped")
    assert merging.take() == Ready(3, "a")
    merging.add(6, None, "there is room again")

    assert drained(merging) == ([4], Missing(4, None))


def test_a_catch_up_that_lacks_what_the_stream_had_sent_is_repeated_and_then_given_up():
    merging = buffer(5)
    caught_up(merging)
    merging.add(9, 8, "a")
    for _ in range(MAX_LAGGING - 1):
        assert merging.take() == Missing(5, 8)
        merging.begin_catch_up()
        assert not merging.end_catch_up()
    merging.begin_catch_up()
    assert merging.end_catch_up()

    assert drained(merging) == ([9], None)


def test_a_bookmark_moves_the_watermark_after_the_events_before_it():
    merging = buffer()
    merging.add(3, 0, "a")
    merging.bookmark(8)
    merging.bookmark(2)

    assert merging.take() == Ready(3, "a")
    assert merging.watermark == 3
    assert merging.take() is None
    assert merging.watermark == 8
    merging.add(8, 3, "old")
    merging.add(9, 8, "b")
    assert drained(merging) == ([9], None)


def test_a_bookmark_does_not_pass_a_gap():
    merging = buffer(5)
    caught_up(merging)
    merging.add(9, 8, "a")
    merging.bookmark(20)

    assert merging.take() == Missing(5, 8)
    assert merging.watermark == 5


def test_a_bookmark_after_an_overflow_is_ignored():
    merging = buffer(5, limit=1)
    caught_up(merging)
    merging.add(6, 5, "a")
    merging.add(7, 6, "dropped")
    assert merging.take() == Ready(6, "a")
    merging.bookmark(7)

    assert merging.take() == Missing(6, None)


def test_an_event_without_a_sequence_is_ready_at_once_and_moves_nothing():
    merging = buffer(5)
    merging.add(0, None, "action")

    assert merging.take() == Ready(0, "action")
    assert merging.watermark == 5


@pytest.mark.parametrize("sequence", [4, 5])
def test_what_is_not_newer_than_the_watermark_is_dropped(sequence):
    merging = buffer(5)
    merging.add(sequence, None, "old")

    assert len(merging) == 0
    assert merging.dropped == 1
    assert not merging.accept(sequence)


class Service:
    """The events of a topic, and how much of them each way has brought. The stream loses what the test says."""

    def __init__(self, sequences, *, is_stock):
        self.sequences = sequences
        self.is_stock = is_stock
        self.published = 0
        self.streamed = 0

    def previous(self, index):
        if self.is_stock:
            return None
        return self.sequences[index - 1] if index else 0

    def newer(self, watermark):
        return [each for each in self.sequences[: self.published] if each > watermark]


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 4)),
        st.tuples(st.just("stream"), st.integers(1, 4)),
        st.tuples(st.just("lose"), st.integers(1, 3)),
        st.tuples(st.just("repeat"), st.integers(1, 5)),
        st.tuples(st.just("reconnect"), st.just(0)),
        st.tuples(st.just("take"), st.integers(1, 5)),
        st.tuples(st.just("bookmark"), st.just(0)),
    ),
    max_size=60,
)


def _live(merging, service, count):
    for _ in range(min(count, service.published - service.streamed)):
        index = service.streamed
        merging.add(service.sequences[index], service.previous(index), "event")
        service.streamed += 1


def _take(merging, service, got, count, random):
    for _ in range(count):
        step = merging.take()
        if step is None:
            return
        if isinstance(step, Ready):
            got.append(step.sequence)
            continue
        merging.begin_catch_up()
        for sequence in service.newer(step.after):
            if random.random() < 0.3:  # the stream goes on meanwhile
                service.published = min(len(service.sequences), service.published + 1)
                _live(merging, service, 1)
            if merging.accept(sequence):
                got.append(sequence)
        merging.end_catch_up()


@pytest.mark.slow
@given(
    steps=STEPS,
    strides=st.lists(st.integers(1, 5), min_size=1, max_size=80),
    start=st.integers(0, 3),
    limit=st.integers(1, 8),
    is_stock=st.booleans(),
    random=st.randoms(use_true_random=False),
)
@settings(max_examples=400, deadline=None)
def test_every_event_after_the_watermark_comes_once_and_in_order(steps, strides, start, limit, is_stock, random):
    """A stock service may lose events between two streams only; one that says what is previous, at any time."""
    sequences, total = [], 0
    for stride in strides:
        total += stride
        sequences.append(total)
    service = Service(sequences, is_stock=is_stock)
    begin = sequences[min(start, len(sequences) - 1)]
    merging: MergeBuffer[str] = MergeBuffer(begin, limit)
    service.published = service.streamed = sequences.index(begin) + 1
    merging.connect()
    got: list[int] = []
    is_lossy = False
    for step, count in steps:
        match step:
            case "publish":
                service.published = min(len(sequences), service.published + count)
            case "stream":
                _live(merging, service, count)
            case "lose" if not is_stock:
                service.streamed = min(service.published, service.streamed + count)
                is_lossy = True  # a bookmark would be wrong
            case "repeat":
                for index in range(max(0, service.streamed - count), service.streamed):
                    if not is_stock or sequences[index] <= merging.watermark:
                        merging.add(sequences[index], service.previous(index), "event")
            case "reconnect":
                merging.connect()
                is_lossy = True
                if is_stock:  # the stream begins with the next event that is published
                    service.streamed = service.published
            case "take":
                _take(merging, service, got, count, random)
            case "bookmark" if not is_stock and not is_lossy:
                merging.bookmark(sequences[service.streamed - 1])
        assert len(merging) <= limit
    merging.connect()
    service.streamed = service.published
    _take(merging, service, got, 10_000, random)
    while service.streamed < service.published:
        _live(merging, service, 1)
        _take(merging, service, got, 10_000, random)

    assert got == [each for each in sequences[: service.published] if each > begin]
