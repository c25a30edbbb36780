# SPDX-License-Identifier: Apache-2.0
"""The events of a stream's messages, and the state of the messages in the stream."""

from __future__ import annotations

import collections
import itertools
import json
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from tests.functional.sources.jetstream import (
    DURABLE,
    STREAM,
    Dcm,
    cloud_event,
    connected,
    dcm_of,
    disconnected,
    make_source,
    reading,
    running,
    stop,
)
from tests.functional.sources.listening import Engine
from tests.services.servers import Server
from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.events import Event
from watcher_sync.extensions.dcm.source.stream import microseconds
from watcher_sync.sources.base import SourceState

COUNTS = [2_000, pytest.param(20_000, marks=pytest.mark.rare)]


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    with dcm_of(own_nats.url) as client:
        client.make_stream()
        yield client


def epoch_of(dcm: Dcm) -> int:
    """The stream's creation time, read from the server's answer itself."""
    answer = dcm.do(dcm.client.request("$JS.API.STREAM.INFO.dcm-status", b"", timeout=deadline(60)))
    return microseconds(json.loads(answer.data)["created"])


def longest_pause(dcm: Dcm, seconds: float) -> float:
    """Ask the server again and again; the longest time without an answer: a pause of it, or of this process."""
    began = latest = time.monotonic()
    longest = 0.0
    while latest - began < seconds:
        dcm.consumer()
        time.sleep(0.1)
        now = time.monotonic()
        longest, latest = max(longest, now - latest), now
    return longest


def test_messages_become_events_in_order_with_their_subject_and_place_in_the_stream(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(*(cloud_event(n) for n in range(3)))
    dcm.publish(cloud_event(3), subject="dcm.container")
    engine = Engine(acks=True)
    with reading(engine, own_nats.url):
        wait_until(lambda: len(engine.events) == 4)
        wait_until(dcm.settled)
    epoch = epoch_of(dcm)
    assert [event.sequence for event in engine.events] == [(epoch, n) for n in (1, 2, 3, 4)]
    assert [event.channel for event in engine.events] == ["dcm.vm"] * 3 + ["dcm.container"]
    first = engine.events[0]
    assert (first.id, first.type, first.source, first.origin) == ("e-0", "dcm.status.vm", "dcm", "dcm/providers/p1")
    assert (first.subject, first.deliveries, first.read()) == ("vm-0", 1, {"id": "vm-0", "status": "RUNNING"})


def test_a_cloud_event_in_binary_mode_is_the_same_event(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(
        b'{"id": "vm-1", "status": "RUNNING"}',
        headers={
            "ce-specversion": "1.0",
            "CE-Id": "e-1",
            "ce-source": "dcm/providers/p1",
            "ce-type": "dcm.status.vm",
            "ce-subject": "vm-1",
            "ce-time": "2026-01-02T03:04:05Z",
            "content-type": "application/json; charset=utf-8",
        },
    )
    dcm.publish(cloud_event(1))
    engine = Engine(acks=True)
    with reading(engine, own_nats.url):
        wait_until(lambda: len(engine.events) == 2)
    binary, structured = engine.events
    for name in ("id", "type", "origin", "subject", "time", "channel", "undecodable"):
        assert getattr(binary, name) == getattr(structured, name), name
    assert binary.read() == structured.read()


@pytest.mark.parametrize("count", COUNTS)
def test_many_messages_come_once_each_and_in_order(own_nats: Server, dcm: Dcm, count: int) -> None:
    dcm.flood(cloud_event(n) for n in range(count))
    engine = Engine(acks=True)
    with reading(engine, own_nats.url):
        wait_until(lambda: len(engine.events) >= count, 180)
        wait_until(dcm.settled)
    assert [event.id for event in engine.events] == [f"e-{n}" for n in range(count)]


def test_a_lone_message_is_not_delayed(own_nats: Server, dcm: Dcm) -> None:
    engine = Engine(acks=True)
    numbers = itertools.count()

    def delay() -> float:
        n, began = next(numbers), time.monotonic()
        dcm.publish(cloud_event(n))
        wait_until(lambda: len(engine.events) == n + 1)
        return engine.arrived[-1] - began

    with reading(engine, own_nats.url):
        # A busy machine delays each of them more or less, and what waits on purpose all of them.
        wait_until(lambda: delay() < 0.05, what="a message without a delay")


def test_what_is_not_acked_comes_again_and_what_is_acked_does_not(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(*(cloud_event(n) for n in range(4)))
    engine = Engine(acks=False)
    source = make_source(own_nats.url)
    source.start(engine.emit)
    wait_until(lambda: len(engine.events) == 4)
    source.ack([event for event in engine.events if event.id in ("e-0", "e-2")])
    wait_until(lambda: dcm.consumer().num_ack_pending == 2)
    stop(source, 1)
    again = Engine(acks=True)
    with reading(again, own_nats.url):
        wait_until(lambda: len(again.events) == 2)
        wait_until(dcm.settled)
    assert sorted(event.id for event in again.events) == ["e-1", "e-3"]
    assert [event.deliveries for event in again.events] == [2, 2]


def test_what_is_released_comes_again_later_each_time(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(cloud_event(1))
    engine = Engine(acks=False)
    with reading(engine, own_nats.url) as source:
        for n in range(1, 4):
            wait_until(lambda n=n: len(engine.events) == n)
            source.nack(engine.batches[-1], 0.2)
        wait_until(lambda: len(engine.events) == 4)
        source.ack(engine.batches[-1])
        wait_until(dcm.settled)
    pauses = [later - earlier for earlier, later in zip(engine.arrived, engine.arrived[1:], strict=False)]
    assert [event.deliveries for event in engine.events] == [1, 2, 3, 4]
    assert all(pause >= least for pause, least in zip(pauses, (0.15, 0.35, 0.75), strict=True)), pauses


def test_what_is_in_hand_for_longer_than_ack_wait_is_not_delivered_again(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(*(cloud_event(n) for n in range(3)))
    engine = Engine(acks=False)
    with reading(engine, own_nats.url, ack_wait=5.0) as source:
        for _ in range(10):
            wait_until(lambda: {event.id for event in engine.events} == {"e-0", "e-1", "e-2"})
            # ack_wait passes by twice: nothing must happen, unless a pause delayed the request for more time.
            pause = longest_pause(dcm, 11)
            came, redelivered = len(engine.events), dcm.consumer().num_redelivered
            source.ack(engine.events)
            wait_until(dcm.settled)
            if pause < 2.0:
                break
            engine.batches.clear()
            dcm.publish(*(cloud_event(n) for n in range(3)))
        assert (came, redelivered) == (3, 0), f"no pause was longer than {pause:.1f} s"


def test_a_message_that_is_delivered_too_often_goes_to_quarantine_with_subject_and_sequence(
    own_nats: Server, dcm: Dcm
) -> None:
    body = cloud_event(7)
    dcm.publish(cloud_event(0), body, subject="dcm.network")
    engine = Engine(acks=False)
    with reading(engine, own_nats.url, max_deliveries=2) as source:
        wait_until(lambda: len(engine.events) == 2)
        good, poison = engine.events
        source.ack([good])
        for n in (3, 4):
            source.nack([poison], 0.05)
            wait_until(lambda n=n: len(engine.events) == n)
            poison = engine.events[-1]
        source.ack([poison])
        wait_until(dcm.settled)
    assert (poison.id, poison.type, poison.data, poison.deliveries) == ("e-7", "dcm.status.vm", body, 3)
    assert poison.undecodable == ("delivered 3 times and not done, 2 is the limit (subject dcm.network, sequence 2)")
    assert [event.undecodable is None for event in engine.events] == [True, True, True, False]


def test_malformed_messages_stall_nothing_and_tell_their_subject_and_sequence(own_nats: Server, dcm: Dcm) -> None:
    bad = [b"", b"\xff", b"{", b'{"specversion": "1.0"}', b'{"specversion":"1.0","specversion":"1.0"}', b"[NaN]"]
    bodies = [bad[n // 100 % len(bad)] if n % 100 == 7 else cloud_event(n) for n in range(3000)]
    dcm.flood(bodies)
    engine = Engine(acks=True)
    with reading(engine, own_nats.url):
        wait_until(lambda: len(engine.events) == 3000)
        wait_until(dcm.settled)
    refused = [event for event in engine.events if event.undecodable]
    assert len(refused) == 30
    assert len({event.id for event in refused}) == 30
    for event in refused:
        sequence = event.sequence[1]
        assert sequence % 100 == 8
        assert event.undecodable.endswith(f"(subject dcm.vm, sequence {sequence})")
        assert event.data == bodies[sequence - 1]


def test_the_server_is_not_asked_for_the_lag_while_every_message_tells_it(own_nats: Server, dcm: Dcm) -> None:
    dcm.flood(cloud_event(n) for n in range(6_000))
    wait_until(lambda: dcm.stream().state.messages == 6_000)

    class Slow(Engine):
        def emit(self, events: Sequence[Event]) -> None:
            time.sleep(len(events) / 500)
            super().emit(events)

    engine = Slow(acks=True)
    asked: list[int] = []

    async def count(message: Any) -> None:
        asked.append(len(engine.events))

    dcm.do(dcm.client.subscribe("$JS.API.CONSUMER.INFO.>", cb=count))
    with reading(engine, own_nats.url, batch=100) as source:
        lags: set[int | None] = set()
        wait_until(lambda: lags.add(source.status().lag) or len(engine.events) >= 4_500, 60)
        # A connection that is made again asks for what it needs.
        most = 1 + 4 * source.status().reconnects
        # Before the first message nothing tells the lag, so it may be asked for.
        assert len([events for events in asked if 0 < events < 4_500]) <= most
        assert len([lag for lag in lags if lag is not None and 1_000 <= lag < 6_000]) >= 2, lags
        wait_until(lambda: source.status().lag == 0)
        wait_until(lambda: any(events >= 4_500 for events in asked))  # when little is left, it is asked again


def test_the_lag_is_what_the_server_holds_back(own_nats: Server, dcm: Dcm) -> None:
    engine = Engine(acks=False)
    with reading(engine, own_nats.url, batch=10) as source:
        dcm.publish(*(cloud_event(n) for n in range(100)))
        wait_until(lambda: engine.events)
        wait_until(lambda: source.status().lag == 100 - dcm.consumer().num_ack_pending)
        engine.acks = True
        wait_until(lambda: len(engine.events) == 100)
        source.ack(engine.events)
        wait_until(lambda: source.status().lag == 0)
        assert source.status().redelivered == 0
        assert source.status().last_event_at is not None
    assert source.status().state is SourceState.STOPPED


def test_no_more_is_taken_from_the_server_than_the_engine_has_room_for(own_nats: Server, dcm: Dcm) -> None:
    """An engine that takes nothing more holds the server back, and heartbeats go on."""
    gate = {"open": False}

    class Slow(Engine):
        def emit(self, events):
            super().emit(events)
            wait_until(lambda: gate["open"], 180)

    dcm.flood(cloud_event(n) for n in range(1000))
    engine = Slow(acks=True)
    with reading(engine, own_nats.url, batch=50) as source:
        wait_until(lambda: source.status().lag is not None and source.status().lag < 1000)
        for _ in range(5):
            before = source.status().reconnects
            pause = longest_pause(dcm, 7)  # longer than the silence that would mean a lost server
            reconnects = source.status().reconnects - before
            if pause < 2.0:
                break
        assert dcm.consumer().num_ack_pending <= 150
        assert reconnects == 0, f"no pause was longer than {pause:.1f} s"
        gate["open"] = True
        wait_until(lambda: len(engine.events) == 1000)
        wait_until(dcm.settled)
    assert [event.id for event in engine.events] == [f"e-{n}" for n in range(1000)]


def test_a_stop_waits_for_what_the_engine_has_and_gives_back_the_rest(own_nats: Server, dcm: Dcm) -> None:
    dcm.flood(cloud_event(n) for n in range(5000))
    first = Engine(acks=True)
    source = make_source(own_nats.url)
    first.source = source
    source.start(first.emit)
    wait_until(lambda: len(first.events) > 500)
    assert stop(source, 60) < 45
    done = {event.id for event in first.events}

    def left() -> int:
        info = dcm.consumer()
        return int(info.num_pending + info.num_ack_pending)

    wait_until(lambda: left() == 5000 - len(done), what="the arrival of every ack at the server")
    second = Engine(acks=True)
    with reading(second, own_nats.url):
        wait_until(dcm.settled)  # half of ack_wait: what was not emitted has been given back
    rest = {event.id for event in second.events}
    assert not done & rest, "what was committed is delivered again"
    assert len(done | rest) == 5000


def test_a_stop_gives_back_at_the_deadline_what_the_engine_does_not_finish(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(cloud_event(1))
    engine = Engine(acks=False)
    source = make_source(own_nats.url)
    source.start(engine.emit)
    wait_until(lambda: engine.events)
    assert 0.5 < stop(source, 1.5) < 40
    again = Engine(acks=True)
    with reading(again, own_nats.url):
        wait_until(lambda: again.events)


def test_a_source_that_never_connected_stops_at_once(own_nats: Server) -> None:
    own_nats.kill()
    source = make_source(own_nats.url)
    source.start(Engine(acks=True).emit)
    disconnected(source, "cannot connect")
    assert stop(source, 60) < 45


def test_the_reach_says_why_there_is_nothing(own_nats: Server, dcm: Dcm) -> None:
    make_source(own_nats.url).probe()
    own_nats.kill()
    with pytest.raises(Exception, match="Connect"):
        make_source(own_nats.url).probe()


def test_two_sources_of_one_durable_share_the_messages(own_nats: Server, dcm: Dcm) -> None:
    one, two = Engine(acks=True), Engine(acks=True)
    with running(one, own_nats.url, batch=20) as a, running(two, own_nats.url, batch=20) as b:
        connected(a)
        connected(b)
        lots = itertools.count()
        limit = Deadline(60)
        while not (one.events and two.events):
            assert not limit.is_over, "one of them gets nothing"
            lot = next(lots)
            dcm.publish(*(cloud_event(n) for n in range(lot * 100, lot * 100 + 100)))
        count = next(lots) * 100
        wait_until(lambda: len(one.events) + len(two.events) >= count)
        wait_until(dcm.settled)
    assert sorted(event.sequence[1] for event in one.events + two.events) == list(range(1, count + 1))


def test_what_a_closed_engine_does_not_take_is_given_back_at_the_stop(own_nats: Server, dcm: Dcm) -> None:
    dcm.publish(*(cloud_event(n) for n in range(10)))
    closed = Engine(acks=False)
    closed.closed = True
    source = make_source(own_nats.url)
    source.start(closed.emit)
    wait_until(lambda: dcm.do(dcm.js.consumers_info("dcm-status")) and dcm.consumer().num_ack_pending == 10)
    assert stop(source, 60) < 45
    assert closed.events == []
    again = Engine(acks=True)
    with reading(again, own_nats.url):
        wait_until(lambda: len(again.events) == 10)


@pytest.mark.parametrize("count", COUNTS)
def test_of_many_messages_with_one_in_twenty_released_none_is_lost(own_nats: Server, dcm: Dcm, count: int) -> None:
    rng = random.Random(5)
    released: list[int] = []

    class Moody(Engine):
        def emit(self, events):
            super().emit(events)
            back = [event for event in events if rng.random() < 0.05]
            released.extend(event.sequence[1] for event in back)
            self.source.nack(back, 0.02)
            self.source.ack([event for event in events if event not in back])

    dcm.flood(cloud_event(n) for n in range(count))
    engine = Moody(acks=False)
    with reading(engine, own_nats.url):
        wait_until(lambda: len(engine.events) >= count + len(released) and dcm.settled(), 180)
    came = collections.Counter(event.sequence[1] for event in engine.events)
    assert set(came) == set(range(1, count + 1))
    assert came == collections.Counter(range(1, count + 1)) + collections.Counter(released)
    assert len(released) > count // 25
    assert not [event for event in engine.events if event.undecodable]


def test_messages_that_were_delivered_often_are_taken_one_by_one_until_they_are_done(
    own_nats: Server, dcm: Dcm
) -> None:
    """So that only the one that ends its engine is delivered again, and not whatever was in hand beside it."""
    dcm.make_consumer(ack_wait=60.0)

    async def deliver_again(times: int) -> None:
        subscription = await dcm.js.pull_subscribe_bind(durable=DURABLE, stream=STREAM)
        held = []
        while len(held) < 20:
            for message in await subscription.fetch(20 - len(held), timeout=deadline(60)):
                if message.metadata.num_delivered < times:
                    await message.nak()
                else:
                    held.append(message)
        for message in held:
            await message.nak()
        await subscription.unsubscribe()

    dcm.publish(*(cloud_event(n) for n in range(20)))
    dcm.do(deliver_again(5))
    engine = Engine(acks=False)
    with reading(engine, own_nats.url, max_deliveries=10, ack_wait=60.0) as source:
        for number in range(20):
            wait_until(lambda number=number: len(engine.events) > number)
            assert dcm.consumer().num_ack_pending <= 20
            assert len(source.in_flight) == 1
            source.ack(engine.batches[-1])
        dcm.publish(*(cloud_event(n) for n in range(20, 50)))
        wait_until(lambda: len(engine.events) == 50)
        source.ack(engine.events[20:])
        wait_until(dcm.settled)
    assert [event.id for event in engine.events[:20]] == [f"e-{n}" for n in range(20)]
    assert not [event.undecodable for event in engine.events if event.undecodable]


def test_what_comes_in_one_batch_with_a_message_to_be_taken_alone_is_not_delivered_again(
    own_nats: Server, dcm: Dcm
) -> None:
    """Else one message that fails again and again has the deliveries of its neighbours counted up."""

    class Unlucky(Engine):
        def emit(self, events):
            super().emit(events)
            failed = [event for event in events if event.sequence[1] in (500, 700) and event.deliveries < 9]
            self.source.nack(failed, 0.0)
            self.source.ack([event for event in events if event not in failed])

    engine = Unlucky(acks=False)
    with reading(engine, own_nats.url, max_deliveries=10):
        for begin in range(0, 20_000, 2_000):
            dcm.flood(cloud_event(n) for n in range(begin, begin + 2_000))
        wait_until(lambda: len({event.sequence[1] for event in engine.events}) == 20_000 and dcm.settled(), 180)
    came = collections.Counter(event.sequence[1] for event in engine.events)
    assert {number: times for number, times in came.items() if times > 1} == {500: 9, 700: 9}
    for number in (500, 700):
        deliveries = [event.deliveries for event in engine.events if event.sequence[1] == number]
        assert deliveries == list(range(1, 10)), "only what was released is delivered again"
    assert not [event.undecodable for event in engine.events if event.undecodable]
    # What was in hand beside it comes first, so it was alone.
    assert all(len(batch) == 1 for batch in engine.batches if any(event.deliveries > 5 for event in batch))
    assert dcm.consumer().delivered.consumer_seq == 20_000 + 2 * 8
