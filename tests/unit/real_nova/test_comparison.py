# SPDX-License-Identifier: Apache-2.0
"""The comparison with a real Nova can fail: a difference is excused by a fact, or it is a defect."""

from __future__ import annotations

from typing import Any

import pytest

from tests.real_nova.facts import FACTS, Heard, explain, label
from tests.real_nova.story import STEPS
from tests.real_nova.table import Table
from tests.real_nova.truth import differences
from watcher_sync.testing.comparison import ModelDifference
from watcher_sync.testing.kinds import builtin_kinds

HEARD = Heard(
    servers={"elder"},
    aggregates=set(),
    services={"compute-1"},
    rolled_back={"shop"},
    failed_builds=set(),
    unscheduled=set(),
    broken={"stuck"},
)


def _world(**instances: dict[str, Any]) -> dict[str, dict[str, dict[str, Any]]]:
    return {"aggregate": {}, "compute_node": {}, "instance": instances}


def test_a_field_that_differs_is_found_and_a_field_that_no_api_shows_is_not_compared() -> None:
    truth = _world(web={"state": "active", "locked": False})
    model = _world(web={"state": "active", "locked": True, "last_heard": "now"})
    assert list(differences(truth, model)) == [ModelDifference("instance", "web", "locked", False, True)]


def test_a_server_that_is_missing_and_one_that_nova_does_not_have_are_found() -> None:
    found = list(differences(_world(web={"state": "active"}), _world(shop={"state": "active"})))
    assert [(d.entity_id, d.field, d.model is None) for d in found] == [("shop", None, False), ("web", None, True)]


@pytest.mark.parametrize(
    "difference",
    [
        ModelDifference("instance", "web", "host", "compute-1", "compute-2"),
        ModelDifference("instance", "web", None, {}, None),
        ModelDifference("instance", "web", "availability_zone", "east", "nova"),
        ModelDifference("instance", "elder", None, None, {}),
        ModelDifference("compute_node", "compute-1", "status", "enabled", "disabled"),
        ModelDifference("compute_node", "compute-1", "uuid", "a", "b"),
    ],
    ids=str,
)
def test_a_difference_that_notifications_could_have_avoided_has_no_excuse(difference: ModelDifference) -> None:
    assert explain(difference, HEARD) is None


@pytest.mark.parametrize(
    "difference",
    [
        ModelDifference("instance", "elder", None, {}, None),
        ModelDifference("instance", "web", "updated_at", 2, 1),
        ModelDifference("compute_node", "compute-2", "status", "enabled", None),
        ModelDifference("compute_node", "compute-1", "vcpus", 8, None),
        ModelDifference("instance", "shop", "availability_zone", "east", "nova"),
    ],
    ids=str,
)
def test_a_fact_that_nova_publishes_nowhere_is_an_excuse(difference: ModelDifference) -> None:
    assert explain(difference, HEARD) is not None


def test_the_facts_name_fields_that_the_model_has() -> None:
    kinds = builtin_kinds()
    for fact in FACTS:
        assert set(fact.fields) <= set(kinds[fact.kind].fields), fact.name


def test_the_table_has_a_line_for_each_step_and_counts_equal_names() -> None:
    table = Table(["both", "notifications"])
    table.add("boot", {"notifications": ["updated_at", "fault", "updated_at"], "both": []})
    assert list(table.lines()) == ["step | both | notifications", "boot | -    | fault, updated_at x2"]


def test_a_name_is_excused_only_where_nova_publishes_no_instance_update() -> None:
    renamed = ModelDifference("instance", "web", "name", "new", "old")
    assert explain(renamed, HEARD) is None
    assert explain(renamed, HEARD, by_default=True) is not None


def test_a_missing_server_is_excused_only_while_it_is_built_and_without_instance_update() -> None:
    missing = ModelDifference("instance", "web", None, {"state": "building"}, None)
    assert explain(missing, HEARD) is None
    assert explain(missing, HEARD, by_default=True) is not None
    assert explain(missing._replace(truth={"state": "active"}), HEARD, by_default=True) is None


def test_a_host_is_excused_only_after_a_failure_without_a_server_and_without_instance_update() -> None:
    moved = ModelDifference("instance", "stuck", "host", "compute-1", "compute-2")
    assert explain(moved, HEARD) is None
    assert explain(moved, HEARD, by_default=True) is not None
    assert explain(moved._replace(entity_id="web"), HEARD, by_default=True) is None


def test_a_difference_without_a_fact_is_named_by_its_field_or_as_a_whole() -> None:
    moved = ModelDifference("instance", "web", "host", "compute-1", "compute-2")
    assert label(moved, None) == "instance.host"
    assert label(moved._replace(field=None, model=None), None) == "instance missing"
    assert label(moved._replace(field=None, truth=None), None) == "instance not in Nova"


def test_each_step_of_the_story_has_a_name_of_its_own() -> None:
    names = [name for name, _ in STEPS]
    assert len(set(names)) == len(names)
