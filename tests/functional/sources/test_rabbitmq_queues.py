# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq`` and its queue on a real RabbitMQ: it is taken over, watched, and declared again."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import threading
import time
from typing import Any

import pytest
from oslo_config import cfg
from pika.exceptions import ChannelClosedByBroker

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
from tests.functional.sources.rabbitmq_consuming import QUORUM, consumers, consuming, unacked_after
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.openstack.source.rabbitmq.queues import Queue
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource
from watcher_sync.sources.base import Source, SourceState
from watcher_sync.transports.rabbitmq.broker import read_broker
from watcher_sync.transports.rabbitmq.connection import connect


@pytest.fixture(autouse=True)
def _changes_of_state_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "watcher_sync")


@pytest.fixture
def quick_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.rabbitmq.consumer._INTERVAL_SECONDS", 0.1)


@pytest.mark.parametrize(
    "url", [BROKER, f"{BROKER}?amqp_durable_queues=true", QUORUM], ids=["plain", "durable", "quorum"]
)
def test_the_queue_of_an_oslo_messaging_pool_is_taken_over_with_the_messages_in_it(
    publisher: Publisher, url: str
) -> None:
    before = Engine(acks=False)
    durable = url != BROKER
    publisher.exchange.durable = durable
    with listening(publisher.name, before, url):
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: before.events)
    publisher.publish(wrap(envelope(2)), "error")
    after = Engine(acks=True)
    with consuming(publisher.name, after, url) as source:
        wait_until(lambda: len(after.events) == 2)
        assert ("durable" in source.status().detail) == (not durable)
        publisher.publish(wrap(envelope(3)))
        wait_until(lambda: len(after.events) == 3)
    assert [event.id for event in after.events] == ["m-1", "m-2", "m-3"]
    # At its stop oslo.messaging requeues, mostly while it still consumes: then the broker delivers to it once more.
    assert after.events[0].deliveries in ((2, 3) if url == QUORUM else (2,))
    assert [event.deliveries for event in after.events[1:]] == [1, 1]
    assert publisher.waiting() == 0
    # And back: what this driver declared is what oslo.messaging expects.
    publisher.publish(wrap(envelope(4)))
    again = Engine(acks=True)
    with listening(publisher.name, again, url):
        wait_until(lambda: again.events)


def test_a_deleted_queue_is_declared_again_at_once_and_each_change_is_one_log_line(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(acks=True)
    with consuming(publisher.name, engine) as source:
        wait_until(lambda: caplog.records)  # the state comes before the line
        for turn in range(5):
            caplog.clear()
            publisher.channel.queue_delete(publisher.name)
            wait_until(lambda: len(caplog.records) == 2)
            messages = [record.getMessage() for record in caplog.records]
            assert messages[0].startswith("source nova: disconnected")
            assert publisher.name in messages[0]
            assert messages[1] == "source nova: connected"
            publisher.publish(wrap(envelope(turn)))
            wait_until(lambda turn=turn: len(engine.events) == turn + 1)
            assert source.status().state is SourceState.CONNECTED


def test_a_queue_or_exchange_that_was_deleted_under_the_source_counts_as_a_gap(
    publisher: Publisher, quick_watch: None
) -> None:
    engine = Engine(acks=True)
    began = datetime.datetime.now(datetime.UTC)
    with consuming(publisher.name, engine) as source:
        assert (source.status().gaps, source.status().last_gap_at) == (0, None)
        publisher.channel.queue_delete(publisher.name)
        wait_until(lambda: source.status().gaps == 1)
        first = source.status().last_gap_at
        assert first is not None
        assert first > began
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        publisher.channel.exchange_delete(publisher.name)
        wait_until(lambda: waits_for_exchange(source))
        declare_exchange(publisher.name)
        wait_until(lambda: source.status().gaps == 2)
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        assert (source.status().last_gap_at or began) > first


def test_what_was_delivered_before_its_queue_was_deleted_is_still_emitted(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    blocked = threading.Event()
    emitted: list[str] = []

    def emit(events: Any) -> None:
        blocked.wait(deadline(60))
        emitted.extend(event.id for event in events)

    engine.emit = emit  # type: ignore[method-assign]
    with consuming(publisher.name, engine, batch_size=10, poll_timeout=1.0) as source:
        for number in range(55):  # the last ones wait for a full batch when the queue is deleted
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: publisher.waiting() == 0)
        publisher.channel.queue_delete(publisher.name)
        wait_until(lambda: source.status().gaps == 1)  # counted when the queue is declared again
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        blocked.set()
        wait_until(lambda: len(emitted) == 55)
    assert emitted == [f"m-{number}" for number in range(55)]


def test_a_purged_queue_changes_nothing(publisher: Publisher) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, prefetch=2) as source:
        for number in range(10):
            publisher.publish(wrap(envelope(number)))
        unacked_after(publisher, 2, 10)
        publisher.channel.queue_purge(publisher.name)
        engine.acks = True
        source.ack(engine.events)
        publisher.publish(wrap(envelope(99)))
        wait_until(lambda: engine.events[-1].id == "m-99")
        assert source.status().state is SourceState.CONNECTED


def connected(source: Source) -> bool:
    return source.status().state is SourceState.CONNECTED


def waits_for_exchange(source: Source) -> bool:
    return source.status().detail.endswith(
        "waits for the exchange " + source.group.exchange + ", which its publisher declares"
    )


@pytest.mark.parametrize("durable", [False, True], ids=["transient", "durable"])
def test_the_exchange_is_the_publishers_and_the_source_waits_for_it_and_binds(
    publisher: Publisher, durable: bool
) -> None:
    source = make_source(publisher.name, driver=RabbitMQSource)
    engine = Engine(acks=True)
    engine.source = source
    source.start(engine.emit)
    try:
        wait_until(lambda: waits_for_exchange(source))
        assert (source.status().state, source.status().gaps) == (SourceState.DISCONNECTED, 0)
        # The broker refuses a declaration with other properties.
        publisher.channel.exchange_declare(publisher.name, "topic", durable=durable, auto_delete=False)
        wait_until(lambda: connected(source))
        assert source.status().gaps == 1, "what was published before the binding is lost"
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)
        assert source.status().detail == ""
    finally:
        source.stop(time.monotonic() + deadline(5))


def test_an_exchange_that_was_deleted_and_declared_again_during_a_pause_counts_as_a_gap(
    publisher: Publisher, quick_watch: None
) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, hand_back_after=1.0) as source:
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: "paused" in source.status().detail and source.status().lag == 1)
        publisher.channel.exchange_delete(publisher.name)
        wait_until(lambda: waits_for_exchange(source))
        declare_exchange(publisher.name)
        wait_until(lambda: "paused" in source.status().detail)
        source.settings.hand_back_after = 60.0  # no pause of the machine is another one of the source
        engine.acks = True
        source.ack(engine.batches[0])
        wait_until(lambda: source.status().detail == "")
        assert source.status().gaps == 1


def test_a_queue_that_is_deleted_before_it_is_bound_is_not_taken_for_a_missing_exchange(publisher: Publisher) -> None:
    """The broker has the same code for both."""
    declare_exchange(publisher.name)
    broker = read_broker("source_x", BROKER, cfg.ConfigOpts())
    queue = Queue(f"{publisher.name}-deleted", publisher.name, ["versioned_notifications"], broker)

    async def bind() -> None:
        connection = await connect(broker, broker.hosts[0], "x")
        try:
            with pytest.raises(ChannelClosedByBroker, match="no queue"):
                await queue.bind(await connection.open_channel())
        finally:
            await connection.close()

    asyncio.run(bind())
    assert queue.unbound == ""


def test_what_waits_in_the_queue_is_read_while_the_exchange_is_missing(publisher: Publisher) -> None:
    with consuming(publisher.name, Engine(acks=True)):
        pass
    publisher.publish(wrap(envelope(1)))
    wait_until(lambda: publisher.waiting() == 1)
    publisher.channel.exchange_delete(publisher.name)
    source = make_source(publisher.name, driver=RabbitMQSource)
    engine = Engine(acks=True)
    engine.source = source
    source.start(engine.emit)
    try:
        wait_until(lambda: engine.events)
        wait_until(lambda: waits_for_exchange(source))
        assert source.status().state is SourceState.DISCONNECTED
        declare_exchange(publisher.name)
        wait_until(lambda: connected(source))
        publisher.publish(wrap(envelope(2)))
        wait_until(lambda: len(engine.events) == 2)
        assert source.status().gaps == 1
    finally:
        source.stop(time.monotonic() + deadline(5))
    assert [(event.id, event.deliveries) for event in engine.events] == [("m-1", 1), ("m-2", 1)]


def test_an_exchange_that_was_deleted_is_noticed_and_waited_for(publisher: Publisher, quick_watch: None) -> None:
    engine = Engine(acks=True)
    with consuming(publisher.name, engine) as source:
        publisher.channel.exchange_delete(publisher.name)
        wait_until(lambda: waits_for_exchange(source))
        declare_exchange(publisher.name)
        wait_until(lambda: connected(source))
        assert source.status().gaps == 1
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)


def test_a_binding_that_was_removed_is_made_again(publisher: Publisher, quick_watch: None) -> None:
    engine = Engine(acks=True)
    with consuming(publisher.name, engine):
        key = "versioned_notifications.info"
        publisher.channel.queue_unbind(publisher.name, publisher.name, key)

        def arrives() -> bool:
            publisher.publish(wrap(envelope(1)))
            return bool(engine.events)

        wait_until(arrives)


def test_a_consumer_that_the_broker_does_not_know_any_more_is_made_again(
    publisher: Publisher, quick_watch: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, prefetch=3) as source:
        for number in range(9):
            publisher.publish(wrap(envelope(number)))
        unacked_after(publisher, 3, 9)
        asked = []

        async def inspect(_queue: Any, _connection: Any, waiting: int, consumers: int) -> tuple[int, int]:
            asked.append(consumers)
            return waiting, 0 if len(asked) == 1 else consumers

        monkeypatch.setattr(Queue, "inspect", inspect)
        wait_until(lambda: "knows no consumer" in caplog.text)
        wait_until(lambda: source.status().state is SourceState.CONNECTED and len(engine.events) == 6)
        assert [event.deliveries for event in engine.events] == [1, 1, 1, 2, 2, 2]
        unacked_after(publisher, 3, 9)
        assert consumers(publisher) == 1


def test_the_lag_is_what_the_broker_has_not_delivered(publisher: Publisher, quick_watch: None) -> None:
    engine = Engine(acks=False)
    with consuming(publisher.name, engine, prefetch=2) as source:
        for number in range(10):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: source.status().lag == 8)
        engine.acks = True
        source.ack(engine.events)
        wait_until(lambda: source.status().lag == 0)


@pytest.mark.parametrize("url", [BROKER, f"{BROKER}?amqp_auto_delete=true", QUORUM], ids=["plain", "auto", "quorum"])
def test_the_queue_is_durable_whatever_the_options_of_the_publishers_are(publisher: Publisher, url: str) -> None:
    arguments = {"x-queue-type": "quorum"} if url == QUORUM else {}
    with consuming(publisher.name, Engine(acks=True), url):
        # The broker refuses a declaration with other properties.
        publisher.channel.queue_declare(publisher.name, durable=True, auto_delete="auto" in url, arguments=arguments)


def test_a_transient_queue_is_used_and_the_status_names_the_command_that_makes_it_durable(
    publisher: Publisher, caplog: pytest.LogCaptureFixture
) -> None:
    publisher.channel.queue_declare(publisher.name, durable=False, auto_delete=False)
    engine = Engine(acks=True)
    with consuming(publisher.name, engine) as source:
        publisher.publish(wrap(envelope(1)))
        wait_until(lambda: engine.events)
        detail = source.status().detail
    assert f"inequivalent arg 'durable' for queue '{publisher.name}'" in detail
    assert "used as it is" in detail
    assert f"rabbitmqctl delete_queue {publisher.name} --if-empty --vhost /" in detail
    assert len([record for record in caplog.records if "inequivalent" in record.getMessage()]) == 1


def test_a_stream_is_not_consumed_as_a_queue(publisher: Publisher) -> None:
    publisher.channel.queue_declare(
        publisher.name, durable=True, auto_delete=False, arguments={"x-queue-type": "stream"}
    )
    source = make_source(publisher.name, driver=RabbitMQSource)
    source.start(lambda events: None)
    try:
        status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
        assert f"queue {publisher.name} is no classic queue" in status.detail
    finally:
        source.stop(time.monotonic() + deadline(5))


def test_five_sources_share_a_queue_that_is_deleted_at_load_and_each_recovers(publisher: Publisher) -> None:
    engines = [Engine(acks=True) for _ in range(5)]
    with contextlib.ExitStack() as stack:
        sources = [stack.enter_context(consuming(publisher.name, engine)) for engine in engines]
        for turn in range(4):
            for number in range(200):
                publisher.publish(wrap(envelope(1000 * turn + number)))
            publisher.channel.queue_delete(publisher.name)
            wait_until(lambda: consumers(publisher) == 5)
            wait_until(lambda: all(source.status().state is SourceState.CONNECTED for source in sources))
