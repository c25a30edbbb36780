# SPDX-License-Identifier: Apache-2.0
"""A manager as an iterator, for asyncio, and without a consumer of errors."""

from __future__ import annotations

import asyncio
import itertools
import queue
import threading

import grpc
import pytest

from tests.unit.client.watch.watching import BACKOFF
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.client.watch import MemorySequence, MissingSequence, TopicNotFound, WatchManager, WatchOptions
from watcher_sync.client.watch.delivery import Handover
from watcher_sync.testing.watch.service import FakeWatchService, Refusal
from watcher_sync.testing.watch.topic import SELF_LINK


@pytest.fixture
def sequence():
    return MemorySequence()


@pytest.fixture
def manager(service: FakeWatchService, sequence):
    options = WatchOptions(tls=None, harvester=service.url, backoff=BACKOFF, sequence=sequence, user_agent="scaler/1.2")
    with WatchManager("127.0.0.1", service.port, "t", lambda: "token-1", options) as made:
        yield made


def refuse(service):
    service.refusals.append(Refusal(grpc.StatusCode.NOT_FOUND, "no topic"))


def in_thread(work):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def test_a_loop_over_the_events_of_a_topic_gets_each_in_order(service, manager, sequence):
    sequence.set(SELF_LINK, 1)
    service.topic.publish(50)
    found = [event.sequence for event in itertools.islice(manager.events(SELF_LINK), 49)]
    assert found == list(range(2, 51))
    wait_until(lambda: not service.open_streams(), what="the end of the watch")


def test_an_event_is_covered_when_the_loop_asks_for_the_next_one(service, manager, sequence):
    sequence.set(SELF_LINK, 1)
    service.topic.publish(4)
    loop = manager.events(SELF_LINK)
    assert [next(loop).sequence, next(loop).sequence] == [2, 3]
    loop.close()
    assert sequence.get(SELF_LINK) == 2


def test_a_loop_ends_when_the_manager_is_closed(manager):
    ended = threading.Event()

    def work():
        assert list(manager.events(SELF_LINK)) == []
        ended.set()

    in_thread(work)
    wait_until(manager.status, what="the stream")
    manager.close_conn()
    assert ended.wait(PATIENCE_SECONDS)


def test_a_loop_raises_the_error_that_ended_its_watch(service, manager):
    refuse(service)
    with pytest.raises(TopicNotFound):
        next(manager.events(SELF_LINK))


def test_a_loop_without_a_position_raises_at_its_first_step(manager, sequence):
    sequence.set(SELF_LINK, -1)
    with pytest.raises(MissingSequence):
        next(manager.events(SELF_LINK))


def test_an_asyncio_loop_gets_each_event_in_order_beside_other_tasks(service, manager, sequence):
    sequence.set(SELF_LINK, 1)
    service.topic.publish(50)

    async def follow():
        found = []
        async for event in manager.events_async(SELF_LINK):
            found.append(event.sequence)
            if len(found) == 49:
                return found

    async def main():
        ticks = asyncio.create_task(tick())
        found = await asyncio.wait_for(follow(), deadline(60))
        ticks.cancel()
        return found

    async def tick():
        while True:
            await asyncio.sleep(0)

    assert asyncio.run(main()) == list(range(2, 51))


def test_an_asyncio_loop_raises_and_ends_like_the_other(service, manager):
    refuse(service)

    async def main():
        with pytest.raises(TopicNotFound):
            await anext(manager.events_async(SELF_LINK))
        waiting = asyncio.ensure_future(anext(manager.events_async(SELF_LINK), None))
        await asyncio.to_thread(wait_until, service.open_streams)
        await asyncio.to_thread(manager.close_conn)
        return await asyncio.wait_for(waiting, deadline(60))

    assert asyncio.run(main()) is None


def test_waiting_raises_the_error_of_a_watch_without_a_consumer_of_errors(service, manager):
    refuse(service)
    manager.register_watch(SELF_LINK, print)
    with pytest.raises(TopicNotFound):
        manager.wait(PATIENCE_SECONDS)
    assert manager.wait(PATIENCE_SECONDS)


def test_waiting_ends_with_the_last_watch(manager):
    watch = manager.register_watch(SELF_LINK, print)
    assert not manager.wait(0.01)
    in_thread(lambda: manager.close_watch(watch))
    assert manager.wait(PATIENCE_SECONDS)


def test_the_service_learns_the_name_of_the_program(service, manager, sequence):
    sequence.set(SELF_LINK, 1)
    service.topic.publish(3, lost=True)
    loop = manager.events(SELF_LINK)
    next(loop)  # of the catch-up
    wait_until(lambda: service.streams, what="the stream")
    assert service.streams[0].metadata["user-agent"].startswith("scaler/1.2 grpc-python")
    assert service.asked[0].headers["user-agent"] == "scaler/1.2"


def test_an_item_that_was_finished_between_two_puts_is_offered_once():
    woken = []
    handover, item = Handover(lambda: woken.append(True)), object()
    with pytest.raises(queue.Full):
        handover.put(item, True, 0)
    assert handover.take() is item
    handover.finish()
    handover.put(item, True, 0)
    assert handover.take() is None
    assert woken == [True]
