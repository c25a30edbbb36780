# SPDX-License-Identifier: Apache-2.0
"""Large bodies of a broker: an excerpt of each, and no more of them in memory than the driver may hold."""

from __future__ import annotations

import hashlib
import zlib

import pytest

from tests.functional.sources.listening import Engine, envelope, listening, publishing, wrap
from tests.waiting import wait_until
from watcher_sync.events import EXCERPT_BYTES
from watcher_sync.extensions.openstack.source.rabbitmq import consumer
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource


def test_a_body_above_the_limit_is_an_excerpt_and_the_rest_follows() -> None:
    large = b"x" * 20_000_000
    engine = Engine(acks=True)
    with publishing() as publisher, listening(publisher.name, engine, driver=RabbitMQSource) as source:
        publisher.publish(large)
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: len(engine.events) == 2)
        wait_until(lambda: source._session._ledger.bytes == 0)
    first, second = engine.events
    assert (len(first.data), first.whole_size) == (EXCERPT_BYTES, len(large))
    assert first.digest == hashlib.sha256(large).hexdigest()
    assert (second.id, second.undecodable) == ("m-1", None)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_the_driver_reads_nothing_more_while_it_holds_its_bytes(
    monkeypatch: pytest.MonkeyPatch, compression: str | None
) -> None:
    monkeypatch.setattr(consumer, "HELD_BYTES", 2_000_000)
    engine = Engine(acks=False)
    with publishing() as publisher, listening(publisher.name, engine, driver=RabbitMQSource, batch_size=4) as source:
        for number in range(40):
            body = wrap(envelope(number, payload={"x": "y" * 400_000}))
            headers = {"compression": compression} if compression else {}
            publisher.publish(zlib.compress(body) if compression else body, headers=headers)
        ledger = source._session._ledger
        held = []
        done = 0
        while done < 40:
            wait_until(lambda done=done: len(engine.events) > done)
            held.append(ledger.bytes)
            batch = engine.events[done:]
            done += len(batch)
            source.ack(batch)
        wait_until(lambda: ledger.bytes == 0)
    assert [event.undecodable for event in engine.events] == [None] * 40
    assert [event.id for event in engine.events] == [f"m-{n}" for n in range(40)]
    assert max(held) <= 2_000_000 + 2 * 450_000
