# SPDX-License-Identifier: Apache-2.0
"""What the tests of the storage write with: commit cycles, a plugin's kind, and what a database holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import sqlalchemy as sa

from tests.simulated import event, telling
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.batch_dispatch import CommitOptions
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.exceptions import NotYet
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.model.kinds import Entity, In, Kinds, Text, kind
from watcher_sync.model.model import Model
from watcher_sync.model.view import View
from watcher_sync.storage.writing.journal import read_head, read_since
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import BUILTIN


@kind("meter", plural="meters", indexes=("owner",))
class Meter(Entity, frozen=True, kw_only=True, gc=False):
    """A plugin's kind, which promises less about its numbers than any database can keep."""

    owner: Annotated[Text | None, In("state")] = None
    reading: Annotated[int | None, In("state")] = None
    ratio: Annotated[float | None, In("state")] = None
    readings: Annotated[list[int] | None, In("state")] = None


def kinds() -> Kinds:
    """Ours and the plugin's."""
    return Kinds(*BUILTIN, Meter)


def meter(entity_id: str, version: str = "1", **fields: Any) -> Upsert:
    """A change of a meter."""
    return Upsert("meter", entity_id, version, {"state": fields})


def cycle_on(store: Store, dispatcher: Dispatcher | None = None, **options: Any) -> CommitCycle:
    """A writer of its own: its replica is what the tables hold now."""
    return CommitCycle(store, store.load(), dispatcher or telling(), CommitOptions(**options))


def commit(cycle: CommitCycle, *events: Event, **options: Any) -> CommitCycle:
    """One batch."""
    cycle.run(Batch(events=events, **options))
    return cycle


def seqs(store: Store) -> list[int]:
    """The journal's, in order."""
    with store.database.connect() as connection:
        return list(connection.execute(sa.select(store.tables.journal.c.seq).order_by("seq")).scalars())


def head(store: Store) -> int:
    """The journal's head."""
    with store.database.connect() as connection:
        return read_head(connection, store.tables)


def journal(store: Store, since: int = 0) -> list[Any]:
    """The journal's rows."""
    with store.database.connect() as connection:
        return read_since(connection, store.tables, since, 1_000_000)


def rows(store: Store, table: str) -> list[Any]:
    """All rows of a table."""
    with store.database.connect() as connection:
        return list(connection.execute(sa.select(store.tables.metadata.tables[table])))


def followed(store: Store) -> Model:
    """A replica that began empty and read the whole journal."""
    model = Model(store.kinds)
    store.catch_up(model, chunk=37)
    return model


def without_heard(found: dict[str, Any]) -> dict[str, Any]:
    """A replica without signs of life, which are in no journal."""
    for name, part in found.items():
        if name != "generation":
            for row in part["dump"]:
                row.pop("last_heard", None)
    return found


class Naming:
    """A handler whose events rename a meter that has to exist, or make one."""

    events = {"rename": "rename", "make": "make", "drop": "drop"}  # noqa: RUF012

    def rename(self, event: Event, view: View) -> Iterator[Change]:
        """The meter has to be there."""
        entity_id, version, owner = event.read()
        if view.get("meter", entity_id) is None:
            raise NotYet("meter", entity_id)
        yield meter(entity_id, version, owner=owner)

    def make(self, event: Event, view: View) -> Iterator[Change]:
        """It is there from now on."""
        yield meter(event.read(), "1", owner="made")

    def drop(self, event: Event, view: View) -> Iterator[Change]:
        """It is there no more."""
        yield Delete("meter", event.read(), "9")


def naming() -> Dispatcher:
    """The dispatch table of :class:`Naming`."""
    return Dispatcher([("naming", Naming())])


def rename(number: int, entity_id: str = "a", version: str = "2", owner: str = "renamed") -> Event:
    """An event for :meth:`Naming.rename`."""
    return event(number, "rename", data=[entity_id, version, owner])


def make(number: int, entity_id: str = "a") -> Event:
    """An event for :meth:`Naming.make`."""
    return event(number, "make", data=entity_id)
