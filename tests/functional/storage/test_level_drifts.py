# SPDX-License-Identifier: Apache-2.0
"""The VNF instances that are at no level, and since when, from the tables and the journal of each database."""

from __future__ import annotations

import datetime

from tests.functional.storage.writing import cycle_on
from tests.simulated import NOON, told
from watcher_sync.commit.batch import Batch
from watcher_sync.extensions.vnf.level_drifts import list_level_drifts
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.stored.retention import Retention, purge

MINUTE = datetime.timedelta(minutes=1)
EVER = datetime.timedelta(days=9999)


def test_an_instance_is_listed_since_its_state_changed_and_not_since_its_pods_did(store, monkeypatch):
    cycle, times = cycle_on(store), iter(NOON + n * MINUTE for n in range(100))
    versions = iter(range(1, 1000))

    def observe(entity_id, state, **values):
        now = next(times)
        monkeypatch.setattr(store, "_now", lambda: now)
        facets = {"observed": {"state": state, "observed_at": now, **values}}
        if entity_id not in registered:
            registered.add(entity_id)
            facets["registration"] = {"name": entity_id, "cluster": f"edge-{entity_id}", "project_id": entity_id}
        cycle.run(Batch(events=[told(1, Upsert("vnf_instance", entity_id, f"{next(versions):04}", facets))]))
        return now

    registered: set[str] = set()
    observe("a", "SYNCED")
    drifted = observe("a", "DRIFTED", observed={"w": 3})
    again = observe("a", "DRIFTED", observed={"w": 5}, vdu_results={"w": {"result": "DRIFTED", "state": "x"}})
    missing = observe("b", "UNRESOLVED")
    observe("c", "SETTLING")
    above = observe("d", "OUT_OF_RANGE")

    def listed(**options):
        with store.database.connect() as connection:
            found = list_level_drifts(connection, store.tables, **{"limit": 10, **options})
        return [(drift.id, drift.state, drift.since) for drift in found.rows]

    everything = [("a", "DRIFTED", drifted), ("b", "UNRESOLVED", missing), ("d", "OUT_OF_RANGE", above)]
    assert listed() == everything
    assert listed(limit=2) == everything[:2]
    assert listed(after="a") == everything[1:]
    assert listed(cluster="edge-b") == everything[1:2]
    assert listed(project_id="d") == everything[2:]
    purge(store.database, store.tables, Retention(None, 1, EVER, None), None)
    assert listed()[0] == ("a", "DRIFTED", again)
    observe("a", "SYNCED")
    assert [entity_id for entity_id, *_ in listed()] == ["b", "d"]
