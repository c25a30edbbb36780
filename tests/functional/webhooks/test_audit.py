# SPDX-License-Identifier: Apache-2.0
"""The journal records which subscriptions were suspended, and nothing else changes."""

from __future__ import annotations

import datetime

from tests.functional.storage.writing import commit, cycle_on, journal
from tests.simulated import told
from watcher_sync.extensions.webhooks.rows import StateChange
from watcher_sync.extensions.webhooks.writer import record
from watcher_sync.model.changes import Upsert


def change(instance_id):
    return StateChange(
        subscription_id="s",
        instance_kind="instance",
        instance_id=instance_id,
        revision=1,
        state="suspended",
        reason="x",
    )


def test_the_history_of_the_instance_has_a_row_without_a_change(new_store):
    cycle = cycle_on(new_store())
    commit(cycle, told(1, Upsert("instance", "i", "1", {"state": {"state": "active"}})))
    before = cycle.model.get("instance", "i")
    record(new_store(), [change("i"), change("absent")], datetime.datetime.now(datetime.UTC))
    row = journal(cycle.store)[-1]
    assert (row.seq, row.kind, row.entity_id, row.change, row.delta) == (2, "instance", "i", "updated", {})
    assert (row.event_type, row.event_id, row.source) == ("outlet.subscription.suspended", "s", "outlet")
    cycle.follow()
    after = cycle.model.get("instance", "i")
    # The seq is the ETag: a client with If-Match does not get 412 because of a subscription.
    assert (after.state, after.versions, after.seq) == (before.state, before.versions, before.seq)
    assert new_store().load().get("instance", "i").seq == before.seq
    assert cycle.model.generation == 2
    # An event that is newer is still applied.
    commit(cycle, told(2, Upsert("instance", "i", "2", {"state": {"state": "stopped"}})))
    assert cycle.model.get("instance", "i").state == "stopped"
