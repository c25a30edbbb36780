# SPDX-License-Identifier: Apache-2.0
"""The comparison that the demo's exit status rests on has to find every kind of difference."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from watcher_sync.model.model import Model, Snapshot, Written
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.ledger import ANYTHING, Truth
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.fixture(scope="module")
def truth() -> Truth:
    cloud = CloudSimulator(seed=3, hosts=4, instances=8)
    list(cloud.populate())
    return cloud.reported()


def model_of(truth: Truth) -> Snapshot:
    """A model that holds exactly this."""
    kinds = builtin_kinds()
    model = Model(kinds)
    written = []
    for name, rows in truth.items():
        kind = kinds[name]
        for row in rows.values():
            values = {field: value for field, value in row.items() if field != "last_heard" and value is not ANYTHING}
            written.append(Written(name, row["id"], kind.cls(seq=1, versions=kind.no_versions, **values), None))
        if kind.last_seen_field is not None:
            model.set_last_seen(
                name, {i: row["last_heard"] for i, row in rows.items() if row["last_heard"] is not None}
            )
    model.write(written, 1)
    return model.snapshot()


def test_a_model_that_holds_the_truth_has_no_difference(truth: Truth) -> None:
    assert list(compare(truth, model_of(truth))) == []


def test_an_entity_that_the_model_lacks_is_named(truth: Truth) -> None:
    held: Any = copy.deepcopy(truth)
    uuid = min(held["instance"])
    del held["instance"][uuid]
    assert [str(d) for d in compare(truth, model_of(held))] == [f"instance {uuid} is missing in the model"]


def test_an_entity_that_was_never_there_is_named(truth: Truth) -> None:
    real: Any = copy.deepcopy(truth)
    uuid = min(real["instance"])
    del real["instance"][uuid]
    found = [str(d) for d in compare(real, model_of(truth))]
    assert found == [f"instance {uuid} is in the model and was never there"]


def test_a_kind_of_which_the_truth_does_not_speak_has_to_be_empty(truth: Truth) -> None:
    without = {kind: rows for kind, rows in truth.items() if kind != "aggregate"}
    assert {d.kind for d in compare(without, model_of(truth))} == {"aggregate"}


def test_each_field_that_differs_is_named_with_both_values(truth: Truth) -> None:
    held: Any = copy.deepcopy(truth)
    held["compute_node"]["compute-1"]["status"] = "disabled"
    (difference,) = compare(truth, model_of(held))
    assert (difference.kind, difference.entity_id, difference.field) == ("compute_node", "compute-1", "status")
    assert (difference.truth, difference.model) == (truth["compute_node"]["compute-1"]["status"], "disabled")


def test_ignored_fields_are_not_compared(truth: Truth) -> None:
    held: Any = copy.deepcopy(truth)
    held["compute_node"]["compute-1"]["status"] = "disabled"
    assert list(compare(truth, model_of(held), ignored=["status"])) == []
