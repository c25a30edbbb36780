# SPDX-License-Identifier: Apache-2.0
"""Each kind of database counts the bytes of a page alike."""

from __future__ import annotations

from tests.functional.storage.writing import cycle_on
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert
from watcher_sync.storage import reading
from watcher_sync.storage.journal import read_since

KIND = "service_type_instance"
IDS = [f"i{n:02}" for n in range(24)]


def test_pages_end_at_their_bytes_and_reach_every_row(store):
    cycle = cycle_on(store)
    spec = {"service_type": "vm", "spec": {"x": "🦀" * 125_000}}
    for entity_id in IDS:
        cycle.run(Batch(events=[told(entity_id, Upsert(KIND, entity_id, "1", {"spec": spec}))]))
    cycle.run(Batch(events=[told("i00", Upsert(KIND, "i00", "2", {"spec": {"spec": {}}}))]))
    tables, kind = store.tables, store.kinds[KIND]
    sizes, ids = [], []
    with store.database.connect() as connection:
        more = True
        while more:
            after = reading.After(None, ids[-1]) if ids else None
            page = reading.read_page(
                connection, tables, kind, names=["spec", "output_spec"], filters={}, sort=reading.Sort(), after=after,
                limit=100,
            )  # fmt: skip
            ids += [row["id"] for row in page.rows]
            sizes.append(len(page.rows))
            more = page.more
        assert (ids, sizes) == (IDS, [18, 6])
        history = reading.read_history(connection, tables, KIND, "i00", after=0, limit=1)
        assert ([row.seq for row in history.rows], history.more) == ([1], True)
        assert len(read_since(connection, tables, 0, 100, 8_388_608)) == 17
