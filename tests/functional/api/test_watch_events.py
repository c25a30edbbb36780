# SPDX-License-Identifier: Apache-2.0
"""The catch-up of watch topics from API workers on each database, while an engine writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import sqlalchemy as sa

from tests.functional.api.writing import Writer
from tests.simulated import cloud, nova
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.storage.writing.store import Store

BASE = "/management/v1alpha1/watchtopics"
YAML = "name: all\nspec:\n  filters:\n    - {group: '*', kind: '*'}\n"
BATCH = 20


def page(client: httpx.Client, **params: Any) -> list[dict[str, Any]]:
    """One page of the topic."""
    answer = client.get(f"/events{BASE}/all", params=params)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()
    return found


def sequences(events: list[dict[str, Any]]) -> list[int]:
    """The sequence of each event."""
    return [event["metadata"]["sequenceID"] for event in events]


def expected(store: Store) -> list[int]:
    """The seqs of all rows that are events."""
    t = store.tables.journal
    with store.database.connect() as connection:
        rows = connection.execute(sa.select(t.c.seq, t.c.change, t.c.delta).order_by(t.c.seq)).all()
    return [row.seq for row in rows if row.delta or row.change != "updated"]


def test_watchers_miss_no_event_on_pages_of_two_workers_while_an_engine_writes(
    store: Store, serve: Callable[..., httpx.Client]
) -> None:
    history, _ = cloud(seed=5, n=800)
    batches = [history[start : start + BATCH] for start in range(0, len(history), BATCH)]
    cycle = CommitCycle(store, store.load(), nova())
    half = len(batches) // 2
    for batch in batches[:half]:
        cycle.run(Batch(events=batch))
    client = serve(store, workers=2, threads=4)
    made = client.post(BASE, content=YAML, headers={"Content-Type": "application/yaml"})
    assert made.status_code == 201

    def rest(number: int) -> list[Event]:
        return batches[half + number - 1] if half + number <= len(batches) else []

    stock: list[int] = []
    keyset: list[int] = []
    with Writer(cycle, rest, pause=0.01) as writer:
        number = 1
        while writer.commits < len(batches) - half or len(stock) < len(keyset):
            found = page(client, page=number, pageSize=13, query="sequenceID>0", sort="sequenceID,ASC")
            known = len(stock) - 13 * (number - 1)
            stock += sequences(found)[known:]
            number += len(found) == 13
            keyset += sequences(page(client, after=keyset[-1] if keyset else 0, limit=50))
    while len(found := page(client, page=number, pageSize=13, query="sequenceID>0")) == 13:
        stock += sequences(found)[len(stock) - 13 * (number - 1) :]
        number += 1
    stock += sequences(found)[len(stock) - 13 * (number - 1) :]
    while more := page(client, after=keyset[-1], limit=50):
        keyset += sequences(more)
    assert stock == keyset == expected(store)
    assert len(stock) > 200
    assert sequences(page(client, pageSize=1, sort="sequenceID,DESC")) == stock[-1:]
