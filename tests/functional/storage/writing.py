# SPDX-License-Identifier: Apache-2.0
"""What the tests of the storage write with: commit cycles, a plugin's kind, and what a database holds."""

from __future__ import annotations

from typing import Annotated, Any

import sqlalchemy as sa

from tests.simulated import telling
from watcher_sync.dispatch import Dispatcher
from watcher_sync.engine.cycle import Batch, CommitCycle
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert
from watcher_sync.model.entities import BUILTIN
from watcher_sync.model.kinds import Entity, In, Kinds, Text, kind
from watcher_sync.model.model import Model
from watcher_sync.storage.journal import read_head, read_since
from watcher_sync.storage.store import Store


@kind("meter", plural="meters", indexes=("owner",))
class Meter(Entity, frozen=True, kw_only=True, gc=False):
    """A plugin's kind, which promises less about its numbers than any database can keep."""

    owner: Annotated[Text | None, In("state")] = None
    reading: Annotated[int | None, In("state")] = None
    ratio: Annotated[float | None, In("state")] = None


def kinds() -> Kinds:
    """Ours and the plugin's."""
    return Kinds(*BUILTIN, Meter)


def meter(entity_id: str, version: str = "1", **fields: Any) -> Upsert:
    """A change of a meter."""
    return Upsert("meter", entity_id, version, {"state": fields})


def cycle_on(store: Store, dispatcher: Dispatcher | None = None, **options: Any) -> CommitCycle:
    """A writer of its own: its replica is what the tables hold now."""
    return CommitCycle(store, store.load(), dispatcher or telling(), **options)


def commit(cycle: CommitCycle, *events: Event, **options: Any) -> CommitCycle:
    """One batch."""
    cycle.run(Batch(events=events, **options))
    return cycle


def seqs(store: Store) -> list[int]:
    """The journal's, in order."""
    with store.engine.connect() as connection:
        return list(connection.execute(sa.select(store.tables.journal.c.seq).order_by("seq")).scalars())


def head(store: Store) -> int:
    """The journal's head."""
    with store.engine.connect() as connection:
        return read_head(connection, store.tables)


def journal(store: Store, since: int = 0) -> list[Any]:
    """The journal's rows."""
    with store.engine.connect() as connection:
        return read_since(connection, store.tables, since, 1_000_000)


def rows(store: Store, table: str) -> list[Any]:
    """All rows of a table."""
    with store.engine.connect() as connection:
        return list(connection.execute(sa.select(store.tables.metadata.tables[table])))


def followed(store: Store) -> Model:
    """A replica that began empty and read the whole journal."""
    model = Model(store.kinds)
    store.catch_up(model, chunk=37)
    return model
