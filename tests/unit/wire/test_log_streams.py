# SPDX-License-Identifier: Apache-2.0
"""A model is refused exactly if it has messages of other changes than the present ones."""

from __future__ import annotations

import datetime
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.wire.log_streams import FirstMessage, LogStream, SnapshotMarkers, why_no_copy, why_not_whole

BEGIN = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
COUNTS = st.integers(0, 30)


class Stream(NamedTuple):
    """A stream as lists."""

    created: datetime.datetime
    messages: dict[int, datetime.datetime]
    last: int

    def described(self, name: str, copies: str | None = None) -> LogStream:
        first = min(self.messages, default=self.last + 1)
        return LogStream(name, self.created, first, self.last, len(self.messages), copies)


def after(seconds: float) -> datetime.datetime:
    return BEGIN + datetime.timedelta(seconds=seconds)


def published(created: float, count: int, skew: float = 0) -> Stream:
    """A stream with a message each ten seconds."""
    times = {n: after(created + skew + 10 * n) for n in range(1, count + 1)}
    return Stream(after(created), times, count)


def without_first(stream: Stream, discarded: int) -> Stream:
    return stream._replace(messages={n: time for n, time in stream.messages.items() if n > discarded})


def verdict(changes: Stream, model: Stream) -> str:
    first = min(model.messages, default=None)
    message = None if first is None else FirstMessage(model.messages[first], changes.messages.get(first))
    return why_no_copy(changes.described("s"), model.described("s-model", "s"), message)


@given(COUNTS, COUNTS, COUNTS, st.data(), st.floats(-60, 60), st.sampled_from([-20.0, 0.0, 20.0]))
def test_a_late_or_cleaned_copy_is_one_whatever_was_discarded_and_wherever_it_was_made(
    count: int, discarded: int, cleaned: int, data: st.DataObject, skew: float, made: float
) -> None:
    changes = published(0, count, skew)
    copied = data.draw(st.integers(0, count))
    times = {n: time for n, time in changes.messages.items() if cleaned < n <= copied}
    assert not verdict(without_first(changes, discarded), Stream(after(made), times, copied))


@given(COUNTS, COUNTS, COUNTS, COUNTS, st.data())
def test_a_model_with_a_message_of_changes_that_were_there_before_is_no_copy(
    old: int, new: int, discarded: int, cleaned: int, data: st.DataObject
) -> None:
    """The mirror goes on where it was once the new changes are longer. They began ten minutes later."""
    before, changes = published(0, old), published(10 * old + 600, new)
    copied = max(old, data.draw(st.integers(0, new)))
    times = {n: time for n, time in {**changes.messages, **before.messages}.items() if cleaned < n <= copied}
    has_old = any(n <= old for n in times)
    is_refused = bool(verdict(without_first(changes, discarded), Stream(after(-1), times, copied)))
    assert is_refused == (has_old or copied > new)


def test_a_mirror_of_the_changes_elsewhere_may_be_younger_and_later_than_their_model() -> None:
    changes, model = published(0, 20), published(0, 30)
    message = FirstMessage(after(-9_000), None)
    elsewhere = changes.described("s", "")
    assert not why_no_copy(elsewhere, model._replace(created=after(-5)).described("s-model", ""), message)


@given(COUNTS, COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_snapshot_is_whole_unless_it_lacks_more_than_later_deletions_can_have_replaced(
    begin: int, entities: int, missing: int, new: int, expired: int
) -> None:
    markers = SnapshotMarkers(begin + 1, begin + 2 + entities)
    last = markers.end + new + expired
    changes = LogStream("s", BEGIN, markers.end, last, 1 + new)
    messages = entities + 2 + new - expired - missing
    model = LogStream("s-model", BEGIN, markers.begin, last, messages, "s")
    if not missing:
        assert not why_not_whole(changes, model, markers)
    assert bool(why_not_whole(changes, model, markers)) == (missing > 2 * new)
    assert not why_not_whole(changes, model._replace(last_seq=markers.end - 1), markers)
    assert why_not_whole(changes._replace(first_seq=last + 2), model, markers)
