# SPDX-License-Identifier: Apache-2.0
"""The streams of a database that goes back in time end with the new epoch, and never bring another history."""

from __future__ import annotations

import queue
from typing import Any

import grpc
import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import on_one_database
from tests.functional.watch.clients import SELF_LINK, WatchClient
from tests.functional.watch.serving import Serving
from tests.functional.webhooks.subscribing import Instances
from tests.setting_back import Backup
from tests.waiting import deadline, wait_until
from watcher_sync.client.watch import (
    EventsPurged,
    MemorySequence,
    MissingSequence,
    WatchEvent,
    WatchManager,
    WatchOptions,
)
from watcher_sync.read import journal_signal
from watcher_sync.storage.writing.store import Store

EPOCH = "x-watcher-sync-epoch"


def epoch_of(store: Store) -> str:
    with store.database.connect() as connection:
        return str(connection.execute(sa.select(store.tables.journal_head.c.epoch)).scalar_one())


def overtaken(site: Serving, store: Store) -> None:
    """The database goes back, and another history overtakes the old end."""
    backup, before = Backup(store), epoch_of(store)
    head = Instances(store).write(range(10))
    wait_until(lambda: site.worker.stats.position == head)
    backup.restore()
    wait_until(lambda: epoch_of(store) != before)  # the outlet itself notices
    overtaking = Instances(store)
    for _ in range(5):
        overtaking.write(range(20, 40))


def test_a_live_stream_ends_with_the_new_epoch(
    site: Serving, store: Store, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_signal, "_SAFEGUARD_SECONDS", 0.2)  # PostgreSQL does not announce a restored database
    head = Instances(store).write(range(5))
    wait_until(lambda: site.worker.stats.position == head)
    backup = Backup(store)
    clients = [WatchClient(channel).subscribe("admin", after=after) for after in (None, 0)]
    wait_until(lambda: site.worker.stats.subscribed == 2)
    head = Instances(store).write(range(5, 8))
    for client in clients:
        wait_until(lambda client=client: head in client.sequences)
    before = epoch_of(store)
    backup.restore()
    for client in clients:
        assert client.wait_for_status() is grpc.StatusCode.OUT_OF_RANGE
        assert client.trailers[EPOCH] == epoch_of(store) != before
        assert client.trailers["max-sequence-id"] == "5"


@on_one_database
def test_a_client_that_resumes_in_another_epoch_receives_events_purged(site: Serving, store: Store) -> None:
    head = Instances(store).write(range(5))
    wait_until(lambda: site.worker.stats.position == head)
    sequence, before = MemorySequence({SELF_LINK: 1}), epoch_of(store)

    def watched() -> tuple[WatchManager, queue.Queue[Any]]:
        found: queue.Queue[Any] = queue.Queue()
        options = WatchOptions(tls=None, sequence=sequence)
        manager = WatchManager("127.0.0.1", site.port, "t", lambda: "admin", options)
        manager.register_watch(SELF_LINK, found, found)
        return manager, found

    manager, found = watched()
    with manager:
        events = [found.get(timeout=deadline(60)) for _ in range(head - 1)]
    assert [event.sequence for event in events if isinstance(event, WatchEvent)] == list(range(2, head + 1))
    assert (sequence.get(SELF_LINK), sequence.get_epoch(SELF_LINK)) == (head, before)
    overtaken(site, store)
    wait_until(lambda: site.worker.stats.position > 2 * head)
    manager, found = watched()
    with manager:
        error = found.get(timeout=deadline(60))
    assert isinstance(error, EventsPurged)
    assert error.epoch == epoch_of(store) != before
    with pytest.raises(MissingSequence):  # a process that starts again without reading the lists
        watched()
    head = Instances(store).write(range(3))
    sequence.set(SELF_LINK, head - 1)
    manager, found = watched()
    with manager:
        assert found.get(timeout=deadline(60)).sequence == head
    assert (sequence.get(SELF_LINK), sequence.get_epoch(SELF_LINK)) == (head, error.epoch)
