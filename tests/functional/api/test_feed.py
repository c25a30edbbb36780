# SPDX-License-Identifier: Apache-2.0
"""PostgreSQL wakes the event streams of an API process; its journal is not polled."""

from __future__ import annotations

from tests.functional.webhooks.subscribing import Instances
from watcher_sync.api.edge.feed import Feed
from watcher_sync.storage.writing.store import Store

INTERVAL = 600.0
"""Longer than the test waits: a poll would be too late."""


def test_a_commit_wakes_the_event_streams_by_an_announcement(postgresql_store: Store) -> None:
    feed = Feed(postgresql_store.database, postgresql_store.tables, slots=1, interval=INTERVAL)
    instances = Instances(postgresql_store)
    try:
        feed.wait(feed.head(), 0.0)
        for _ in range(3):
            since = feed.head()
            instances.write([1])
            assert feed.wait(since, 60)
            assert [row.seq for row in feed.read(since)] == [since + 1]
    finally:
        feed.stop()
