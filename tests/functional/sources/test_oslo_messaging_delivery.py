# SPDX-License-Identifier: Apache-2.0
"""From a RabbitMQ queue to the engine: nothing is lost, nothing is forgotten before it is acked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.functional.sources.listening import (
    BROKER,
    Engine,
    Publisher,
    envelope,
    listening,
    make_source,
    publishing,
    wait_until,
    wrap,
)
from watcher_sync.sources.base import SourceState

ROOT = Path(__file__).parents[3]


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    with publishing() as made:
        yield made


def test_events_arrive_in_order_over_all_priorities(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    priorities = ["info", "error", "warn", "critical"]
    with listening(publisher.name, engine, batch_size=50):
        for number in range(1000):
            publisher.publish(wrap(envelope(number)), priorities[number % 4])
        wait_until(lambda: len(engine.events) == 1000)
    assert [event.id for event in engine.events] == [f"m-{number}" for number in range(1000)]
    assert max(map(len, engine.batches)) <= 50
    first = engine.events[0]
    assert (first.type, first.origin, first.read()) == ("instance.update", "nova-compute:host1", {"number": 0})
    assert first.undecodable is None
    assert publisher.waiting() == 0


def test_an_event_leaves_the_broker_only_after_its_ack(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with listening(publisher.name, engine) as source:
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)
        publisher.publish(wrap(envelope(2)))
        source.ack(engine.batches[0])
        wait_until(lambda: len(engine.batches) == 2)
        # The second one is neither acked nor released: the stop at its deadline gives it back.
    assert publisher.waiting() == 1
    engine.acks = True
    with listening(publisher.name, engine):
        again = wait_until(lambda: engine.batches[2:])[0][0]
    assert (again.id, again.deliveries) == ("m-2", 2)
    assert publisher.waiting() == 0


def test_released_events_come_again_and_only_they_and_not_before_the_delay(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with listening(publisher.name, engine) as source:
        publisher.publish(wrap(envelope(0)))
        wait_until(lambda: engine.batches)
        for number in (1, 2, 3):
            publisher.publish(wrap(envelope(number)))
        source.ack(engine.batches[0])
        wait_until(lambda: len(engine.events) == 4)
        events = engine.events[1:]
        assert [event.id for event in engine.events] == ["m-0", "m-1", "m-2", "m-3"]
        engine.acks = True
        released = time.monotonic()
        source.ack([events[0], events[2]])
        source.nack([events[1]], 0.4)
        wait_until(lambda: len(engine.events) > 4)
        assert engine.arrived[-1] - released >= 0.4
    assert [event.id for event in engine.events[4:]] == ["m-2"]
    assert engine.events[4].deliveries == 2
    assert publisher.waiting() == 0


def test_what_a_killed_process_had_in_hand_comes_again(publisher: Publisher) -> None:
    code = textwrap.dedent(f"""
        from oslo_service import backend
        backend.init_backend(backend.BackendType.THREADING)
        import threading
        from tests.functional.sources.listening import SourceState, make_source, wait_until
        source = make_source({publisher.name!r})
        source.start(lambda events: print("emitted", len(events), flush=True))
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        print("listening", flush=True)
        threading.Event().wait()
    """)
    child = subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        text=True,
    )
    guard = threading.Timer(30, child.kill)
    guard.start()
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "listening\n"
        publisher.publish(wrap(envelope(1)))
        assert child.stdout.readline() == "emitted 1\n"
    finally:
        guard.cancel()
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        child.stdout.close()
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        wait_until(lambda: engine.events)
    assert [(event.id, event.deliveries) for event in engine.events] == [("m-1", 2)]


BAD = [
    (b"hello", "not JSON at byte 0: Expecting value"),
    (b"\xff\xfe{}", "not UTF-8 at byte 0"),
    (b"", "empty body"),
    (b"[1]", "the document is a list, not an envelope"),
    (b'"text"', 'the document is "text", not an envelope'),
    (b"17", "the document is 17, not an envelope"),
    (
        json.dumps(envelope(1) | {"payload": {"nova_object.data": {"memory_mb": float("nan")}}}).encode(),
        "payload.nova_object.data.memory_mb is NaN, which is no finite number",
    ),
    (
        wrap(envelope(1) | {"payload": {"a": float("inf")}}),
        "oslo.message: payload.a is Infinity, which is no finite number",
    ),
    (
        json.dumps({"oslo.version": "2.0", "oslo.message": '{"payload": {"a": 1, "a": 2}}'}).encode(),
        "oslo.message: duplicate key payload.a",
    ),
    (b'{"oslo.version": "2.0", "oslo.version": "2.0", "oslo.message": "{}"}', "duplicate key oslo.version"),
    (b'{"oslo.version": "9.0", "oslo.message": "{}"}', 'oslo.version is "9.0", not 2.0'),
    (
        b'{"oslo.version": "2.0", "oslo.message": "{"}',
        "oslo.message: not JSON at byte 1: Expecting property name enclosed in double quotes",
    ),
    (wrap({name: value for name, value in envelope(1).items() if name != "payload"}), "payload is missing"),
    (wrap(envelope(1, event_type=None)), "event_type is null, not a name"),
    (wrap(envelope(1, publisher_id=None)), "publisher_id is null, not a name"),
    (wrap(envelope(1, timestamp="soon")), 'timestamp is "soon", not a date and time'),
    (wrap(envelope(1, payload={"pad": "x" * 2000})), "2370 bytes are more than the 2000 allowed"),
]


def test_a_message_that_cannot_be_decoded_arrives_as_an_undecodable_event_with_its_reason(
    publisher: Publisher,
) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine, max_event_size=2000):
        for body, _ in BAD:
            publisher.publish(body)
        publisher.publish(wrap(envelope(99)))
        wait_until(lambda: len(engine.events) == len(BAD) + 1)
    reasons = [(event.data, event.undecodable) for event in engine.events]
    assert [body for body, _ in reasons[:-1]] == [body for body, _ in BAD]
    assert [str(reason).split(" bytes are")[-1] for _, reason in reasons[:-1]] == [
        reason.split(" bytes are")[-1] for _, reason in BAD
    ]
    assert engine.events[-1].id == "m-99"
    assert engine.events[-1].undecodable is None
    assert publisher.waiting() == 0


@pytest.mark.parametrize(
    ("content_type", "content_encoding"),
    [("application/x-python-serialize", "binary"), ("text/plain", "utf-8"), ("nonsense", "utf-16"), ("", "")],
)
def test_the_body_counts_and_not_what_the_headers_say_of_it(
    publisher: Publisher, content_type: str, content_encoding: str
) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        publisher.publish(wrap(envelope(1)), content_type=content_type, content_encoding=content_encoding)
        publisher.publish(b"\x80\x04N.", content_type=content_type, content_encoding=content_encoding)
        wait_until(lambda: len(engine.events) == 2)
    assert [event.undecodable is None for event in engine.events] == [True, False]


def test_a_message_of_an_unknown_priority_inside_is_not_lost(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        publisher.publish(wrap(envelope(1, priority="LOUD")))
        wait_until(lambda: engine.events)
    assert engine.events[0].undecodable is None


def test_the_same_unique_id_twice_is_handed_over_twice_and_both_are_settled(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: len(engine.events) == 1)
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: len(engine.events) == 2)
    assert publisher.waiting() == 0


def test_a_lone_event_is_not_delayed(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    engine = Engine(acks=True)
    delays = []
    with listening(publisher.name, engine):
        for number in range(40):
            settled = time.monotonic() + 0.02 * (number % 3)
            wait_until(lambda settled=settled: time.monotonic() > settled)
            sent = time.monotonic()
            publisher.publish(wrap(envelope(number)))
            wait_until(lambda number=number: len(engine.arrived) == number + 1)
            delays.append(engine.arrived[-1] - sent)
    delays.sort()
    with capsys.disabled():
        print(f"\nlone event: median {delays[20] * 1e3:.1f} ms, worst {delays[-1] * 1e3:.1f} ms")
    assert delays[20] < 0.02


def test_an_idle_source_costs_little(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(publisher.name, Engine(acks=True)):
        before, begin = time.process_time(), time.monotonic()
        threading.Event().wait(2.0)
        share = (time.process_time() - before) / (time.monotonic() - begin)
    with capsys.disabled():
        print(f"\nidle: {share:.2%} of one core")
    assert share < 0.05


def test_no_more_than_two_batches_are_taken_ahead_of_their_ack(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with listening(publisher.name, engine, batch_size=10) as source:
        for number in range(100):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: publisher.waiting() == 80)
        wait_until(lambda: source.status().lag is not None)
        engine.acks = True
        source.ack(engine.batches[0])
        wait_until(lambda: len(engine.events) == 100)
    assert publisher.waiting() == 0


def test_an_operators_prefetch_in_the_url_wins(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with listening(publisher.name, engine, f"{BROKER}?rabbit_qos_prefetch_count=3", batch_size=10):
        for number in range(10):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: publisher.waiting() == 7)
    assert publisher.waiting() == 10


def test_a_stop_waits_for_the_batch_in_the_engines_hands_and_its_ack_reaches_the_broker(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    source = make_source(publisher.name, batch_size=5)
    source.start(engine.emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    for number in range(8):
        publisher.publish(wrap(envelope(number)))
    wait_until(lambda: publisher.waiting() == 0 and engine.batches)
    taken = list(engine.batches[0])
    stopper = threading.Thread(target=source.stop, args=(time.monotonic() + 10,))
    stopper.start()
    wait_until(lambda: source._stopping.is_set())
    begin = time.monotonic()
    source.ack(taken)
    stopper.join(10)
    assert time.monotonic() - begin < 3
    assert len(engine.batches) == 1
    assert publisher.waiting() == 8 - len(taken)
    assert source.status().state is SourceState.STOPPED


def test_a_stop_ends_at_its_deadline_and_gives_back_what_is_not_acked(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    source = make_source(publisher.name)
    source.start(engine.emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    publisher.publish(wrap(envelope(1)))
    wait_until(lambda: engine.batches)
    begin = time.monotonic()
    source.stop(begin + 1.5)
    assert time.monotonic() - begin < 1.7
    wait_until(lambda: publisher.waiting() == 1)


def test_an_engine_that_takes_nothing_more_gets_nothing_lost(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    engine.closed = True
    with listening(publisher.name, engine):
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: publisher.waiting() == 0)
    wait_until(lambda: publisher.waiting() == 1)
    assert engine.events == []


def test_two_sources_on_two_exchanges_do_not_disturb_each_other(publisher: Publisher) -> None:
    with publishing() as other:
        here, there = Engine(acks=True), Engine(acks=True)
        with (
            listening(publisher.name, here, batch_size=10),
            listening(other.name, there, f"{BROKER}?rabbit_qos_prefetch_count=1"),
        ):
            for number in range(20):
                publisher.publish(wrap(envelope(number)))
                other.publish(wrap(envelope(100 + number)))
            wait_until(lambda: len(here.events) == 20 and len(there.events) == 20)
        assert [event.id for event in here.events] == [f"m-{number}" for number in range(20)]
        assert [event.id for event in there.events] == [f"m-{number}" for number in range(100, 120)]
