# SPDX-License-Identifier: Apache-2.0
"""The model that is loaded from the tables is the one that wrote them, and equal values in it are one object."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.storage.writing import commit, cycle_on, meter
from tests.simulated import by_facet, told, whole
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.model import Model
from watcher_sync.storage import loading
from watcher_sync.storage.writing.store import Store

NOON = datetime.datetime(2026, 4, 5, 12, tzinfo=datetime.UTC)

CONTROLS = "".join(map(chr, range(1, 32)))

_INSTANCE: dict[str, Callable[[random.Random], Any]] = {
    "name": lambda chance: (
        chance.choice(("web", "ß\U0001f600", '"\\/', "\u2028\x7f", CONTROLS, "")) + str(chance.randrange(40))
    ),
    "host_name": lambda chance: str(chance.random()),
    "host": lambda chance: f"host-{chance.randrange(20)}",
    "locked": lambda chance: chance.random() < 0.5,
    "memory_mb": lambda chance: chance.choice((0, 1, 2048, 2**62)),
    "extra_specs": lambda chance: {"one": chance.choice((1, 1.0, True, None, "1"))},
    "tags": lambda chance: chance.choice(([], ["a"], ["a", "b"])),
    "ip_addresses": lambda chance: [f"10.0.0.{chance.randrange(200)}"] * chance.randrange(3),
    "created_at": lambda chance: NOON + datetime.timedelta(microseconds=chance.choice((0, 1, 500_000))),
    "updated_at": lambda chance: NOON + datetime.timedelta(seconds=chance.randrange(10**6)),
}
_AGGREGATE: dict[str, Callable[[random.Random], Any]] = {
    "hosts": lambda chance: sorted({f"host-{chance.randrange(25)}" for _ in range(chance.randrange(4))}),
    "number": lambda chance: chance.randrange(9),
}
_NODE: dict[str, Callable[[random.Random], Any]] = {
    "forced_down": lambda chance: chance.random() < 0.5,
    "vcpu_ratio": lambda chance: chance.choice((0.0, 1.0, 16.0, 0.1 + 0.2, 1e300, 5e-324)),
    "inventories": lambda chance: {"VCPU": {"ratio": chance.choice((1, 1.5)), "total": chance.randrange(9)}},
}


def _upsert(kind: str, entity_id: str, makers: dict[str, Callable[[random.Random], Any]], seed: int) -> Upsert:
    """Some fields have a value, some are null, and some were never written."""
    chance = random.Random(seed)
    values = {name: make(chance) for name, make in makers.items() if chance.random() < 0.8}
    values |= {name: None for name in values if chance.random() < 0.1 and name != "host"}
    version = f"{seed:04}"
    facets = by_facet(kind, **values)
    return Upsert(kind, entity_id, version, facets, {facet: f"{version}-{chance.randrange(3)}" for facet in facets})


def _fill(store: Store) -> Model:
    cycle = cycle_on(store)
    changes: list[Any] = [_upsert("instance", f"i-{n}", _INSTANCE, n) for n in range(60)]
    changes += [_upsert("compute_node", f"host-{n}", _NODE, n) for n in range(25)]
    changes += [meter(f"m-{n}", owner=f"o-{n % 3}", reading=n) for n in range(7)]
    changes += [_upsert("aggregate", f"a-{n}", _AGGREGATE, n) for n in range(9)]
    changes += [Delete("instance", f"i-{n}", "9999") for n in range(5)]
    commit(cycle, *(told(n, change) for n, change in enumerate(changes)))
    return cycle.model


@pytest.mark.parametrize(("rows", "sample"), [(200, 5000), (7, 5)], ids=["shared", "unique"])
def test_a_loaded_model_is_the_one_that_wrote_the_tables_with_the_types_of_its_values(
    store: Store, monkeypatch: pytest.MonkeyPatch, rows: int, sample: int
) -> None:
    monkeypatch.setattr(loading, "_CHUNK_ROWS", rows)
    monkeypatch.setattr(loading, "_SAMPLE", sample)
    live = _fill(store)
    loaded = store.load()
    assert whole(loaded) == whole(live)
    for kind in live.kinds:
        assert _texts(loaded, kind) == _texts(live, kind)


def test_the_times_when_hosts_were_last_seen_are_loaded(store: Store) -> None:
    commit(cycle_on(store), *(told(n, Upsert("compute_node", f"h-{n}", "1", {"service": {}})) for n in range(3)))
    table = store.tables.entities["compute_node"]
    with store.database.begin() as connection:
        connection.execute(sa.update(table).where(table.c.id == "h-1").values(last_heard=NOON))
    assert store.load().last_seen("compute_node") == {"h-1": NOON}


def test_some_entities_are_loaded_alone(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loading, "_MAX_IDS", 3)
    live = _fill(store)
    wanted = [f"i-{n}" for n in range(3, 12)]
    loaded = store.load({"instance": wanted, "meter": None})
    assert _texts(loaded, "instance") == [text for text in _texts(live, "instance") if _id_in(text) in wanted]
    assert _texts(loaded, "meter") == _texts(live, "meter")
    assert not list(loaded.snapshot().all("compute_node"))


def test_equal_values_are_one_object(store: Store) -> None:
    same = {"host": "a-host", "memory_mb": 16384, "metadata": {"role": "web"}, "tags": ["a"], "created_at": NOON}
    each = [{**same, "name": f"server-{n}", "host_name": f"server-{n}"} for n in range(2)]
    cycle = cycle_on(store)
    commit(cycle, *(told(n, Upsert("instance", f"i-{n}", "7", by_facet("instance", **v))) for n, v in enumerate(each)))
    loaded = store.load()
    one, other = (loaded.get("instance", f"i-{n}") for n in range(2))
    assert one is not None
    assert [name for name in same if getattr(one, name) is not getattr(other, name)] == []
    assert len({id(version) for entity in (one, other) for version in entity.versions if version}) == 1
    assert {id(i) for i in loaded.indexed_ids("instance", "host", "a-host")} == {id(one.id), id(other.id)}


def test_a_name_that_no_other_entity_has_is_one_object_in_its_entity(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loading, "_CHUNK_ROWS", 5)
    monkeypatch.setattr(loading, "_SAMPLE", 5)
    names = [f"server-{n}" for n in range(20)]
    same = [{"name": name, "host_name": name, "node": "a-node", "host": f"h-{n % 15}"} for n, name in enumerate(names)]
    changes = [Upsert("instance", values["name"], "1", by_facet("instance", **values)) for values in same]
    commit(cycle_on(store), *(told(n, change) for n, change in enumerate(changes)))
    instances: list[Any] = list(store.load().snapshot().all("instance"))
    assert [each.id for each in instances if each.name is not each.host_name] == []
    assert len({id(each.node) for each in instances}) == 1
    assert len({id(each.host) for each in instances}) == 15


def _texts(model: Model, kind: str) -> list[str]:
    """The entities with all values; their texts show types that are equal otherwise."""
    return sorted(map(repr, model.snapshot().all(kind)))


def _id_in(text: str) -> str:
    return text.partition("id='")[2].partition("'")[0]
