# SPDX-License-Identifier: Apache-2.0
"""The rows of outlets: who may write them, and what ``/v1/outlets`` shows."""

from __future__ import annotations

import datetime

import pytest

from tests.simulated import telling, told
from tests.unit.api.conftest import application, client, conf, store  # noqa: F401
from tests.unit.extensions.log.rows import outlet_cursor
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.exceptions import LeaseLost
from watcher_sync.extensions.log.cursors import FAILED, STOPPED, read_outlet, write_outlet
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.groups.leases import EngineLease

MINUTE = datetime.timedelta(minutes=1)


def test_a_deposed_publisher_cannot_write_its_row(store):  # noqa: F811
    lease = EngineLease(store.database, store.tables, "outlet:bus", seconds=5.0)
    for _ in range(2):
        assert lease.try_take()
        lease.give_back()
    write_outlet(store.database, outlet_cursor(token=2, seq=7))
    with pytest.raises(LeaseLost):
        write_outlet(store.database, outlet_cursor(token=1, seq=8))
    assert read_outlet(store.database, "bus").seq == 7


def test_the_state_of_each_outlet_is_shown_with_its_lag(client, store):  # noqa: F811
    now = store.time.now()
    cycle = CommitCycle(store, store.load(), telling())
    for number in range(3):
        cycle.run(Batch(events=[told(number, Upsert("instance", f"i{number}", "1", {"state": {"state": "active"}}))]))
    write_outlet(store.database, outlet_cursor(seq=1, updated_at=now))
    write_outlet(store.database, outlet_cursor(outlet="dead", seq=3, updated_at=now - 10 * MINUTE))
    write_outlet(store.database, outlet_cursor(outlet="off", seq=3, state=STOPPED, updated_at=now - 10 * MINUTE))
    write_outlet(store.database, outlet_cursor(outlet="red", seq=3, state=FAILED, detail="refused", updated_at=now))
    shown = client.simulate_get("/v1/outlets").json["outlets"]
    assert [(each["outlet"], each["state"], each["lag"]) for each in shown] == [
        ("bus", "publishing", 2),
        ("dead", "gone", 0),
        ("off", "stopped", 0),
        ("red", "failed", 0),
    ]
    assert shown[0]["lag_seconds"] > 0
    assert shown[1]["lag_seconds"] == 0
    assert client.simulate_get("/v1/outlets/red").json["detail"] == "refused"
    assert client.simulate_get("/v1/outlets/moon").status_code == 404
