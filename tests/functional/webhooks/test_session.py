# SPDX-License-Identifier: Apache-2.0
"""A worker that starts, waits, loses its lease for a time, or meets an error that was not expected."""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from tests.functional.storage.conftest import opened
from tests.functional.webhooks.receivers import Answer, Receiver, answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe
from tests.functional.webhooks.working import CLOCK, working
from tests.waiting import eventually
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.replica import JournalFollower
from watcher_sync.extensions.webhooks.rows import SHARDS
from watcher_sync.extensions.webhooks.sender import Sender
from watcher_sync.extensions.webhooks.session import DeliverySession
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.subscription import OlderRows
from watcher_sync.extensions.webhooks.subscriptions import Subscriptions
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

GOOD = answering(status(200))


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    """One kind of database is enough."""
    return opened(migrated_sqlite_url, builtin_kinds())


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[type, str], collections.Counter[str]]:
    """Count the calls of a method."""
    calls: collections.Counter[str] = collections.Counter()

    def count(owner: type, name: str) -> collections.Counter[str]:
        method = getattr(owner, name)

        def counting(*arguments: Any, **options: Any) -> Any:
            calls[name] += 1
            return method(*arguments, **options)

        monkeypatch.setattr(owner, name, counting)
        return calls

    return count


def holding(release: asyncio.Event) -> Callable[[Receiver], Any]:
    """Answers 200 to each request once the event is set."""

    def make(receiver: Receiver) -> Any:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await receiver.request(reader)
                await release.wait()
                writer.write(status(200, "WebHook-Allowed-Origin: *"))
                await writer.drain()

        return answer

    return make


def has_arrived(receiver: Receiver, value: str) -> bool:
    return any(f'"{value}"'.encode() in body for _, _, body in receiver.requests)


def test_a_worker_without_shards_waits_without_work(
    store: Store, counted: Callable[[type, str], collections.Counter[str]], caplog: pytest.LogCaptureFixture
) -> None:
    other = ShardLeases(store.database, store.tables, seconds=600, name="other")
    other.beat()
    calls = counted(DeliverySession, "_read_registry")

    async def run() -> None:
        async with working(store, 0):
            await eventually(lambda: calls["_read_registry"] >= 2)
            began, rounds = asyncio.get_running_loop().time(), calls["_read_registry"]
            await eventually(lambda: calls["_read_registry"] >= rounds + 3)
            # A loop without a pause makes three rounds within a millisecond.
            assert asyncio.get_running_loop().time() - began > 0.5

    asyncio.run(run())
    assert len(other.owned) == SHARDS
    assert "unexpected" not in caplog.text  # at the stop


def test_while_the_lease_is_lost_nothing_is_sent_and_nothing_is_tried_in_a_loop(
    store: Store, counted: Callable[[type, str], collections.Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = Instances(store)
    instances.write([0])
    holds, lost = ShardLeases.holds, [False]
    monkeypatch.setattr(ShardLeases, "holds", lambda *args: not lost[0] and holds(*args))
    calls = counted(Sender, "post")
    counted(DeliverySession, "_plan_and_write")

    async def run() -> None:
        async with receiving(GOOD) as receiver:
            subscribe(store, 0, receiver.url)
            async with working(store, 1) as worker:
                lost[0] = True
                await asyncio.to_thread(instances.write, [0])
                await eventually(lambda: worker.stats.planned == 1)
                rounds = calls["_plan_and_write"]
                await eventually(lambda: calls["_plan_and_write"] >= rounds + 5)
                assert calls["post"] < 5
                assert not receiver.requests
                lost[0] = False
                await eventually(lambda: has_arrived(receiver, instances.committed["i0"]))

    asyncio.run(run())


def test_older_rows_are_awaited_before_the_first_delivery_is_planned(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = Instances(store)
    instances.write(range(3))
    begun: list[bool] = []
    read_older = JournalFollower.read_older

    def spy(self: JournalFollower, waiting: Sequence[OlderRows]) -> None:
        read_older(self, waiting)
        begun.extend(each.is_awaited for each in waiting)

    monkeypatch.setattr(JournalFollower, "read_older", spy)

    async def run() -> None:
        async with receiving(GOOD) as receiver:
            for number in range(3):
                subscribe(store, number, receiver.url)
            instances.write(range(3))
            async with working(store, 3):
                await eventually(lambda: all(has_arrived(receiver, value) for value in instances.committed.values()))
            assert len(receiver.requests) == 3

    asyncio.run(run())
    # A plan, or a checkpoint, before that would pass over the rows.
    assert begun == [True] * 3


def test_a_replica_that_is_behind_a_new_subscription_moves_to_it_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    instances = Instances(store)
    instances.write([0])
    seen, is_frozen = JournalReader.seen, [False]
    monkeypatch.setattr(JournalReader, "seen", lambda self: -1 if is_frozen[0] else seen(self))

    async def run() -> None:
        async with receiving(GOOD) as receiver, receiving(GOOD) as later:
            subscribe(store, 0, receiver.url)
            async with working(store, 1) as worker:
                is_frozen[0] = True  # the replica follows no more
                await asyncio.to_thread(instances.write, [0], "before")
                subscribe(store, 0, later.url, name="later")
                await eventually(lambda: has_arrived(receiver, "before"))
                assert worker.stats.subscriptions == 2
                is_frozen[0] = False
                await asyncio.to_thread(instances.write, [0], "after")
                await eventually(lambda: has_arrived(later, "after"))
            assert not has_arrived(later, "before")

    asyncio.run(run())


def test_an_unexpected_error_ends_no_subscription(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = Instances(store)
    instances.write([0])
    plan, failures = Planner.plan, [0]

    def fail_once(self: Planner, limit: int = 500) -> None:
        if self.has_ready and instances.committed["i0"] == "broken" and not failures[0]:
            failures[0] += 1
            raise KeyError("a defect")
        plan(self, limit)

    monkeypatch.setattr(Planner, "plan", fail_once)

    async def run() -> None:
        async with receiving(GOOD) as receiver:
            subscribe(store, 0, receiver.url)
            async with working(store, 1):
                await asyncio.to_thread(instances.write, [0], "broken")
                await eventually(lambda: has_arrived(receiver, "broken"))
                assert failures == [1]

    asyncio.run(run())


def test_a_deleted_subscription_gets_nothing_that_waited_for_its_host(store: Store) -> None:
    instances = Instances(store)
    instances.write(range(30))
    release = asyncio.Event()

    async def run() -> None:
        async with receiving(holding(release)) as receiver:
            made = [subscribe(store, number, receiver.url) for number in range(30)]
            async with working(store, 30, total_timeout=120.0) as worker:
                await asyncio.to_thread(instances.write, range(30))
                await eventually(lambda: len(receiver.requests) == 10)  # the limit of a host
                subscriptions = Subscriptions(store.database, store.tables)
                for each in made:
                    await asyncio.to_thread(subscriptions.delete, each.id)
                await eventually(lambda: worker.stats.subscriptions == 0)
                release.set()
                await eventually(lambda: not worker.stats.running and not worker.stats.queued)
            assert len(receiver.requests) == 10

    asyncio.run(run())


def test_a_session_that_ends_sends_nothing_of_what_waited(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    instances = Instances(store)
    instances.write(range(30))
    release, failing = asyncio.Event(), collections.Counter[str]()
    plan = Planner.plan

    def failing_once(planner: Planner, limit: int = 500) -> None:
        if failing["wanted"] > failing["done"]:
            failing["done"] += 1
            raise RuntimeError("not expected")
        plan(planner, limit)

    monkeypatch.setattr(Planner, "plan", failing_once)

    async def run() -> None:
        async with receiving(holding(release)) as receiver:
            for number in range(30):
                subscribe(store, number, receiver.url)
            async with working(store, 30, total_timeout=120.0) as worker:
                await asyncio.to_thread(instances.write, range(30))
                await eventually(lambda: len(receiver.requests) == 10 and worker.stats.planned == 30)
                failing["wanted"] += 1
                await eventually(lambda: len(receiver.requests) >= 20)
                release.set()
                await eventually(lambda: worker.stats.attempts.get("delivered", 0) == 30)
            # The new session sends all 30; of the session before, only the first ten had begun.
            assert len(receiver.requests) == 40

    asyncio.run(run())


def test_a_delivery_that_waits_for_a_dead_host_goes_to_the_new_callback_at_once(store: Store) -> None:
    instances = Instances(store)
    instances.write(range(30))
    subscriptions = Subscriptions(store.database, store.tables)

    async def run() -> None:
        async with receiving(holding(asyncio.Event())) as dead, receiving(GOOD) as good:
            for number in range(30):
                subscribe(store, number, dead.url)
            async with working(store, 30, total_timeout=120.0) as worker:
                await asyncio.to_thread(instances.write, range(30))
                await eventually(lambda: len(dead.requests) == 10 and worker.stats.queued == 20)
                asked = {body for _, _, body in dead.requests}
                waiting = next(n for n in range(30) if not any(f'"i{n}"'.encode() in body for body in asked))
                row = subscriptions.find(f"i{waiting}", "s")
                assert row is not None
                moved = msgspec.structs.replace(row[0], callback_url=good.url)
                await asyncio.to_thread(subscriptions.replace, moved)
                await eventually(lambda: has_arrived(good, instances.committed[f"i{waiting}"]))
                assert len(dead.requests) == 10
                dead.cancel()

    asyncio.run(run())


def test_once_a_breaker_closes_all_that_waited_for_its_host_flows_at_once(store: Store) -> None:
    instances = Instances(store)
    instances.write(range(30))
    passed, answers = [0.0], [status(500)]
    clock = msgspec.structs.replace(CLOCK, monotonic=lambda: time.monotonic() + passed[0])  # wait: the test moves it

    def recovering(receiver: Receiver) -> Answer:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while True:
                await receiver.request(reader)
                writer.write(answers[0])
                await writer.drain()

        return answer

    async def run() -> None:
        async with receiving(recovering) as receiver:
            for number in range(30):
                subscribe(store, number, receiver.url)
            async with working(store, 30, clock=clock) as worker:
                await asyncio.to_thread(instances.write, range(30))
                await eventually(
                    lambda: worker.stats.planned == 30 and worker.stats.queued and not worker.stats.running
                )
                tried, waiting = len(receiver.requests), worker.stats.queued
                assert waiting >= 10
                answers[0] = status(200)
                passed[0] += 30.0
                # The clock moves no further: one probe for each pause of 30 seconds would not come to an end.
                await eventually(lambda: worker.stats.attempts.get("delivered", 0) >= waiting)
                assert len(receiver.requests) >= tried + waiting

    asyncio.run(run())
