# SPDX-License-Identifier: Apache-2.0
"""What changed between two seqs equals the difference of the dumps that were taken then, page by page."""

from __future__ import annotations

from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st

from tests.functional.storage.test_past_models import KINDS, Dump, changes, dump, made
from tests.functional.storage.writing import cycle_on
from tests.simulated import by_facet, told
from watcher_sync.commit.batch import Batch
from watcher_sync.model.changes import Upsert
from watcher_sync.model.model import Key, differ
from watcher_sync.read import differences
from watcher_sync.read.differences import EntityDifference, read_differences
from watcher_sync.storage.writing.store import Store

Compared = dict[Key, tuple[str, set[str]]]
"""Entity -> how it differs, and the fields that do."""


def pages(store: Store, since: int, upto: int, limit: int = 100, **more: Any) -> list[list[EntityDifference]]:
    """All pages; the order of the entities is that of the database."""
    found, after, kinds = [], None, {name: store.kinds[name] for name in KINDS}
    with store.connect() as connection:
        while True:
            page = read_differences(
                connection, store.tables, kinds, since, upto, after=after, limit=limit, shown=lambda row: row, **more
            )
            found.append(page.found)
            after = page.last
            if after is None:
                return found


def compared(before: Dump, after: Dump) -> Compared:
    """The difference of two dumps. A created or deleted entity has the fields that it has values of."""
    found: Compared = {}
    for kind in KINDS:
        for entity_id in before[kind].keys() | after[kind].keys():
            old, new = before[kind].get(entity_id), after[kind].get(entity_id)
            fields = {
                name
                for name in (old or new or {})
                if name != "seq" and differ((old or {}).get(name), (new or {}).get(name))
            }
            if old is None or new is None:
                found[kind, entity_id] = ("created" if old is None else "deleted", set())
            elif fields:
                found[kind, entity_id] = ("updated", fields)
    return found


@pytest.mark.parametrize("max_bytes", [1, 8_388_608])
def test_the_differences_are_those_of_the_dumps_on_pages_of_any_size(
    store: Store, monkeypatch: pytest.MonkeyPatch, max_bytes: int
) -> None:
    monkeypatch.setattr(differences, "MAX_PAGE_BYTES", max_bytes)
    monkeypatch.setattr(differences, "_CHUNK_ROWS", 2)
    cycle = cycle_on(store)
    taken: dict[int, Dump] = {0: dump(cycle)}
    versions = iter(range(1, 1_000_000))

    @hypothesis.settings(max_examples=10, deadline=None, derandomize=True, database=None)
    @hypothesis.given(
        st.lists(st.lists(changes(), min_size=1, max_size=5), min_size=1, max_size=5),
        st.lists(st.integers(0, 2**20), min_size=2, max_size=2),
        st.integers(1, 4),
    )
    def each(batches: list[list[tuple[str, str, dict[str, Any] | None]]], which: list[int], limit: int) -> None:
        for batch in batches:
            events = [told(next(versions), made(next(versions), *change)) for change in batch]
            cycle.run(Batch(events=events))
            taken[cycle.model.generation] = dump(cycle)
        seqs = sorted(taken)
        since, upto = sorted(seqs[number % len(seqs)] for number in which)
        found = pages(store, since, upto, limit)
        assert all(len(page) <= (1 if max_bytes == 1 else limit) for page in found)
        every = [one for page in found for one in page]
        got = {
            (one.kind, one.id): (one.change, set(msgspec.json.decode(one.fields)) if one.change == "updated" else set())
            for one in every
        }
        assert len(got) == len(every)
        wanted = compared(taken[since], taken[upto])
        assert got == wanted

    each()


def test_a_name_that_the_reader_does_not_see_is_left_out(store: Store) -> None:
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, Upsert("instance", "i", "1", by_facet("instance", name="secret")))]))
    for unnamed, name in (((), "secret"), (("instance",), None)):
        ((one,),) = pages(store, 0, cycle.model.generation, unnamed=unnamed)
        assert (one.id, one.name) == ("i", name)
