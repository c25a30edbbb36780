# SPDX-License-Identifier: Apache-2.0
"""Every view enumerates a kind in the same way, and names what exists if it is asked for what does not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.migrated import migrate
from tests.simulated import play, telling, told
from tests.unit.model.kinds import Slot, kinds
from watcher_sync.exceptions import NotDeclared
from watcher_sync.model.changes import Delete, Upsert, Version
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import View
from watcher_sync.reconcile.drift import LiveEntity, LiveView
from watcher_sync.storage.table_model import TableModel, TableView
from watcher_sync.storage.writing.store import Store

IDS = {"a:1": "x", "a:2": "y", "b:1": "x", "A:1": "x"}
"""Slot -> its owner."""


def slot(entity_id: str, owner: str, version: str = "1") -> Upsert:
    return Upsert("slot", entity_id, Version(version), {"state": {"owner": owner}})


def filled() -> Model:
    model = Model(kinds())
    play(model, telling(), [told(i, slot(*each)) for i, each in enumerate(IDS.items())])
    return model


def overlay() -> Transaction:
    """A batch that made one, changed one and deleted one, over a model that lacks them."""
    model = Model(kinds())
    play(model, telling(), [told(0, slot("a:2", "old")), told(1, slot("gone", "x")), told(2, slot("b:1", "x"))])
    transaction = Transaction(model)
    changes = [*(slot(*each, "2") for each in IDS.items() if each[0] != "b:1"), Delete("slot", "gone", Version("2"))]
    transaction.apply(told(3, changes[0]), changes)
    return transaction


def live() -> LiveView:
    view = LiveView(kinds(), None)  # type: ignore[arg-type]  # nothing is dispatched
    view.found["slot"] = {i: LiveEntity(Slot(id=i, owner=owner)) for i, owner in IDS.items()}
    return view


@pytest.fixture(params=["snapshot", "model", "overlay", "live", "table model", "table view"])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[View]:
    with ExitStack() as stack:
        yield {
            "snapshot": lambda: filled().snapshot(),
            "model": filled,
            "overlay": overlay,
            "live": live,
            "table model": lambda: TableModel(*tables(stack, tmp_path, lambda store: store.database.connect())),
            "table view": lambda: TableView(*tables(stack, tmp_path, lambda store: store.database)),
        }[request.param]()  # type: ignore[operator]


def tables(stack: ExitStack, folder: Path, access: Callable[[Store], object]) -> tuple[object, ...]:
    store = migrate(Store(sa.create_engine(f"sqlite:///{folder / 'ws.sqlite'}"), kinds()))
    stack.callback(store.database.dispose)
    stack.callback(store.close)
    table = store.tables.entities["slot"]
    with store.database.begin() as connection:
        connection.execute(
            sa.insert(table), [{"id": i, "owner": o, "seq": 1, "versions": {"state": "1"}} for i, o in IDS.items()]
        )
    found = access(store)
    if isinstance(found, sa.Connection):
        stack.callback(found.close)
    return found, store.tables, store.kinds


def test_a_view_has_all_entities_of_a_kind_and_those_with_a_prefix(view: View) -> None:
    assert {entity.id: entity.owner for entity in view.all("slot") if isinstance(entity, Slot)} == IDS
    assert {entity.id for entity in view.all("slot", "a:")} == {"a:1", "a:2"}
    assert {entity.id for entity in view.by("slot", "owner", "x")} == {"a:1", "b:1", "A:1"}
    assert (list(view.all("ticket")), list(view.all("slot", "c"))) == ([], [])
    assert set(view.kinds) == {"slot", "ticket"}


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda view: view.get("slto", "a"), "there is no kind 'slto'; there are slot, ticket"),
        (lambda view: view.all("slto"), "there is no kind 'slto'; there are slot, ticket"),
        (lambda view: view.by("slto", "owner", "x"), "there is no kind 'slto'; there are slot, ticket"),
        (lambda view: view.by("ticket", "size", 1), "ticket has no index 'size'; it has owner"),
    ],
)
def test_what_does_not_exist_is_an_error_that_names_what_does(
    view: View, ask: Callable[[View], object], message: str
) -> None:
    with pytest.raises(NotDeclared, match=f"^{re.escape(message)}$") as raised:
        ask(view)
    assert isinstance(raised.value, KeyError)


def test_a_batch_may_change_what_it_enumerates() -> None:
    model = filled()
    transaction = Transaction(model)
    transaction.apply(told(9, slot("new", "n")), [slot("new", "n", "2")])
    event = told(10, slot("new", "n"))
    transaction.apply(event, (Delete("slot", each.id, Version("3")) for each in transaction.all("slot")))
    assert list(transaction.all("slot")) == []
    assert {each.id for each in model.all("slot")} == set(IDS)
