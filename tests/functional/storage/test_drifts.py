# SPDX-License-Identifier: Apache-2.0
"""The table of drifts says what the last reconciliation of each scope found, and since when."""

from __future__ import annotations

import datetime

import pytest

from tests.simulated import NOON
from watcher_sync.exceptions import RowRefused
from watcher_sync.storage.drifts import Difference, count_drifts, list_drifts, replace_drifts

LATER = NOON + datetime.timedelta(hours=1)


def differs(entity_id, field="state", model="active", live="stopped", kind="instance", policy="heal"):
    return Difference(kind=kind, entity_id=entity_id, field=field, model_value=model, live_value=live, policy=policy)


def shown(store, **options):
    return [(d.source, d.entity_id, d.live_value, d.since) for d in list_drifts(store.database, **options)]


def test_what_is_found_again_keeps_its_row_and_its_time_and_what_is_not_goes(store):
    replace_drifts(store.database, [differs("a"), differs("b")], source="nova", kinds=["instance"], now=NOON)
    first = {d.entity_id: d for d in list_drifts(store.database)}
    found = [differs("b", live={"x": [1, None]}), differs("c", live=None)]
    replace_drifts(store.database, found, source="nova", kinds=["instance"], now=LATER)
    assert shown(store) == [("nova", "b", {"x": [1, None]}, NOON), ("nova", "c", None, LATER)]
    assert list_drifts(store.database)[0].id == first["b"].id


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
    while page := list_drifts(store.database, after=after, limit=3):
        seen += [d.entity_id for d in page]
        after = page[-1].id
    assert seen == [*(d.entity_id for d in found), "p"]
    assert [d.entity_id for d in list_drifts(store.database, kind="pod")] == ["p"]
    assert len(list_drifts(store.database, source="nova")) == 7


def test_a_value_that_the_database_refuses_changes_nothing(store):
    replace_drifts(store.database, [differs("a")], source="nova", kinds=["instance"], now=NOON)
    with pytest.raises(RowRefused):
        replace_drifts(store.database, [differs("b", policy=None)], source="nova", kinds=["instance"], now=LATER)
    assert [d.entity_id for d in list_drifts(store.database)] == ["a"]
