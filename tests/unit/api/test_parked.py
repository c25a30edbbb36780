# SPDX-License-Identifier: Apache-2.0
"""The parked events over REST: what waits for which entity, and until when."""

from __future__ import annotations

import itertools

from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.changes import Upsert

NUMBERS = itertools.count()


def test_parked_events_are_listed_in_pages_until_their_entity_appears(client, store):
    cycle = CommitCycle(store, store.load(), telling(store.kinds))

    def lock(entity_id):
        return Upsert("instance", entity_id, "1", {"lock": {"locked": True}})

    cycle.run(Batch(events=[told(n, lock(entity_id)) for n, entity_id in enumerate("aba")]))
    first = client.simulate_get("/v1/parked", params={"limit": 2}).json
    rest = client.simulate_get("/v1/parked", params={"limit": 2, "marker": first["next_marker"]}).json
    entries = first["parked"] + rest["parked"]
    assert [(e["event_id"], e["kind"], e["entity_id"]) for e in entries] == [
        ("event-0", "instance", "a"),
        ("event-1", "instance", "b"),
        ("event-2", "instance", "a"),
    ]
    assert rest["next_marker"] is None
    assert all(e["parked_at"] < e["expires_at"] for e in entries)
    cycle.run(Batch(events=[told(9, Upsert("instance", "a", "2", {"state": {"state": "active"}}))]))
    assert [e["entity_id"] for e in client.simulate_get("/v1/parked").json["parked"]] == ["b"]
