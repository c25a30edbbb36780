# SPDX-License-Identifier: Apache-2.0
"""The table of drifts says what the last reconciliation of each scope found, and since when."""

from __future__ import annotations

import datetime

from tests.functional.storage.conftest import on_one_database
from tests.functional.storage.writing import commit, cycle_on
from tests.simulated import NOON, told
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.storage.drifts import (
    FieldDifference,
    count_drifts,
    drift_page,
    forget_healed,
    list_drifts,
    replace_drifts,
)

LATER = NOON + datetime.timedelta(hours=1)


def differs(entity_id, field="state", model="active", live="stopped", kind="instance", policy="heal"):
    return FieldDifference(
        kind=kind, entity_id=entity_id, field=field, model_value=model, live_value=live, policy=policy
    )


def shown(store, **options):
    return [(d.source, d.entity_id, d.live_value, d.since) for d in list_drifts(store.database, **options)]


def test_what_is_found_again_keeps_its_row_and_its_time_and_what_is_not_goes(store):
    replace_drifts(store.database, [differs("a"), differs("b")], source="nova", kinds=["instance"], now=NOON)
    first = {d.entity_id: d for d in list_drifts(store.database)}
    found = [differs("b", live={"x": [1, None]}), differs("c", live=None)]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=LATER)
    assert shown(store) == [("nova", "b", {"x": [1, None]}, NOON), ("nova", "c", None, LATER)]
    assert list_drifts(store.database)[0].id == first["b"].id


@on_one_database
def test_other_kinds_and_other_sources_are_left_alone(store):
    replace_drifts(store.database, [differs("a")], source="nova", kinds=["instance"], now=NOON)
    replace_drifts(store.database, [differs("p", kind="pod")], source="edge", kinds=["pod"], now=NOON)
    replace_drifts(store.database, [], source="nova", kinds=["pod"], now=LATER)
    replace_drifts(store.database, [], source="edge", kinds=["instance"], now=LATER)
    assert count_drifts(store.database) == {"instance": 1, "pod": 1}


def test_pages_follow_each_other_and_can_be_of_one_kind_or_source(store):
    found = [differs(f"i{n:03}") for n in range(7)]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=NOON)
    replace_drifts(store.database, [differs("p", kind="pod")], source="edge", kinds=["pod"], now=NOON)
    seen, after = [], 0
    while page := list(drift_page(store.database, after=after, limit=3).rows):
        seen += [d.entity_id for d in page]
        after = page[-1].id
    assert seen == [*(d.entity_id for d in found), "p"]
    assert [d.entity_id for d in list_drifts(store.database, kind="pod")] == ["p"]
    assert len(list_drifts(store.database, source="nova")) == 7


@on_one_database
def test_drifts_of_whole_entities_are_chosen_by_the_side_that_does_not_have_them(store):
    found = [
        differs("a", live=None),
        differs("b", model=None),
        differs("c", field="", live=None),
        differs("d", field="", model=None),
    ]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=NOON)
    assert [d.entity_id for d in drift_page(store.database, after=0, limit=9, missing="live").rows] == ["c"]
    assert [d.entity_id for d in drift_page(store.database, after=0, limit=9, missing="model").rows] == ["d"]


def test_a_drift_that_the_database_refuses_is_left_out_and_the_others_are_stored(store, caplog):
    replace_drifts(store.database, [differs("a"), differs("gone")], source="nova", kinds=["instance"], now=NOON)
    odd = [differs("half", live="\ud800"), differs("long", field="f" * 2**16), differs("a", live="\ud800 again")]
    found = [odd[0], differs("b", live="\U0001f680 \0"), *odd[1:]]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=NOON)
    refused = store.database.dialect.name != "sqlite"  # which has no limit of lengths
    assert {d.entity_id: d.live_value for d in list_drifts(store.database) if d.entity_id != "long"} == {
        "a": "stopped",
        "b": "\U0001f680 \0",
    }
    lines = [r.getMessage() for r in caplog.records if "cannot be stored" in r.getMessage()]
    assert len(lines) == 2 + refused
    assert [line.partition(" cannot")[0] for line in lines[:2]] == ["A drift of a", "A drift of half"]


def test_a_drift_leaves_the_list_when_the_model_has_the_live_value(store):
    cycle = cycle_on(store)

    def write(version, **state):
        facets = {"state": state, "details": {"created_at": NOON}}
        commit(cycle, told(int(version), Upsert("instance", "a", version, facets)))

    write("1", state="active")
    found = [
        differs("a", model="active", live="stopped"),
        differs("a", field="created_at", model=None, live=NOON.isoformat().replace("+00:00", "Z")),
        differs("b", field="", model=None, live="b"),
        differs("c", field="", model="c", live=None),
    ]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=NOON)

    def forget():
        forget_healed(store.database, store.tables, store.kinds)
        return [(d.entity_id, d.field) for d in list_drifts(store.database)]

    assert forget() == [("a", "state"), ("b", "")]
    write("2", state="error")
    assert forget() == [("a", "state"), ("b", "")]
    write("3", state="stopped")
    assert forget() == [("b", "")]
    commit(cycle, told(4, Upsert("instance", "b", "4", {"state": {}, "details": {}})))
    assert forget() == []
    replace_drifts(
        store.database, [differs("b", field="", model="b", live=None)], source="nova", kinds=["instance"], now=NOON
    )
    assert forget() == [("b", "")]
    commit(cycle, told(5, Delete("instance", "b", "5")))
    assert forget() == []
