# SPDX-License-Identifier: Apache-2.0
"""What a worker does beside its deliveries: its health, its log lines, and the purge of the delivery log."""

from __future__ import annotations

import asyncio
import collections
import datetime
import logging
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from tests.functional.storage.conftest import opened
from tests.functional.webhooks.receivers import answering, receiving, status
from tests.functional.webhooks.subscribing import Instances, subscribe
from tests.functional.webhooks.working import CLOCK, working
from tests.waiting import eventually
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.extensions.webhooks import writer
from watcher_sync.extensions.webhooks.shards import ShardLeases
from watcher_sync.extensions.webhooks.worker_rows import WebhookStore
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.database.database_time import DatabaseTime, read_clock
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


@pytest.fixture
def store(migrated_sqlite_url: str) -> Store:
    """One kind of database is enough."""
    return opened(migrated_sqlite_url, builtin_kinds())


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_worker_without_its_reader_is_not_alive(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        async with working(store, 0) as worker:
            await eventually(worker.is_alive)

            def end_thread(*_: Any) -> None:
                raise SystemExit

            monkeypatch.setattr(JournalReader, "_read_new", end_thread)
            await eventually(lambda: not worker.is_alive())
            monkeypatch.undo()

    asyncio.run(run())


def test_a_heartbeat_that_raises_what_ends_a_thread_goes_on(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    beat, raised, beaten = ShardLeases.beat, [0], [0]

    def failing(self: ShardLeases) -> Any:
        if raised[0] < 3:
            raised[0] += 1
            raise SystemExit
        beaten[0] += 1
        return beat(self)

    async def run() -> None:
        async with working(store, 0) as worker:
            monkeypatch.setattr(ShardLeases, "beat", failing)
            await eventually(lambda: raised[0] == 3 and beaten[0] > 0)
            assert worker.is_alive()

    asyncio.run(run())


def test_an_outage_of_the_database_is_two_lines_however_long_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    instances = Instances(store)
    instances.write([0])
    write, failures = WebhookStore.write, [0]
    monkeypatch.setattr(writer, "RETRY_SECONDS", 0.01)

    def failing(self: WebhookStore, *arguments: Any) -> Any:
        if arguments[0].planned and failures[0] < 5:
            failures[0] += 1
            raise DatabaseUnavailable("it does not answer")
        return write(self, *arguments)

    monkeypatch.setattr(WebhookStore, "write", failing)

    async def run() -> None:
        async with receiving(answering(status(200))) as receiver:
            subscribe(store, 0, receiver.url)
            async with working(store, 1):
                await asyncio.to_thread(instances.write, [0])
                await eventually(lambda: receiver.requests)

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    said = [record.getMessage() for record in caplog.records]
    lines = [line for line in said if line.startswith("webhooks: database")]
    assert failures == [5]
    assert lines == ["webhooks: database unavailable, retrying: it does not answer", "webhooks: database recovered"]


@pytest.mark.parametrize("is_mine", [True, False])
def test_only_the_worker_that_owns_the_first_shard_purges_the_delivery_log(
    store: Store, monkeypatch: pytest.MonkeyPatch, is_mine: bool
) -> None:
    purged, rounds = [0], [0]
    if not is_mine:
        ShardLeases(store.database, store.tables, seconds=600, name="other").beat()
    purge: Callable[..., None] = writer.Purger.begin_if_due

    def portion(*_: Any) -> int:
        purged[0] += 1
        return 200 if purged[0] < 3 else 0

    def counting(self: writer.Purger) -> None:
        rounds[0] += 1
        purge(self)

    monkeypatch.setattr(writer, "_PORTION_SECONDS", 0.0)
    monkeypatch.setattr(WebhookStore, "purge", portion)
    monkeypatch.setattr(writer.Purger, "begin_if_due", counting)

    async def run() -> None:
        async with working(store, 0):
            await eventually(lambda: purged[0] == 3 if is_mine else rounds[0] >= 3)

    asyncio.run(run())
    assert purged == [3 if is_mine else 0]


def test_a_worker_reads_the_clock_of_the_database_once_an_hour_outside_of_its_loop(store: Store) -> None:
    """Also one that purges nothing. The times that it signs would lag behind by the time of a pause of the machine."""
    passed, threads = [0.0], collections.Counter[str]()

    def clock() -> datetime.datetime:
        threads[threading.current_thread().name] += 1
        return read_clock(store.database)

    store.time = DatabaseTime(
        store.database, monotonic=lambda: sum((time.monotonic(), passed[0])), database_clock=clock
    )

    async def run() -> None:
        now = msgspec.structs.replace(CLOCK, now=lambda: store.time.now())
        async with working(store, 0, clock=now) as worker:
            await eventually(lambda: worker.stats.shards > 0)
            before = threads["webhook-database_0"]
            assert before >= 1
            passed[0] += 3600.0
            await eventually(lambda: threads["webhook-database_0"] > before)

    asyncio.run(run())
    assert "webhooks" not in threads
