# SPDX-License-Identifier: Apache-2.0
"""Tables and indexes that are shared with readers behave like dictionaries that are copied for each."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.kinds import kind_of
from watcher_sync.model.overlay import IndexOverlay
from watcher_sync.model.table import Index, Table, ids_of

KEYS = st.integers(0, 400).map(str)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("set"), KEYS, st.integers()),
        st.tuples(st.just("discard"), KEYS, st.none()),
        st.tuples(st.just("freeze"), st.none(), st.none()),
    ),
    max_size=80,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS)
def test_a_frozen_table_remains_what_a_copied_dictionary_would_be(steps):
    table, plain, frozen = Table(), {}, []
    for step, key, value in steps:
        if step == "set":
            table.set(key, value)
            plain[key] = value
        elif step == "discard":
            table.discard(key)
            plain.pop(key, None)
        else:
            frozen.append((table.frozen(), dict(plain)))
        assert table.get(key or "0") == plain.get(key or "0")
    for view, copy in [*frozen, (table.frozen(), plain)]:
        assert sorted(view.keys()) == sorted(copy)
        assert sorted(view.values()) == sorted(copy.values())
        assert len(view) == len(copy)
        assert all(view.get(key) == value and key in view for key, value in copy.items())
        assert view.get("absent") is None
        assert "absent" not in view
    assert len(table) == len(plain)


@settings(max_examples=150, deadline=None)
@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["add", "discard", "freeze"]),
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(["1", "2", "3"]),
        ),
        max_size=60,
    )
)
def test_a_frozen_index_remains_what_copied_sets_would_be(steps):
    index, plain, frozen = Index(), {"a": set(), "b": set(), "c": set()}, []
    for step, value, entity_id in steps:
        if step == "add":
            index.add_all(value, entity_id)
            plain[value].add(entity_id)
        elif step == "discard":
            index.discard_all(value, entity_id)
            plain[value].discard(entity_id)
        else:
            frozen.append((index.frozen(), {v: set(ids) for v, ids in plain.items()}))
        assert index.ids(value) == plain[value]
    for view, copy in frozen:
        for value, ids in copy.items():
            assert ids_of(view.get(value)) == ids


def test_an_empty_bucket_is_removed():
    index = Index()
    index.add_all("host", "vm")
    index.discard_all("host", "vm")
    assert len(index.frozen()) == 0


IDS = st.sampled_from(["vm", "vm-1", "vm-10", "m"])


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(IDS, st.sampled_from(["a", "b", None]), st.sampled_from(["change", "publish"])),
        max_size=40,
    )
)
def test_the_index_of_a_model_with_a_batch_has_the_ids_that_a_search_finds(steps):
    kind, where = kind_of(Instance), ("instance", "host")
    index, overlay, entities = Index(), IndexOverlay(), {}
    for entity_id, host, what in steps:
        after = Instance(id=entity_id, host=host) if host is not None else None
        overlay.move(kind, entity_id, entities.pop(entity_id, None), after, ["host"])
        if after is not None:
            entities[entity_id] = after
        for value in ("a", "b"):
            found = {i for i, entity in entities.items() if entity.host == value}
            assert overlay.over(index.ids(value), where, value) == found
            assert len(index.ids(value)) + overlay.growth(where, value) == len(found)
        if what == "publish":
            for value, ids in overlay.left[where].items():
                index.discard_all(value, ids)
            for value, ids in overlay.joined[where].items():
                if ids:
                    index.add_all(value, ids)
            overlay = IndexOverlay()
            assert len(index.frozen()) == len({entity.host for entity in entities.values()})
