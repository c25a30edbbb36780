# SPDX-License-Identifier: Apache-2.0
"""From a RabbitMQ queue through the public listener of oslo.messaging: what holds, and what the library drops."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from tests.functional.sources.listening import BROKER, Engine, Publisher, envelope, listening, make_source, wrap
from tests.waiting import deadline, wait_until
from watcher_sync.sources.base import SourceState

ROOT = Path(__file__).parents[3]


def queue_up(publisher: Publisher, count: int) -> None:
    """Have so many messages wait in the queue of a source, so that the next one reads them as one batch."""
    with listening(publisher.name, Engine(acks=True)):
        pass  # it has declared the queue
    for number in range(1, count + 1):
        publisher.publish(wrap(envelope(number)))
    wait_until(lambda: publisher.waiting() == count)


def test_the_events_of_each_priority_arrive_in_order(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    priorities = ["info", "error", "warn", "critical"]
    with listening(publisher.name, engine, batch_size=50):
        for number in range(1000):
            priority = priorities[number % 4]
            publisher.publish(wrap(envelope(number, priority=priority.upper())), priority)
        wait_until(lambda: len(engine.events) == 1000)
    for remainder in range(4):
        numbers = [number for event in engine.events if (number := int(event.id[2:])) % 4 == remainder]
        assert numbers == list(range(remainder, 1000, 4))
    assert max(map(len, engine.batches)) <= 50
    (first,) = (event for event in engine.events if event.id == "m-0")
    assert (first.type, first.origin, first.read()) == ("instance.update", "nova-compute:host1", {"number": 0})
    assert first.undecodable is None
    assert publisher.waiting() == 0


def test_an_event_leaves_the_broker_only_after_its_ack(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    # The broker delivers the second message when it has the ack of the first one.
    with listening(publisher.name, engine, f"{BROKER}?rabbit_qos_prefetch_count=1") as source:
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)
        publisher.publish(wrap(envelope(2)))
        source.ack(engine.batches[0])
        wait_until(lambda: len(engine.batches) == 2)
        # The second one is neither acked nor released: the stop at its deadline gives it back.
    wait_until(lambda: publisher.waiting() == 1)
    engine.acks = True
    with listening(publisher.name, engine):
        again = wait_until(lambda: engine.batches[2:])[0][0]
    assert again.id == "m-2"
    assert publisher.waiting() == 0


def test_nacked_events_come_again_and_only_they_and_not_before_the_delay(publisher: Publisher) -> None:
    queue_up(publisher, 3)
    engine = Engine(acks=False)
    with listening(publisher.name, engine, poll_timeout=1.0, batch_size=3) as source:
        wait_until(lambda: len(engine.events) == 3)
        events = engine.events
        assert [event.id for event in events] == ["m-1", "m-2", "m-3"]
        engine.acks = True
        released = time.monotonic()
        source.ack([events[0], events[2]])
        source.nack([events[1]], 0.4)
        wait_until(lambda: len(engine.events) > 3)
        assert engine.arrived[-1] - released >= 0.4
    assert [(event.id, event.deliveries) for event in engine.events[3:]] == [("m-2", 2)]
    assert publisher.waiting() == 0


def test_a_group_with_a_nacked_event_is_requeued_whole_at_a_stop(publisher: Publisher) -> None:
    queue_up(publisher, 3)
    engine = Engine(acks=False)
    with listening(publisher.name, engine, poll_timeout=1.0, batch_size=3) as source:
        wait_until(lambda: len(engine.events) == 3)
        source.ack(engine.events[:2])
        source.nack(engine.events[2:], 30)
    wait_until(lambda: publisher.waiting() == 3)


def test_what_a_killed_process_had_in_hand_comes_again(publisher: Publisher) -> None:
    code = textwrap.dedent(f"""
        from oslo_service import backend
        backend.init_backend(backend.BackendType.THREADING)
        import threading
        from tests.functional.sources.listening import SourceState, make_source
        from tests.waiting import wait_until
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
    guard = threading.Timer(150, child.kill)
    guard.start()
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == "listening\n"
        publisher.publish(wrap(envelope(1)))
        assert child.stdout.readline() == "emitted 1\n"
    finally:
        guard.cancel()
        child.send_signal(signal.SIGKILL)
        child.wait(deadline(60))
        child.stdout.close()
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        wait_until(lambda: engine.events)
    assert [event.id for event in engine.events] == ["m-1"]


BAD = [
    (
        json.dumps(envelope(1) | {"payload": {"nova_object.data": {"memory_mb": float("nan")}}}).encode(),
        "payload.nova_object.data.memory_mb is NaN, which is no finite number",
    ),
    (wrap(envelope(2) | {"payload": {"a": float("inf")}}), "payload.a is Infinity, which is no finite number"),
    (wrap({name: value for name, value in envelope(3).items() if name != "payload"}), "payload is missing"),
    (wrap(envelope(4, event_type=None)), "event_type is missing"),
    (wrap(envelope(5, publisher_id=17)), "publisher_id is 17, not a name"),
    (wrap(envelope(6, timestamp="soon")), 'timestamp is "soon", not a date and time'),
    (wrap(envelope(7, payload={"pad": "x" * 2000})), "bytes are more than the 2000 allowed"),
]


def test_what_only_the_library_can_decode_arrives_as_an_undecodable_event_with_its_reason(
    publisher: Publisher,
) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine, max_event_size=2000):
        for body, _ in BAD:
            publisher.publish(body)
        publisher.publish(wrap(envelope(99)))
        wait_until(lambda: len(engine.events) == len(BAD) + 1)
    for event, (_, reason) in zip(engine.events, BAD, strict=False):
        assert str(event.undecodable).endswith(reason)
    assert (engine.events[-1].id, engine.events[-1].undecodable) == ("m-99", None)
    assert publisher.waiting() == 0


@pytest.mark.parametrize(
    ("body", "more"),
    [
        pytest.param(b"hello", {}, id="no JSON"),
        pytest.param(b"\xff\xfe{}", {}, id="no UTF-8"),
        pytest.param(b"[1]", {}, id="no object"),
        pytest.param(b'{"oslo.version": "9.0", "oslo.message": "{}"}', {}, id="unknown version"),
        pytest.param(wrap(envelope(1, priority="LOUD")), {}, id="unknown priority"),
        pytest.param(wrap(envelope(1)), {"content_type": "application/x-python-serialize"}, id="content type"),
    ],
)
def test_what_the_library_drops_never_arrives_and_is_gone_from_the_queue(
    publisher: Publisher, body: bytes, more: dict[str, str]
) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        publisher.publish(body, **more)
        publisher.publish(wrap(envelope(99)))
        wait_until(lambda: engine.events)
    assert [event.id for event in engine.events] == ["m-99"]
    assert publisher.waiting() == 0


def test_what_the_library_takes_for_a_duplicate_waits_unacked_until_the_connection_ends(publisher: Publisher) -> None:
    engine = Engine(acks=True)
    with listening(publisher.name, engine):
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)
        publisher.publish(wrap(envelope(1)))
        publisher.publish(wrap(envelope(2)))
        wait_until(lambda: len(engine.events) == 2)
    assert [event.id for event in engine.events] == ["m-1", "m-2"]
    wait_until(lambda: publisher.waiting() == 1)


def test_an_idle_source_costs_little(publisher: Publisher, capsys: pytest.CaptureFixture[str]) -> None:
    with listening(publisher.name, Engine(acks=True)):
        before, begin = time.process_time(), time.monotonic()
        threading.Event().wait(1.0)  # wait: the time over which it is measured
        share = (time.process_time() - before) / (time.monotonic() - begin)
    with capsys.disabled():
        print(f"\nidle: {share:.2%} of one core")
    assert share < 0.5  # a busy loop takes all of it


def test_no_more_than_two_batches_are_taken_ahead_of_their_ack(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with listening(publisher.name, engine, batch_size=10) as source:
        for number in range(100):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: publisher.waiting() == 80 and engine.batches)
        assert source.status().lag is None
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
    wait_until(lambda: publisher.waiting() == 10)


def test_a_stop_waits_for_the_batch_in_the_engines_hands_and_its_ack_reaches_the_broker(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    source = make_source(publisher.name, batch_size=5)
    source.start(engine.emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    for number in range(8):
        publisher.publish(wrap(envelope(number)))
    wait_until(lambda: publisher.waiting() == 0 and engine.batches)
    taken = list(engine.batches[0])
    stopper = threading.Thread(target=source.stop, args=(time.monotonic() + deadline(600),))
    stopper.start()
    wait_until(lambda: source._stopping.is_set())
    source.ack(taken)
    stopper.join(deadline(60))
    assert not stopper.is_alive()  # long before its deadline
    assert len(engine.batches) == 1
    wait_until(lambda: publisher.waiting() == 8 - len(taken))
    assert source.status().state is SourceState.STOPPED
