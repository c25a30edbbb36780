# SPDX-License-Identifier: Apache-2.0
"""A time with another offset than UTC is stored, compared and read back as the instant that it is."""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import told
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.writing.store import Store

NOON = datetime.datetime(2026, 4, 5, 12, 0, 0, 250_000, tzinfo=datetime.UTC)
EAST = datetime.timezone(datetime.timedelta(hours=1))


def created(entity_id: str, time: datetime.datetime) -> Upsert:
    return Upsert("instance", entity_id, "1", {"state": {}, "details": {"created_at": time}})


def test_a_time_of_another_offset_is_the_same_instant_in_the_tables(store: Store) -> None:
    commit(cycle_on(store), told(1, created("east", NOON.astimezone(EAST)), created("utc", NOON)))
    known = store.load().snapshot()
    for name in ("east", "utc"):
        found: Any = known.get("instance", name)
        assert found.created_at == NOON
    table = store.tables.entities["instance"]
    query = sa.select(table.c.id).where(table.c.created_at == NOON.astimezone(EAST)).order_by(table.c.id)
    with store.database.connect() as connection:
        assert list(connection.execute(query).scalars()) == ["east", "utc"]
