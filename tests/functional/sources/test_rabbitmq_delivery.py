# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq`` on a real RabbitMQ: what is committed leaves the broker, and nothing else."""

from __future__ import annotations

import threading
import time
import zlib
from typing import Any

import pytest
from amqp import exceptions as amqp_exceptions

from tests.functional.sources.bad_messages import BAD
from tests.functional.sources.listening import (
    BROKER,
    Engine,
    Publisher,
    declare_exchange,
    envelope,
    listening,
    make_source,
    wrap,
)
from tests.functional.sources.rabbitmq_consuming import QUORUM, consuming, unacked_after
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.openstack.source.oslo_messaging import OsloMessagingSource
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import Source, SourceState


@pytest.fixture(autouse=True)
def _changes_of_state_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "watcher_sync")


def test_events_arrive_in_order_over_all_priorities(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    priorities = ["info", "error", "warn", "critical"]
    with consuming(publisher.name, engine, batch_size=50):
        for number in range(1000):
            publisher.publish(wrap(envelope(number)), priorities[number % 4])
        wait_until(lambda: len(engine.events) == 1000)
    assert [event.id for event in engine.events] == [f"m-{number}" for number in range(1000)]
    assert max(map(len, engine.batches)) <= 50
    first = engine.events[0]
    assert (first.type, first.origin, first.read()) == ("instance.update", "nova-compute:host1", {"number": 0})
    assert first.undecodable is None
    assert publisher.waiting() == 0


@pytest.mark.parametrize("url", [BROKER, QUORUM], ids=["classic", "quorum"])
def test_an_event_leaves_the_broker_only_after_its_ack(publisher: Publisher, url: str) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, url, batch_size=1) as source:
        for number in range(4):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.batches) == 4)
        source.ack(engine.batches[0])
        source.ack(engine.batches[2])  # behind one that is not committed: it stays
    wait_until(lambda: publisher.waiting() == 3)
    engine.acks = True
    with consuming(publisher.name, engine, url):
        wait_until(lambda: len(engine.events) == 7)
    assert [(event.id, event.deliveries) for event in engine.events[4:]] == [("m-1", 2), ("m-2", 2), ("m-3", 2)]
    assert publisher.waiting() == 0


def test_nacked_events_come_again_and_only_they_and_not_before_the_delay(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine) as source:
        for number in range(4):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 4)
        events = engine.events
        engine.acks = True
        nacked = time.monotonic()
        source.ack([events[0], events[1], events[3]])
        source.nack([events[2]], 0.4)
        wait_until(lambda: len(engine.events) > 4)
        assert engine.arrived[-1] - nacked >= 0.4
    assert [(event.id, event.deliveries) for event in engine.events[4:]] == [("m-2", 2)]
    assert publisher.waiting() == 0


def test_a_message_that_cannot_be_decoded_or_is_too_large_arrives_as_an_undecodable_event(
    publisher: Publisher,
) -> None:
    engine = Engine(acks=True)
    with consuming(publisher.name, engine, max_event_size=2000):
        for body, _ in BAD:
            publisher.publish(body)
        publisher.publish(wrap(envelope(99)), content_type="nonsense", content_encoding="utf-16")
        wait_until(lambda: len(engine.events) == len(BAD) + 1)
    assert [event.data for event in engine.events[:-1]] == [body[:4096] for body, _ in BAD]
    assert [str(event.undecodable).split(" bytes are")[-1] for event in engine.events[:-1]] == [
        reason.split(" bytes are")[-1] for _, reason in BAD
    ]
    assert engine.events[-1].id == "m-99"
    assert engine.events[-1].undecodable is None
    assert publisher.waiting() == 0


def test_a_body_that_cannot_be_decompressed_goes_to_quarantine_with_the_reason_and_its_bytes(
    publisher: Publisher,
) -> None:
    bomb, unknown = zlib.compress(b" " * 1_000_000), b"\xff\x06\x00\x00sNaPpY"
    engine = Engine(acks=True)
    with consuming(publisher.name, engine, max_event_size=2000):
        publisher.publish(bomb, headers={"compression": "application/x-gzip"})
        publisher.publish(unknown, headers={"compression": "snappy"})
        publisher.publish(unknown, content_encoding="snappy")
        publisher.publish(zlib.compress(wrap(envelope(1))), headers={"compression": "application/x-gzip"})
        wait_until(lambda: len(engine.events) == 4)
    assert [(event.data, event.undecodable) for event in engine.events[:3]] == [
        (bomb, 'compression "application/x-gzip": more than the 2000 bytes allowed after decompression'),
        (unknown, 'compression "snappy" is unknown'),
        (unknown, 'content_encoding "snappy" is unknown'),
    ]
    assert engine.events[3].id == "m-1"


@pytest.mark.parametrize("url", [BROKER, pytest.param(QUORUM, marks=pytest.mark.rare)], ids=["classic", "quorum"])
def test_the_prefetch_is_in_force_at_first_and_after_each_reopening(publisher: Publisher, url: str) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, url, prefetch=7) as source:
        for number in range(30):
            publisher.publish(wrap(envelope(number)))
        unacked_after(publisher, 7, 30)
        publisher.channel.queue_delete(publisher.name)
        wait_until(lambda: source.status().gaps == 1)  # counted when the queue is declared again
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        for number in range(30):
            publisher.publish(wrap(envelope(100 + number)))
        unacked_after(publisher, 7, 30)


def test_an_operators_prefetch_in_the_url_counts(publisher: Publisher) -> None:
    with consuming(publisher.name, Engine(acks=False), f"{BROKER}?rabbit_qos_prefetch_count=3"):
        for number in range(10):
            publisher.publish(wrap(envelope(number)))
        unacked_after(publisher, 3, 10)
    wait_until(lambda: publisher.waiting() == 10)


def test_unacked_messages_return_after_the_limit_and_the_source_pauses_until_the_engine_acks(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, hand_back_after=60.0, batch_size=5, prefetch=8) as source:
        for number in range(20):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 8)
        source.settings.hand_back_after = 0.2
        wait_until(lambda: source.status().detail and publisher.waiting() == 20)
        assert source.status().state is SourceState.CONNECTED
        assert "paused" in source.status().detail
        time.sleep(1.2)  # wait: longer than the interval of the session's loop
        assert publisher.waiting() == 20  # no loop of redeliveries
        assert len(engine.events) == 8
        source.settings.hand_back_after = 60.0  # no pause of the machine is another one of the source
        engine.acks = True
        source.ack(engine.batches[0])
        wait_until(lambda: len(engine.events) == 28)
        wait_until(lambda: source.status().detail == "")
        assert source.status().reconnects == 0
    assert publisher.waiting() == 0
    assert [event.id for event in engine.events[8:]] == [f"m-{number}" for number in range(20)]
    texts = [record.getMessage() for record in caplog.records]
    assert len([text for text in texts if "paused" in text]) == 1
    assert len([text for text in texts if "resumed" in text]) == 1


def test_an_ack_that_comes_after_its_channel_was_closed_acknowledges_nothing(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, hand_back_after=60.0, prefetch=4, batch_size=1) as source:
        for number in range(8):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 4)
        source.settings.hand_back_after = 0.2
        wait_until(lambda: publisher.waiting() == 8)
        source.settings.hand_back_after = 60.0  # no pause of the machine is another one of the source
        source.ack(engine.batches[0])  # resumes, and is too late itself
        wait_until(lambda: len(engine.events) == 8)
        source.ack([event for batch in engine.batches[1:4] for event in batch])
        source.ack(engine.batches[4])
        wait_until(lambda: len(engine.events) == 9)
    assert [event.id for event in engine.events] == [f"m-{number}" for number in (0, 1, 2, 3, 0, 1, 2, 3, 4)]
    wait_until(lambda: publisher.waiting() == 7)


def test_above_the_limit_of_bytes_nothing_more_is_read_until_the_engine_settles(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = wrap(envelope(1, payload={"pad": "x" * 400_000}))
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, prefetch=1000) as source:
        for _ in range(250):
            publisher.publish(body)
        most = 67_108_864 // len(body) + 2
        wait_until(lambda: "paused" in source.status().detail)
        assert len(engine.events) <= most
        wait_until(lambda: publisher.waiting() == 250)
        # No pause of the machine is another one of the source.
        monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._MAX_HOLD_SECONDS", 600.0)
        engine.acks = True
        count = len(engine.events)
        source.ack(engine.events)
        wait_until(lambda: len(engine.events) == count + 250)
    assert publisher.waiting() == 0


def test_a_stop_waits_for_the_events_in_the_engines_hands_and_their_acks_reach_the_broker(
    publisher: Publisher,
) -> None:
    engine = Engine(acks=False)
    source = make_source(publisher.name, driver=RabbitMQSource)
    declare_exchange(publisher.name)
    source.start(engine.emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    for number in range(8):
        publisher.publish(wrap(envelope(number)))
    wait_until(lambda: len(engine.events) == 8)
    stopper = threading.Thread(target=source.stop, args=(time.monotonic() + deadline(600),), daemon=True)
    stopper.start()
    wait_until(source._stopping.is_set)
    publisher.publish(wrap(envelope(99)))
    stopper.join(0.3)
    assert stopper.is_alive()
    source.ack(engine.events[:4])
    source.nack(engine.events[4:6], 5.0)
    source.ack(engine.events[6:8])
    stopper.join(deadline(60))
    assert not stopper.is_alive()  # long before its deadline
    wait_until(lambda: publisher.waiting() == 3)
    assert source.status().state is SourceState.STOPPED


def test_a_stop_with_events_that_were_not_emitted_does_not_wait_for_them(publisher: Publisher) -> None:
    release = threading.Event()
    taken: list[Any] = []

    def emit(events: Any) -> None:
        taken.append(events)
        release.wait(deadline(60))

    source = make_source(publisher.name, driver=RabbitMQSource, batch_size=5)
    declare_exchange(publisher.name)
    source.start(emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    for number in range(50):
        publisher.publish(wrap(envelope(number)))
    wait_until(lambda: publisher.waiting() == 0 and taken)
    count = len(taken[0])
    stopper = threading.Thread(target=source.stop, args=(time.monotonic() + deadline(600),), daemon=True)
    stopper.start()
    wait_until(source._stopping.is_set)
    source.ack(taken[0])
    release.set()
    stopper.join(deadline(60))
    assert not stopper.is_alive()  # long before its deadline
    wait_until(lambda: publisher.waiting() == 50 - count)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("rabbit://guest:hush-hush@127.0.0.1:5672/", "authentication failed"),
        ("rabbit://guest:guest@127.0.0.1:5672/no-such-vhost", "no-such-vhost"),
    ],
    ids=["login", "virtual host"],
)
def test_a_refused_login_is_reported_by_the_status_and_by_a_probe_without_the_password(url: str, reason: str) -> None:
    source = make_source("any", url, driver=RabbitMQSource)
    with pytest.raises(SourceError, match=reason) as caught:
        source.probe()
    source.start(lambda events: None)
    try:
        status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
        assert reason in status.detail
        assert "hush-hush" not in status.detail + str(caught.value)
    finally:
        source.stop(time.monotonic() + deadline(5))


def test_a_probe_declares_nothing(publisher: Publisher) -> None:
    make_source(publisher.name, driver=RabbitMQSource).probe()
    with pytest.raises(amqp_exceptions.NotFound):
        publisher.waiting()
    publisher.channel = publisher.connection.channel()


@pytest.mark.alone
@pytest.mark.parametrize("driver", [RabbitMQSource, OsloMessagingSource])
def test_a_lone_event_is_not_delayed(
    publisher: Publisher, driver: type[Source], capsys: pytest.CaptureFixture[str]
) -> None:
    engine = Engine(acks=True)
    delays = []
    with listening(publisher.name, engine, driver=driver):
        for number in range(40):
            time.sleep(0.02 * (number % 3))  # wait: the events come at any time of a poll
            sent = time.monotonic()
            publisher.publish(wrap(envelope(number)))
            wait_until(lambda number=number: len(engine.arrived) == number + 1)
            delays.append(engine.arrived[-1] - sent)
    delays.sort()
    with capsys.disabled():
        print(f"\nlone event: {', '.join(f'{delays[n] * 1e3:.1f}' for n in (0, 20, -1))} ms (fastest, median, worst)")
    # The public listener of oslo.messaging waits for poll_timeout, 20 ms, until it passes a batch on.
    assert delays[0] < (0.02 if driver is RabbitMQSource else 0.05)


def test_an_idle_source_costs_little(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    with consuming(publisher.name, Engine(acks=True)):
        before, begin = time.process_time(), time.monotonic()
        threading.Event().wait(1.0)  # wait: the time over which it is measured
        share = (time.process_time() - before) / (time.monotonic() - begin)
    with capsys.disabled():
        print(f"\nidle: {share:.2%} of one core")
    assert share < 0.5  # a busy loop takes all of it
