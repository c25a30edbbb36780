# SPDX-License-Identifier: Apache-2.0
"""The graph that SQL finds on every database is that of a walk over the declared references in memory."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.storage.conftest import opened
from tests.related import OWNERS, around, edges, group, random_change, related_kinds, server, volume, walk
from tests.simulated import telling, told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.model.kinds import Kinds
from watcher_sync.read.graph import MAX_DEPTH, Graph, GraphReader
from watcher_sync.read.member_states import HEALTHS
from watcher_sync.storage.writing.store import Store

KINDS = related_kinds()
BOTH = ("needs", "dependents")


@pytest.fixture
def declared_kinds() -> Kinds:
    return related_kinds()


@pytest.fixture
def store(any_migrated_url: str) -> Iterator[Store]:
    store = opened(any_migrated_url, related_kinds())
    yield store
    store.close()
    store.database.dispose()


@pytest.fixture
def cycle(store: Store) -> CommitCycle:
    return CommitCycle(store, store.load(), telling(store.kinds))


def commit(cycle: CommitCycle, *changes: Any) -> None:
    cycle.run(Batch(events=[told(i, change) for i, change in enumerate(changes)]))


def shown(graph: Graph | None) -> dict[tuple[str, str], tuple[int, str]]:
    assert graph is not None
    return {(node.kind, node.id): (node.depth, node.direction) for node in graph.nodes}


def found_edges(graph: Graph) -> set[tuple[str, str, str, str]]:
    return {(edge.source, edge.target, edge.relation, edge.field) for edge in graph.edges}


@pytest.mark.parametrize("seed", [1, 2])
def test_graph_and_numbers_are_those_of_a_walk_in_memory(store: Store, cycle: CommitCycle, seed: int) -> None:
    rng = random.Random(seed)
    deep = 0
    for part in range(3):
        commit(cycle, *(random_change(rng, part * 40 + n) for n in range(40)))
        snapshot = cycle.model.snapshot()
        whole = {name: {row["id"]: row for row in snapshot.dump(name)} for name in KINDS}
        for scope in (None, OWNERS[0]):
            rows = {
                name: {i: row for i, row in of_kind.items() if scope in (None, row.get("project_id", scope))}
                for name, of_kind in whole.items()
            }
            links = edges(KINDS, rows)
            with store.database.connect() as connection:
                reader = GraphReader(connection, store.tables, KINDS, scope=scope)
                for root in [(kind, i) for kind, of_kind in rows.items() for i in of_kind]:
                    depth, directions = rng.randint(1, MAX_DEPTH), rng.choice((BOTH, BOTH[:1], BOTH[1:]))
                    kinds = rng.choice((list(KINDS), ["volume", "instance", "compute_node"]))
                    graph = reader.walk(root, depth=depth, directions=directions, kinds=kinds, limit=500)
                    nodes = around(links, root, depth, directions, kinds)
                    assert shown(graph) == nodes
                    assert graph is not None
                    assert not graph.more
                    assert len(graph.edges) == len(found_edges(graph))
                    assert found_edges(graph) == {
                        ("/".join(a), "/".join(b), *more) for a, b, *more in links if {a, b} <= nodes.keys()
                    }
                    order = [(n.depth, HEALTHS.index(n.health), n.name or n.id) for n in graph.nodes]
                    assert order == sorted(order)
                    impact = Counter(key[0] for key, _ in walk(links, root, MAX_DEPTH, "dependents", KINDS))
                    counts = reader.count_dependents(root)
                    assert counts is not None
                    assert {kind: sum(states.values()) for kind, states in counts.items()} == impact
                    deep += sum(distance > 1 for distance, _ in nodes.values())
    assert deep > 30


def test_a_limit_leaves_the_worst_and_counts_the_rest(store: Store, cycle: CommitCycle) -> None:
    many = [server(f"i{n:02}", host="h", state="error" if n >= 18 else "active", name=f"n{n}") for n in range(20)]
    commit(cycle, *many, volume("v", instance_ids=["i19"]), volume("w", instance_ids=["i00"]))
    with store.database.connect() as connection:
        reader = GraphReader(connection, store.tables, KINDS)
        graph = reader.walk(("compute_node", "h"), depth=2, directions=BOTH, kinds=list(KINDS), limit=4)
        whole = reader.walk(("compute_node", "h"), depth=2, directions=BOTH, kinds=list(KINDS), limit=500)
    assert graph is not None
    assert whole is not None
    assert [node.id for node in graph.nodes] == ["h", "i18", "i19", "i00"]
    assert graph.more == {"instance": 17, "volume": 2}
    assert {node.id for node in whole.nodes if node.kind == "volume"} == {"v", "w"}


def test_a_list_of_thousands_is_one_condition(store: Store, cycle: CommitCycle) -> None:
    ids = [f"i{n}" for n in range(3_000)]
    commit(cycle, group("g", volume_ids=[f"v{n}" for n in range(3_000)]), *(volume(f"v{n}") for n in range(40)))
    commit(cycle, server("i7", host="h"), volume("v", instance_ids=ids), volume("w", instance_ids=ids[:7]))
    with store.database.connect() as connection:
        reader = GraphReader(connection, store.tables, KINDS)
        graph = reader.walk(("volume_group", "g"), depth=1, directions=BOTH, kinds=["volume"], limit=30)
        assert graph is not None
        assert (len(graph.nodes), graph.more) == (30, {"volume": 11})
        assert reader.count_dependents(("volume_group", "g")) == {"volume": {"": 40}}
        assert reader.count_dependents(("compute_node", "h")) == {"instance": {"active": 1}, "volume": {"": 1}}
