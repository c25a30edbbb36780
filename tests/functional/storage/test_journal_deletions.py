# SPDX-License-Identifier: Apache-2.0
"""The journal has a deletion only of an entity that it has a creation of, whatever arrives and in which order."""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import hypothesis
import msgspec
from hypothesis import strategies as st

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on, followed, journal, rows, without_heard
from tests.simulated import by_facet, told, whole
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.entity_repair import CannotRepair, reset, undelete
from watcher_sync.events import Event
from watcher_sync.model.changes import Change, Delete, Upsert
from watcher_sync.model.view import View
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.storage.writing.store import Store

VALUES: dict[str, list[dict[str, Any]]] = {
    "aggregate": [{}, {"hosts": ["a", "b"]}, {"hosts": []}, {"name": "fast", "hosts": ["c"]}],
    "cluster": [{}, {"state": "connected"}],
    "compute_node": [{}, {"status": "enabled"}, {"liveness": "up"}, {"vcpus": 4}],
    "instance": [{}, {"host": "a"}, {"host": "b", "source_host": "c"}, {"name": "web", "host": None}],
    "pod": [{}, {"name": "pod-0", "cluster": "a"}],
    "provider": [{}, {"name": "a", "service_type": "vm", "state": "degraded"}],
    "service_type_instance": [{}, {"provider_name": "a", "service_type": "vm"}, {"status": "RUNNING"}],
    "workload": [{}, {"name": "web", "cluster": "a"}],
}
"""Kind -> values that it is written with. Instances name hosts that are declared or not, so hosts are discovered."""
IDS = ("a", "b", "c")


class Step(msgspec.Struct, frozen=True):
    """A change of an entity, of which each example has its own."""

    kind: str
    entity_id: str
    version: str
    values: dict[str, Any] | None
    """None: a deletion."""
    declares: bool = True
    """Whether it writes the facet that carries the existence."""

    def change(self, view: View, example: int) -> Change:
        """With ids of this example only."""
        entity_id = f"{self.entity_id}-{example}"
        if self.values is None:
            return Delete(self.kind, entity_id, self.version)
        values = {
            name: f"{value}-{example}" if name in ("host", "source_host") and value is not None else value
            for name, value in self.values.items()
        }
        facets = by_facet(self.kind, **values)
        if not self.declares and len(facets) > 1 and view.get(self.kind, entity_id) is not None:
            del facets[next(iter(facets))]
        return Upsert(self.kind, entity_id, self.version, facets)


@st.composite
def steps(draw: st.DrawFn) -> Step:
    """An upsert or a deletion. Versions come in any order, so some are stale and some are duplicates."""
    kind, entity_id = draw(st.sampled_from(sorted(VALUES))), draw(st.sampled_from(IDS))
    version = f"{draw(st.integers(1, 6)):03}"
    is_deletion = draw(st.booleans())
    values = None if is_deletion else draw(st.sampled_from(VALUES[kind]))
    return Step(kind, entity_id, version, values, draw(st.booleans()))


EVENTS = st.lists(st.lists(steps(), min_size=1, max_size=3), min_size=2, max_size=5)
REPAIRS = st.lists(
    st.tuples(st.sampled_from(sorted(VALUES)), st.sampled_from(IDS), st.sampled_from([reset, undelete])), max_size=4
)


def require_creations(rows: Iterable[JournalRow]) -> None:
    existing: set[tuple[str, str]] = set()
    for row in rows:
        key = (row.kind, row.entity_id)
        if row.change == "created":
            assert key not in existing, row
            existing.add(key)
        elif row.change == "deleted":
            assert key in existing, row
            existing.remove(key)
        else:
            assert key in existing or not row.delta, row


def require_equal(store: Store, cycle: CommitCycle) -> None:
    """A replica that reads the journal has the tombstones of the writer, and so has one that reads the tables."""
    expected = without_heard(whole(cycle.model))
    assert without_heard(whole(followed(store))) == expected
    assert without_heard(whole(store.load())) == expected


@on_one_database
def test_each_deletion_in_the_journal_follows_a_creation_of_the_entity(store: Store) -> None:
    numbers, examples = itertools.count(1), itertools.count(1)
    cycle = cycle_on(store)
    writer = DirectWriter(store, cycle.dispatcher)

    def commit_all(batches: list[list[list[Step]]], example: int) -> None:
        for batch in batches:
            commit(cycle, *events_of(batch, example))

    def events_of(batch: list[list[Step]], example: int) -> Iterator[Event]:
        for event in batch:
            yield told(next(numbers), *(functools.partial(step.change, example=example) for step in event))

    @hypothesis.settings(max_examples=60, deadline=None, derandomize=True, database=None)
    @hypothesis.given(st.lists(EVENTS, min_size=2, max_size=5), REPAIRS, st.lists(EVENTS, max_size=2))
    def each(batches: list[list[list[Step]]], repairs: list[Any], later: list[list[list[Step]]]) -> None:
        example, since = next(examples), cycle.model.generation
        commit_all(batches, example)
        for kind, entity_id, repair in repairs:
            with contextlib.suppress(CannotRepair):
                repair(writer, store.kinds[kind], f"{entity_id}-{example}")
        cycle.follow()
        commit_all([*batches, *later], example)
        require_creations(journal(store, since))

    each()
    require_equal(store, cycle)
    assert not rows(store, "quarantine")
    found = {(row.change, bool(row.delta)) for row in journal(store)}
    assert found >= {("created", True), ("updated", True), ("updated", False), ("deleted", True)}


def test_a_host_that_is_discovered_and_dropped_in_one_commit_leaves_equal_replicas(store: Store) -> None:
    cycle = cycle_on(store)
    commit(
        cycle,
        told(1, Upsert("instance", "web", "1", by_facet("instance", host="a"))),
        told(2, Delete("instance", "web", "2")),
    )
    assert [(row.change, row.delta) for row in journal(store)] == [("updated", {})] * 2
    require_equal(store, cycle)
