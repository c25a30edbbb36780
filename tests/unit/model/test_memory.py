# SPDX-License-Identifier: Apache-2.0
"""The model retains no second string for an id, and nothing for what is empty."""

from __future__ import annotations

import sys
from typing import Any

from tests.simulated import NOON
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.model.table import Table
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()


def fresh(entity_id: str) -> str:
    """An equal string that is another object, as each event brings one."""
    return "".join(list(entity_id))


def change(model: Model, number: int, entity_id: str, host: str) -> None:
    transaction = Transaction(model)
    facets = {"state": {}, "placement": {"host": host}}
    event = Event(id=str(number), type="test", source="test", time=NOON)
    transaction.apply(event, [Upsert("instance", entity_id, Version(f"{number:05d}"), facets)])
    model.publish(transaction)


def the_id_of(model: Model, host: str) -> str:
    (entity_id,) = model.indexed_ids("instance", "host", host)
    return entity_id


def test_an_instance_that_moves_has_one_string_for_its_id() -> None:
    model = Model(KINDS)
    for number, host in enumerate(("a", "b", "c"), 1):
        change(model, number, fresh("an-instance-with-an-id"), host)
        entity = model.get("instance", "an-instance-with-an-id")
        assert entity is not None
        assert the_id_of(model, host) is entity.id


def test_a_replica_has_one_string_for_an_id_too() -> None:
    model = Model(KINDS)
    versions = KINDS["instance"].no_versions
    old = Instance(id=fresh("i-1"), host="a", versions=versions)
    model.write([Written("instance", fresh("i-1"), old, None)], 1)
    model.write([Written("instance", fresh("i-1"), Instance(id=old.id, host="b", versions=versions), None)], 2)
    assert the_id_of(model, "b") is old.id


def test_empty_tables_cost_one_empty_dictionary_each() -> None:
    table: Table[Any] = Table()
    shards = {id(shard): sys.getsizeof(shard) for shard in table.frozen()._shards}
    assert sum(shards.values()) <= 128
    table.set("a", 1)
    other: Table[Any] = Table()
    assert len(table) == 1
    assert len(other) == 0
    assert [*table.values()] == [1]


def test_the_kinds_of_an_installation_share_no_table() -> None:
    one, other = Model(KINDS), Model(Kinds(*(kind.cls for kind in KINDS.values())))
    change(one, 1, "i", "a")
    assert other.get("instance", "i") is None
    assert not other.indexed_ids("instance", "host", "a")
