# SPDX-License-Identifier: Apache-2.0
"""A stream that was replaced is noticed, its messages have the right epoch, and what it discarded is counted."""

from __future__ import annotations

import pytest

from watcher_sync.events import Event
from watcher_sync.extensions.dcm.source.cursor import Place, Restoration, StreamCursor, read_cursor, read_start
from watcher_sync.extensions.dcm.source.discards import REPORT_INTERVAL_SECONDS, Discards
from watcher_sync.extensions.dcm.source.history import StreamHistory
from watcher_sync.extensions.dcm.source.stream import ConsumerConfig, ConsumerHandle, StreamInfo
from watcher_sync.sources.base import Gaps
from watcher_sync.transports.nats.messages import JetStreamMessage, NatsMessage, read

CREATED = 1_772_000_000_000_000
SECOND = 1_000_000_000
CONFIG = ConsumerConfig()


def time_of(sequence: int, era: int = 0) -> int:
    """When the server stored a message: all of one era before those of the next."""
    return (CREATED // 1_000_000 + era * 1_000_000 + sequence) * SECOND


def message(sequence: int, number: int | None = None, *, era: int = 0, pending: int = 0) -> JetStreamMessage:
    """:param number: of the delivery."""
    number = sequence if number is None else number
    reply = f"$JS.ACK.dcm-status.watcher-sync.1.{sequence}.{number}.{time_of(sequence, era)}.{pending}"
    return read(NatsMessage("dcm.vm", reply, b""))


def stream(first: int, last: int, *, era: int = 0, created: int = CREATED, covered: bool = True) -> StreamInfo:
    return StreamInfo(created=created, first=first, last=Place(last, time_of(last, era)), covered=covered)


def consumer(
    delivered: int = 0, deliveries: int | None = None, *, made: bool = False, pending: int = 0
) -> ConsumerHandle:
    deliveries = delivered if deliveries is None else deliveries
    return ConsumerHandle(
        created="c", config=CONFIG, made=made, delivered=delivered, deliveries=deliveries, pending=pending,
        ack_floor=delivered,
    )  # fmt: skip


def event(sequence: int, epoch: int = CREATED, *, era: int = 0) -> Event:
    return Event(id="e", type="t", source="dcm", sequence=(epoch, sequence), position=time_of(sequence, era))


def attached(history: StreamHistory, info: StreamInfo, handle: ConsumerHandle) -> StreamHistory:
    history.compare(info, None)
    history.begin(info, handle)
    return history


def after(sequence: int, **more: object) -> StreamHistory:
    """What a source knows that has read and committed so many messages, and starts again."""
    history = attached(StreamHistory("dcm", StreamCursor(stream="s")), stream(1, 0), consumer(made=True))
    for number in range(1, sequence + 1):
        history.receive(message(number))
    text = history.cursor([event(sequence)])
    cursor = read_cursor(text, "s")
    assert cursor is not None
    return StreamHistory("dcm", cursor)


# What is lost


def test_what_was_lost_is_known_until_an_operator_begins_elsewhere() -> None:
    history = attached(after(10), stream(16, 30), consumer(10))
    lost = history.lost
    assert lost.startswith("events are lost: the stream s discarded 5 messages before they were read")
    assert "what no event has reported since 20" in lost
    cursor = read_cursor(history.cursor([event(16)]), "s")
    assert cursor is not None
    later = StreamHistory("dcm", cursor)
    assert (later.lost, later.gaps.total.count) == (lost, 0)
    cursor = read_cursor(later.cursor([event(17)]), "s")
    assert cursor is not None
    assert StreamHistory("dcm", cursor).lost == lost
    assert StreamHistory("dcm", cursor.starting_at("first")).lost == ""


def test_a_later_loss_replaces_the_one_before() -> None:
    history = attached(after(10), stream(16, 30), consumer(10))
    cursor = read_cursor(history.cursor([event(16)]), "s")
    assert cursor is not None
    later = attached(StreamHistory("dcm", cursor), stream(21, 30), consumer(16))
    assert "discarded 4 messages" in later.lost


# Restored and created again


def test_a_stream_that_goes_on_is_the_same() -> None:
    history = after(10)
    assert history.known_message(stream(1, 20)) == 10
    assert not history.is_behind(stream(1, 20))
    assert not history.compare(stream(1, 20), time_of(10))
    assert not history.compare(stream(1, 20), None)
    assert (history.epoch, history.gaps.total.count) == (CREATED, 0)


def test_a_stream_that_ends_before_the_known_message_was_restored(caplog: pytest.LogCaptureFixture) -> None:
    history = after(10)
    assert history.is_behind(stream(1, 6))
    assert history.compare(stream(1, 6), None)
    assert (history.epoch, history.gaps.total.count) == (CREATED + 1, 1)
    assert "the stream s was restored from an older copy: the message 10 of " in caplog.text


def test_a_message_that_arrived_after_the_last_look_at_the_stream_is_known() -> None:
    history = attached(after(10), stream(1, 10), consumer(10))
    history.receive(message(11))
    assert history.is_behind(stream(1, 10))
    assert history.known_message(stream(1, 20)) == 11


def test_a_stream_with_another_message_at_the_known_sequence_was_restored() -> None:
    history = after(10)
    assert history.compare(stream(1, 30, era=1), time_of(10, 1))
    assert (history.epoch, history.gaps.total.count) == (CREATED + 1, 1)


def test_a_stream_that_was_created_again_has_its_creation_time_as_epoch(caplog: pytest.LogCaptureFixture) -> None:
    history = after(10)
    assert history.known_message(stream(1, 30, created=CREATED + 5)) is None
    assert history.compare(stream(1, 3, created=CREATED + 5), None)
    assert (history.epoch, history.gaps.total.count) == (CREATED + 5, 1)
    assert "the stream s was created again" in caplog.text


def test_the_first_stream_is_no_gap() -> None:
    history = StreamHistory("dcm", StreamCursor(stream="s"))
    assert not history.compare(stream(5, 9), None)
    assert history.gaps.total.count == 0


def test_messages_of_the_copy_retain_their_epoch_and_later_ones_get_the_next() -> None:
    history = after(10)
    history.compare(stream(1, 30, era=1), time_of(10, 1))  # the copy had 6 messages
    history.begin(stream(1, 30, era=1), consumer(4))
    epochs = [history.receive(message(n, era=0 if n <= 6 else 1)) for n in range(5, 12)]
    assert epochs == [CREATED, CREATED, *[CREATED + 1] * 5]


def test_a_clock_of_the_server_that_went_back_does_not_hide_messages_after_the_copy() -> None:
    history = after(10)
    history.compare(stream(1, 6), None)
    assert history.epoch_of(message(7)) == CREATED + 1
    assert history.epoch_of(message(6)) == CREATED


def test_two_restorations_are_two_epochs() -> None:
    cursor = StreamCursor(
        stream="s", created=CREATED, restored=(Restoration(6, time_of(10)), Restoration(3, time_of(9, 1)))
    )
    history = StreamHistory("dcm", cursor)
    assert history.epoch == CREATED + 2
    assert history.epoch_of(message(3)) == CREATED
    assert history.epoch_of(message(3, era=2)) == CREATED + 2
    assert history.epoch_of(message(4, era=2)) == CREATED + 2
    once = StreamHistory(
        "dcm",
        StreamCursor(
            stream="s", created=CREATED, restored=(Restoration(6, time_of(10)), Restoration(20, time_of(30, 1)))
        ),
    )
    assert [once.epoch_of(m) for m in (message(6), message(7, era=1), message(21, era=2), message(9, era=2))] == [
        CREATED, CREATED + 1, CREATED + 2, CREATED + 2,
    ]  # fmt: skip


def test_the_restoration_is_stored_with_the_next_commit_and_not_noticed_again() -> None:
    history = after(10)
    history.compare(stream(1, 6), None)
    history.begin(stream(1, 6), consumer(6))
    assert history.receive(message(7, era=1)) == CREATED + 1
    again = read_cursor(history.cursor([event(7, CREATED + 1, era=1)]), "s")
    assert again is not None
    assert (again.seen, again.end) == (Place(7, time_of(7, 1)), Place(7, time_of(7, 1)))
    other = StreamHistory("dcm", again)
    assert not other.compare(stream(1, 8, era=1), time_of(7, 1))
    assert other.epoch == CREATED + 1


def test_events_of_the_epoch_before_do_not_move_the_position() -> None:
    history = after(10)
    history.compare(stream(1, 6), None)
    cursor = read_cursor(history.cursor([event(9)]), "s")
    assert cursor is not None
    assert cursor.seen == Place()
    assert cursor.restored == (Restoration(6, time_of(10)),)


@pytest.mark.parametrize(
    ("info", "stored_at", "delivered", "expected"),
    [
        (stream(1, 6), None, 6, False),
        (stream(1, 6), None, 10, True),
        (stream(1, 30, era=1), time_of(10, 1), 6, False),
        (stream(1, 30, era=1), time_of(10, 1), 10, True),
        (stream(1, 30), time_of(10), 10, False),
    ],
)
def test_a_consumer_that_is_ahead_of_a_restored_stream_is_replaced(
    info: StreamInfo, stored_at: int | None, delivered: int, expected: bool
) -> None:
    history = after(10)
    history.compare(info, stored_at)
    assert history.needs_new_consumer(consumer(delivered)) is expected
    history.begin(info, consumer(made=True))
    assert not history.needs_new_consumer(consumer(delivered))


def test_a_check_notices_that_the_stream_was_replaced() -> None:
    history = attached(after(10), stream(1, 10), consumer(10))
    assert history.check(history.last_known, stream(1, 12), consumer(12))
    assert not history.check(history.last_known, stream(1, 11), consumer(11))
    assert not history.check(history.last_known, stream(1, 12, created=CREATED + 1), consumer(12))


# Rewinding


def test_a_rewind_begins_after_what_is_certainly_committed() -> None:
    history = attached(after(10), stream(1, 10), consumer(10))
    history.check(history.last_known, stream(1, 10), consumer(10, pending=0))
    cursor = read_cursor(history.cursor([event(11)]), "s")
    assert cursor is not None
    assert (cursor.floor, cursor.seen.sequence) == (10, 11)
    other = StreamHistory("dcm", cursor)
    other.rewind_to_cursor()
    assert other.start == "11"
    assert other.needs_new_consumer(consumer(10))
    other.begin(stream(1, 20), consumer(10, 0, made=True))
    assert not other.needs_new_consumer(consumer(10))
    assert other.gaps.total.count == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("first", {"deliver_policy": "all"}),
        ("7", {"deliver_policy": "by_start_sequence", "opt_start_seq": 7}),
        ("2026-01-02T03:04:05+01:00", {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-02T02:04:05Z"}),
        ("2026-01-02", {"deliver_policy": "by_start_time", "opt_start_time": "2026-01-02T00:00:00Z"}),
    ],
)
def test_a_start_is_a_word_a_sequence_or_a_time(text: str, expected: dict[str, object]) -> None:
    assert read_start(text) == expected


@pytest.mark.parametrize("text", ["", "0", "next", "-1", "1.5", "yesterday", "9" * 30])
def test_other_starts_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="sequence"):
        read_start(text)


@pytest.mark.parametrize("text", [None, "", "17", "{}", '{"stream":"other"}', '{"stream":"s","start":"yesterday"}'])
def test_a_position_that_is_none_in_this_stream_is_not_used(text: str | None) -> None:
    assert read_cursor(text, "s") is None


# Discarded


class Reading:
    """A source that reads a stream, without a server."""

    def __init__(self, received: int, *, covered: bool = True) -> None:
        self.now = 0.0
        self.gaps = Gaps()
        self.covered = covered
        self.discards = Discards("dcm", "s", self.gaps, lambda: self.now)
        self.discards.begin(
            stream(1, received, covered=covered), consumer(received), Place(received, time_of(received))
        )
        self._number = received

    def receive(self, *sequences: int, pending: int = 0) -> None:
        for sequence in sequences:
            self._number += 1
            self.discards.receive(message(sequence, self._number, pending=pending))

    def check(self, first: int, last: int, *, pending: int = 0) -> bool:
        handle = consumer(last, self._number, pending=pending)
        return self.discards.check(stream(first, last, covered=self.covered), handle)

    @property
    def counted(self) -> tuple[int, int]:
        return self.gaps.total.count, self.gaps.total.lost


@pytest.fixture
def reading() -> Reading:
    return Reading(10)


def test_nothing_is_lost_while_sequences_follow_and_read_messages_are_discarded(reading: Reading) -> None:
    reading.receive(11, 12, 13)
    assert reading.check(14, 13)
    reading.receive(14, 12, 15)  # the second one again
    assert reading.check(10, 15)
    reading.discards.flush()
    assert reading.counted == (0, 0)


def test_what_the_consumer_skips_is_counted_at_once_with_its_sequences(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    reading.receive(11, 1500)
    assert reading.counted == (1, 1488)
    assert "discarded 1488 messages before they were read, in sequences 12 to 1499, all after" in caplog.text


def test_what_another_reader_got_is_not_lost(reading: Reading) -> None:
    reading.discards.receive(message(11, 11))
    reading.discards.receive(message(15, 15))
    assert not reading.discards.check(stream(1, 16), consumer(16, 16))
    reading.discards.flush()
    assert reading.counted == (0, 0)


def test_what_is_on_its_way_is_not_lost_though_the_stream_has_discarded_it(reading: Reading) -> None:
    assert not reading.discards.check(stream(500, 600), consumer(550, 550, pending=50))
    reading.discards.flush()
    assert reading.counted == (0, 0)


def test_what_is_discarded_to_the_last_message_is_counted(reading: Reading) -> None:
    assert reading.check(31, 30)
    assert reading.counted == (1, 20)
    assert reading.check(31, 30)
    reading.receive(31)
    reading.discards.flush()
    assert reading.counted == (1, 20)


def test_a_stream_that_keeps_discarding_is_reported_together(
    reading: Reading, caplog: pytest.LogCaptureFixture
) -> None:
    for sequence in range(20, 2000, 10):
        reading.receive(sequence)
    assert reading.counted == (1, 9)
    reading.now += REPORT_INTERVAL_SECONDS
    reading.check(1990, 1990)
    assert reading.counted == (2, 9 * 198)
    assert len(caplog.records) == 2


def test_what_was_discarded_while_the_source_was_away_is_counted_once(reading: Reading) -> None:
    away = Discards("dcm", "s", reading.gaps)
    away.begin(stream(101, 200), consumer(10), Place(10, time_of(10)))
    away.receive(message(101, 11))
    assert reading.counted == (1, 90)


def test_a_consumer_without_a_position_of_ours_says_what_it_has_delivered(reading: Reading) -> None:
    upgraded = Discards("dcm", "s", reading.gaps)
    upgraded.begin(stream(101, 200), consumer(10), Place())
    assert reading.counted == (1, 90)


def test_a_new_reader_misses_nothing(reading: Reading) -> None:
    new = Discards("dcm", "s", reading.gaps)
    new.begin(stream(101, 200), consumer(0, 0, made=True), Place())
    new.receive(message(150, 1))
    new.receive(message(151, 2))
    new.flush()
    assert reading.counted == (0, 0)


def test_messages_of_other_subjects_are_not_lost() -> None:
    mixed = Reading(10, covered=False)
    assert mixed.check(1, 10)
    mixed.receive(500)
    assert mixed.check(450, 500)
    assert mixed.check(900, 1000)
    mixed.receive(2000)
    assert mixed.check(1900, 2000)
    mixed.discards.flush()
    assert mixed.counted == (0, 0)


def test_with_a_backlog_what_a_stream_of_other_subjects_discarded_is_an_upper_bound(
    caplog: pytest.LogCaptureFixture,
) -> None:
    mixed = Reading(10, covered=False)
    mixed.receive(11, pending=300)
    mixed.receive(500, pending=100)
    mixed.check(450, 600, pending=100)
    assert mixed.counted == (1, 0)
    assert "at most 438 messages of our subjects" in caplog.text


def test_with_a_backlog_gaps_between_stored_messages_are_of_other_subjects() -> None:
    mixed = Reading(10, covered=False)
    mixed.receive(11, 20, 40, pending=300)
    mixed.check(1, 600, pending=100)
    mixed.discards.flush()
    assert mixed.counted == (0, 0)
