# SPDX-License-Identifier: Apache-2.0
"""What both drivers for notifications guarantee on a real RabbitMQ: ``oslo_messaging`` and ``rabbitmq``."""

from __future__ import annotations

import time

import pytest

from tests.functional.sources.listening import (
    BROKER,
    COMPRESSIONS,
    Engine,
    Publisher,
    declare_exchange,
    envelope,
    listening,
    make_source,
    notifying,
    publishing,
    wrap,
)
from tests.waiting import wait_until
from watcher_sync.extensions.openstack.source.oslo_messaging import OsloMessagingSource
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import Source, SourceState


@pytest.fixture(params=[OsloMessagingSource, RabbitMQSource])
def driver(request: pytest.FixtureRequest) -> type[Source]:
    """Each of the drivers."""
    driver: type[Source] = request.param
    return driver


def test_a_stop_ends_at_its_deadline_and_gives_back_what_is_not_acked(
    publisher: Publisher, driver: type[Source]
) -> None:
    engine = Engine(acks=False)
    source = make_source(publisher.name, driver=driver)
    declare_exchange(publisher.name)
    source.start(engine.emit)
    wait_until(lambda: source.status().state is SourceState.CONNECTED)
    publisher.publish(wrap(envelope(1)))
    wait_until(lambda: engine.batches)
    source.stop(time.monotonic() + 1.0)  # wait: it returns then, although the event is never acked
    wait_until(lambda: publisher.waiting() == 1)


def test_an_engine_that_takes_nothing_more_gets_nothing_lost(publisher: Publisher, driver: type[Source]) -> None:
    engine = Engine(acks=False)
    engine.closed = True
    with listening(publisher.name, engine, driver=driver):
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: publisher.waiting() == 0)
    wait_until(lambda: publisher.waiting() == 1)
    assert engine.events == []


def test_two_sources_on_two_exchanges_do_not_disturb_each_other(publisher: Publisher, driver: type[Source]) -> None:
    with publishing() as other:
        here, there = Engine(acks=True), Engine(acks=True)
        with (
            listening(publisher.name, here, driver=driver, batch_size=10),
            listening(other.name, there, f"{BROKER}?rabbit_qos_prefetch_count=1", driver=driver),
        ):
            for number in range(20):
                publisher.publish(wrap(envelope(number)))
                other.publish(wrap(envelope(100 + number)))
            wait_until(lambda: len(here.events) == 20 and len(there.events) == 20)
        assert [event.id for event in here.events] == [f"m-{number}" for number in range(20)]
        assert [event.id for event in there.events] == [f"m-{number}" for number in range(100, 120)]


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_what_a_publisher_with_kombu_compression_sends_arrives(
    publisher: Publisher, driver: type[Source], compression: str
) -> None:
    engine = Engine(acks=True)
    with (
        listening(publisher.name, engine, driver=driver, topics=[publisher.name]),
        notifying(publisher, publisher.name, compression) as notifier,
    ):
        notifier.info({}, "instance.update", {"number": 1})
        notifier.info({}, "instance.update", {"number": 2, "padding": "x" * 100_000})
        wait_until(lambda: len(engine.events) == 2)
    assert [(event.type, event.undecodable) for event in engine.events] == [("instance.update", None)] * 2
    assert b"x" * 100_000 in engine.events[1].data
