# SPDX-License-Identifier: Apache-2.0
"""A stream whose store was replaced by an older copy, a stream that discards unread messages, and rewinding."""

from __future__ import annotations

import collections
import json
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.functional.sources.jetstream import (
    DURABLE,
    STREAM,
    Dcm,
    back_up,
    cloud_event,
    connected,
    dcm_of,
    disconnected,
    make_source,
    reading,
    restore,
)
from tests.functional.sources.listening import Engine
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError
from watcher_sync.sources.base import SourceStatus


class Committing(Engine):
    """Commits at once, with the position, and keeps the newest event of each id."""

    def __init__(self) -> None:
        super().__init__(acks=True)
        self.cursor: str | None = None
        self.rows: dict[str, Event] = {}

    def emit(self, events: Sequence[Event]) -> None:
        assert self.source is not None
        self.cursor = self.source.cursor(events) or self.cursor
        for event in events:
            known = self.rows.get(event.id)
            if known is None or order(event) > order(known):
                self.rows[event.id] = event
        super().emit(events)

    def status_of(self, number: int) -> object:
        return self.rows[f"e-{number}"].read()["status"]


class Slow(Committing):
    """Takes the next batch when the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_slow = True
        self._permits = threading.Semaphore(0)

    def emit(self, events: Sequence[Event]) -> None:
        if self.is_slow:
            self._permits.acquire()
        super().emit(events)

    def work(self) -> None:
        self._permits.release()


def order(event: Event) -> tuple[int, int]:
    assert event.sequence is not None
    return event.sequence


def status_event(number: int, status: str) -> bytes:
    return cloud_event(number, data={"id": f"vm-{number}", "status": status})


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    with dcm_of(own_nats.url) as client:
        yield client


@pytest.fixture
def engine() -> Committing:
    return Committing()


def losses(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "events are lost" in record.getMessage()]


# Restored from an older copy


@pytest.mark.parametrize("consumers", [True, False], ids=["with its consumers", "without consumers"])
@pytest.mark.parametrize("away", [True, False], ids=["engine stopped", "engine running"])
@pytest.mark.parametrize("later", [3, 30], ids=["below the known end", "beyond the known end"])
def test_a_stream_restored_from_an_older_copy_is_noticed_and_its_new_messages_win(
    own_nats: Server, dcm: Dcm, engine: Committing, tmp_path: Path, caplog: pytest.LogCaptureFixture,
    away: bool, later: int, consumers: bool,
) -> None:  # fmt: skip
    dcm.make_stream()
    with reading(engine, own_nats.url) as source:
        dcm.publish(*(status_event(n, "PROVISIONING") for n in range(20)))
        wait_until(dcm.settled)
        back_up(own_nats, tmp_path / "copy", consumers=consumers)
        connected(source)
        dcm.publish(*(status_event(n, "RUNNING") for n in range(10)))
        wait_until(lambda: len(engine.events) >= 30)
        wait_until(dcm.settled)
        own_nats.stop()
        if not away:
            disconnected(source, "")
            restore(own_nats, tmp_path / "copy")
            dcm.publish(*(status_event(n % 5, "STOPPED") for n in range(later)))
            finish(dcm, engine, later)
            status = source.status()
    if away:
        restore(own_nats, tmp_path / "copy")
        dcm.publish(*(status_event(n % 5, "STOPPED") for n in range(later)))
        with reading(engine, own_nats.url, cursor=engine.cursor) as source:
            finish(dcm, engine, later)
            status = source.status()
    stopped = min(later, 5)
    assert [engine.status_of(n) for n in range(stopped)] == ["STOPPED"] * stopped
    assert [engine.status_of(n) for n in range(stopped, 20)] == ["RUNNING"] * (10 - stopped) + ["PROVISIONING"] * 10
    check_report(status, caplog)


def finish(dcm: Dcm, engine: Committing, later: int) -> None:
    wait_until(lambda: engine.status_of(min(later, 5) - 1) == "STOPPED")
    wait_until(dcm.settled)


def check_report(status: SourceStatus, caplog: pytest.LogCaptureFixture) -> None:
    assert status.gaps == 1
    assert status.last_gap_at is not None
    assert "events are lost: the stream dcm-status was restored from an older copy" in status.detail
    assert len(losses(caplog)) == 1, losses(caplog)


def test_a_restoration_counts_once_however_often_the_source_starts_afterwards(
    own_nats: Server, dcm: Dcm, engine: Committing, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url) as source:
        dcm.publish(*(status_event(n, "PROVISIONING") for n in range(5)))
        wait_until(dcm.settled)
        back_up(own_nats, tmp_path / "copy")
        connected(source)
        dcm.publish(*(status_event(n, "RUNNING") for n in range(5)))
        wait_until(lambda: len(engine.events) >= 10)
        wait_until(dcm.settled)
        own_nats.stop()
        disconnected(source, "")
        restore(own_nats, tmp_path / "copy")
        dcm.publish(status_event(0, "STOPPED"))
        wait_until(lambda: engine.status_of(0) == "STOPPED")
    for status in ("PAUSED", "RUNNING"):
        with reading(engine, own_nats.url, cursor=engine.cursor) as source:
            dcm.publish(status_event(0, status))
            wait_until(lambda status=status: engine.status_of(0) == status)
            assert source.status().gaps == 0
            assert "events are lost: the stream dcm-status was restored from an older copy" in source.status().detail
    assert len(losses(caplog)) == 1


def test_a_killed_server_is_no_restoration(
    own_nats: Server, dcm: Dcm, engine: Committing, caplog: pytest.LogCaptureFixture
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url, ack_wait=1.0) as source:
        for lot in range(3):
            dcm.publish(*(status_event(n, "RUNNING") for n in range(lot * 200, lot * 200 + 200)))
            own_nats.kill()
            disconnected(source, "")
            own_nats.start()
            connected(source)
        wait_until(dcm.settled)
        assert len(engine.rows) == 600
        assert source.status().gaps == 0
    assert not losses(caplog)


# Discarded unread


def test_what_a_stream_discarded_by_max_msgs_while_the_engine_was_stopped_is_counted(
    own_nats: Server, dcm: Dcm, engine: Committing, caplog: pytest.LogCaptureFixture
) -> None:
    dcm.make_stream(max_msgs=500)
    with reading(engine, own_nats.url):
        dcm.publish(*(cloud_event(n) for n in range(20)))
        wait_until(dcm.settled)
    dcm.flood(cloud_event(n) for n in range(20, 2020))
    wait_until(lambda: dcm.stream().state.last_seq == 2020)
    with reading(engine, own_nats.url, cursor=engine.cursor) as source:
        wait_until(lambda: "e-2019" in engine.rows)
        wait_until(dcm.settled)
        status = source.status()
    assert (status.gaps, status.lost) == (1, 1500)
    assert "discarded 1500 messages before they were read, in sequences 21 to 1520, all after the one" in status.detail
    assert len(losses(caplog)) == 1


def test_what_a_stream_discarded_by_max_age_is_counted_though_nothing_is_left_to_read(
    own_nats: Server, dcm: Dcm, engine: Committing
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url):
        dcm.publish(cloud_event(0))
        wait_until(dcm.settled)
    dcm.publish(*(cloud_event(n) for n in range(1, 101)))
    dcm.limit_age(1.0)
    wait_until(lambda: dcm.stream().state.messages == 0)
    dcm.limit_age(0)
    with reading(engine, own_nats.url, cursor=engine.cursor) as source:
        assert (source.status().gaps, source.status().lost) == (1, 100)
        dcm.publish(cloud_event(101))
        wait_until(lambda: "e-101" in engine.rows)
        assert source.status().gaps == 1


def test_what_a_stream_discards_under_a_slow_engine_is_counted_exactly(
    own_nats: Server, dcm: Dcm, caplog: pytest.LogCaptureFixture
) -> None:
    dcm.make_stream(max_msgs=100)
    slow = Slow()
    with reading(slow, own_nats.url, batch=20, max_ack_pending=40) as source:
        for lot in range(10):
            dcm.publish(*(cloud_event(n) for n in range(lot * 100, lot * 100 + 100)))
            slow.work()
        slow.is_slow = False
        slow.work()
        wait_until(lambda: "e-999" in slow.rows)
        wait_until(dcm.settled)
    status = source.status()
    assert len(slow.rows) < 900
    assert len(slow.rows) + status.lost == 1000
    assert 1 <= len(losses(caplog)) <= 3, losses(caplog)


def test_what_is_discarded_in_the_middle_of_a_stream_is_counted(own_nats: Server, dcm: Dcm, engine: Committing) -> None:
    dcm.make_stream(max_msgs_per_subject=50)
    with reading(engine, own_nats.url):
        dcm.publish(cloud_event(0), subject="dcm.storage")
        wait_until(dcm.settled)
    dcm.publish(*(cloud_event(n) for n in range(1, 201)))
    with reading(engine, own_nats.url, cursor=engine.cursor) as source:
        wait_until(lambda: "e-200" in engine.rows)
        assert (source.status().gaps, source.status().lost) == (1, 150)


def test_in_a_stream_with_other_subjects_only_what_may_be_lost_is_reported(
    own_nats: Server, dcm: Dcm, engine: Committing, caplog: pytest.LogCaptureFixture
) -> None:
    dcm.make_stream(subjects="dcm.* other.*", max_msgs=100)
    with reading(engine, own_nats.url) as source:
        dcm.publish(cloud_event(0))
        wait_until(lambda: source.status().lag == 0)
        wait_until(dcm.settled)
        for n in range(1, 4):
            dcm.flood((cloud_event(0) for _ in range(300)), subject="other.thing")
            dcm.publish(cloud_event(n))
            wait_until(lambda n=n: f"e-{n}" in engine.rows)
        assert source.status().gaps == 0
    dcm.flood(cloud_event(n) for n in range(4, 300))
    wait_until(lambda: dcm.stream().state.last_seq == 1200)
    with reading(engine, own_nats.url, cursor=engine.cursor) as source:
        wait_until(lambda: "e-299" in engine.rows)
        assert (source.status().gaps, source.status().lost) == (1, 0)
    assert "discarded at most 196 messages of our subjects" in losses(caplog)[0]


@pytest.mark.parametrize("retention", ["workqueue", "interest"])
def test_a_stream_that_removes_what_was_acknowledged_loses_nothing(
    own_nats: Server, dcm: Dcm, engine: Committing, caplog: pytest.LogCaptureFixture, retention: str
) -> None:
    dcm.make_stream(retention=retention)
    cursor = None
    for lot in range(3):
        with reading(engine, own_nats.url, cursor=cursor):
            dcm.publish(*(cloud_event(n) for n in range(lot * 50, lot * 50 + 50)))
            wait_until(lambda lot=lot: len(engine.rows) == lot * 50 + 50)
            wait_until(lambda: dcm.stream().state.messages == 0)
        cursor = engine.cursor
        dcm.publish(cloud_event(lot * 50 + 49))
    assert not losses(caplog)


# Rewinding


def created(dcm: Dcm) -> object:
    return dcm.consumer().created


def test_a_source_rewinds_to_the_cursor_of_a_database_that_went_back(
    own_nats: Server, dcm: Dcm, engine: Committing
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url):
        dcm.publish(*(cloud_event(n) for n in range(10)))
        wait_until(dcm.settled)
    with reading(engine, own_nats.url, cursor=engine.cursor):
        dcm.publish(cloud_event(10))  # with it the position says that all before is acknowledged
        wait_until(dcm.settled)
        old = engine.cursor
        dcm.publish(*(cloud_event(n) for n in range(11, 20)))
        wait_until(dcm.settled)
    assert old is not None
    assert json.loads(old)["seen"][0] == 11
    floor = json.loads(old).get("floor", 0)  # where no look at the consumer came before the commit, all is read again
    assert floor <= 11
    before = created(dcm)
    again = Committing()
    source = make_source(own_nats.url, cursor=old)
    again.source = source
    assert source.rewind_to_cursor()
    source.start(again.emit)
    try:
        wait_until(lambda: len(again.rows) == 20 - floor)
        wait_until(dcm.settled)
        assert sorted(order(event)[1] for event in again.rows.values()) == list(range(floor + 1, 21))
        assert source.status().gaps == 0
    finally:
        source.stop(time.monotonic() + deadline(5))
    assert created(dcm) != before
    with reading(again, own_nats.url, cursor=again.cursor):
        dcm.publish(cloud_event(20))
        wait_until(lambda: "e-20" in again.rows)
    assert collections.Counter(event.id for event in again.events).most_common(1)[0][1] == 1


@pytest.mark.parametrize(("to", "expected"), [("first", 0), ("8", 7), ("2020-01-01", 0)])
def test_a_position_that_was_set_by_hand_is_read_from_once(
    own_nats: Server, dcm: Dcm, engine: Committing, to: str, expected: int
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url):
        dcm.publish(*(cloud_event(n) for n in range(10)))
        wait_until(dcm.settled)
    moved = make_source(own_nats.url, cursor=engine.cursor).cursor_at(to)
    again = Committing()
    with reading(again, own_nats.url, cursor=moved):
        wait_until(lambda: len(again.events) == 10 - expected)
        wait_until(dcm.settled)
    after = created(dcm)
    with reading(again, own_nats.url, cursor=again.cursor):
        dcm.publish(cloud_event(10))
        wait_until(lambda: "e-10" in again.rows)
    assert created(dcm) == after
    assert len(again.events) == 11 - expected


def test_a_place_that_is_none_is_refused(own_nats: Server) -> None:
    with pytest.raises(ConfigError, match="source dcm: 'yesterday' is neither first, nor a sequence"):
        make_source(own_nats.url).cursor_at("yesterday")


def test_a_rewound_position_survives_a_consumer_that_cannot_be_replaced_yet(
    own_nats: Server, dcm: Dcm, engine: Committing
) -> None:
    dcm.make_stream()
    with reading(engine, own_nats.url):
        dcm.publish(*(cloud_event(n) for n in range(3)))
        wait_until(dcm.settled)
    moved = make_source(own_nats.url, cursor=engine.cursor).cursor_at("first")
    own_nats.stop()
    again = Committing()
    starting = threading.Timer(0.5, own_nats.start)
    starting.start()
    with reading(again, own_nats.url, cursor=moved):
        wait_until(lambda: len(again.events) == 3)
    starting.join()
    assert dcm.do(dcm.js.consumer_info(STREAM, DURABLE)).name == DURABLE
