# SPDX-License-Identifier: Apache-2.0
"""A live system of slots and tickets, a reconciler that lists it, and an installation that it writes to."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from oslo_config import cfg

from tests.simulated import telling
from tests.sites import Site
from tests.unit.model.kinds import Slot, Ticket, kinds
from tests.waiting import deadline
from watcher_sync.assembly.reconcile import make_context
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.doubts import Doubts
from watcher_sync.events import Event
from watcher_sync.model.changes import Delete, Outcome, Upsert, Version
from watcher_sync.model.kinds import Entity, Kinds
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Report
from watcher_sync.reconcile.listing import ListingReconciler
from watcher_sync.reconcile.plugins import make_reconciler
from watcher_sync.storage.drifts import DriftRow, list_drifts
from watcher_sync.storage.table_model import TableView

State = dict[str, dict[str, Any]]
"""``<kind> <id>`` -> the public fields that are known."""


class Stock(ListingReconciler):
    """Lists what its attribute ``live`` has."""

    name = "stock"
    lists = {Slot: ("owner",), Ticket: ("owner", "size")}  # noqa: RUF012 - as a plugin writes it

    live: Callable[[], Iterable[Entity]] = staticmethod(tuple)

    def list_live(self, scope: str, deadline: float) -> Iterable[Entity]:
        return self.live()


class Warehouse(Site):
    """An installation with these kinds, and what its live system has."""

    def __init__(
        self, folder: Path, *, url: str | None = None, cls: type[Stock] = Stock, reads_tables: bool = False,
        more: tuple[type[Entity], ...] = (), conf: cfg.ConfigOpts | None = None,
    ) -> None:  # fmt: skip
        """:param reads_tables: whether the reconciler's process has no replica.

        :param more: classes of further kinds.
        """
        super().__init__(folder, url=url, kinds=Kinds(Slot, Ticket, *more), conf=conf)
        self.doubts = Doubts()
        self.truth: dict[tuple[str, str], Entity] = {}
        self.meanwhile: Callable[[], None] = lambda: None
        """Called in the middle of a listing, whose content is that of its begin."""
        self.view: Callable[[], View] = lambda: self.model
        if reads_tables:
            self.view = self.table_view
        context = make_context(self.conf, self.store, telling(kinds()), lambda: self.view(), doubts=self.doubts)
        made = make_reconciler(cls.name, cls, self.conf, context)
        assert isinstance(made, Stock)
        self.reconciler = made
        self.reconciler.live = self.list_live  # type: ignore[method-assign]

    def table_view(self) -> View:
        return TableView(self.store.database, self.store.tables, self.store.kinds)

    def has(self, *entities: Entity) -> None:
        self.truth = {(type(e).__name__.lower(), e.id): e for e in entities}

    def list_live(self) -> Iterator[Entity]:
        listed = list(self.truth.values())
        yield from listed[:1]
        self.meanwhile()
        yield from listed[1:]

    def run(self, scope: str = "stock", **arguments: bool) -> Report:
        return self.reconciler.run(scope, deadline=time.monotonic() + deadline(120), **arguments)

    def event(self, change: Upsert | Delete) -> Outcome:
        """An event with this change, as an engine commits it."""
        with DirectWriter(self.store, telling(kinds())).begin() as cycle:
            return cycle.write(Event(id="e", type="test", source="test"), [change])

    def state(self) -> State:
        model = self.model
        return {
            f"{kind} {row['id']}": {n: v for n, v in row.items() if v is not None and n != "id"}
            for kind in self.store.kinds
            for row in model.dump(kind)
        }

    def drifts(self) -> list[DriftRow]:
        return list_drifts(self.store.database)


def slot(entity_id: str, owner: str, version: str) -> Upsert:
    return Upsert("slot", entity_id, Version(version), {"state": {"owner": owner}})


def ticket(entity_id: str, number: int, version: str) -> Upsert:
    """All facets of a ticket, all fields of this number."""
    facets = {"state": {"owner": f"o{number}"}, "placement": {"place": f"p{number}"}, "size": {"size": number}}
    return Upsert("ticket", entity_id, Version(version), facets)
