# SPDX-License-Identifier: Apache-2.0
"""What the objects of a kind that the option ``kinds`` names become in the model."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from tests.unit.extensions.kubernetes.handler.test_handler import Player, Story, owned_by
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Outcome
from watcher_sync.wire.envelopes import read_body


@pytest.fixture
def player() -> Player:
    return Player()


@pytest.fixture
def story() -> Story:
    return Story()


def whole(**metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "a.example/v1",
        "kind": "Thing",
        "metadata": {
            "name": "one",
            "namespace": "vnf-a",
            "labels": {"app": "x"},
            "creationTimestamp": "2026-01-02T03:04:05Z",
            "resourceVersion": "77",
            **owned_by(("VirtualMachine", "vm")),
            **metadata,
        },
        "spec": {"size": {"cpu": 4}},
        "status": {"phase": "Running"},
    }


def test_a_custom_object_is_in_the_model_with_the_values_at_its_paths(player: Player, story: Story) -> None:
    (document,) = player.play(story.thing("t", "added", **whole())).dump("custom_object")
    assert document == {
        "id": "t",
        "api_group": "a.example",
        "kind": "Thing",
        "name": "one",
        "namespace": "vnf-a",
        "cluster": "edge",
        "project_id": "project-a",
        "state": "Running",
        "owner_uid": "vm",
        "owner_kind": "VirtualMachine",
        "properties": {"size": {"cpu": 4}},
        "labels": {"app": "x"},
        "created_at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
        "resource_version": "77",
    }
    assert player.model.snapshot().ids("workload") == []


def test_an_owner_and_a_scope_may_be_anywhere_in_the_object(player: Player, story: Story) -> None:
    spec = {"owner": "another", "tenant": "vnf-a"}
    metadata = owned_by(("VirtualMachine", "vm"))
    (found,) = player.play(story.thing("t", group="b.example", metadata=metadata, spec=spec)).all("custom_object")
    assert (found.owner_uid, found.owner_kind, found.project_id) == ("another", None, "project-a")
    (found,) = player.play(story.thing("t", group="b.example", metadata={"namespace": "vnf-a"})).all("custom_object")
    assert (found.owner_uid, found.project_id, found.namespace) == (None, None, "vnf-a")


@pytest.mark.parametrize("status", [None, 7, "Running", [], {}, {"phase": None}, {"phase": {}}, {"phase": "x" * 300}])
def test_an_object_with_an_odd_field_is_in_the_model_without_it(player: Player, story: Story, status: Any) -> None:
    (found,) = player.play(story.thing("t", status=status, spec={"size": 3})).all("custom_object")
    assert (found.name, found.state, found.properties) == ("t", None, {"size": 3})


def test_the_same_kind_of_another_group_and_of_another_cluster_are_others(player: Player, story: Story) -> None:
    snapshot = player.play(
        story.thing("a"),
        story.thing("b", group="b.example"),
        story.thing("c", group="c.example"),
        story.tell("thing.a.example", "added", {"metadata": {"uid": "d", "name": "d"}}, origin="other"),
    )
    assert {each.id: each.api_group for each in snapshot.all("custom_object")} == {"a": "a.example", "b": "b.example"}
    assert {each.id: each.kind for each in snapshot.all("workload")} == {"c": "thing", "d": "thing"}


def test_a_foreign_kind_of_the_name_of_a_workload_is_none(player: Player, story: Story) -> None:
    player.play(story.tell("deployment", "added", {"metadata": {"uid": "d", "name": "d"}}))
    listed = {"kind": "Deployment", "namespace": None, "uids": []}
    assert player.play(story.tell("deployment.kruise.io", "listed", listed)).ids("workload") == ["d"]


def test_a_listing_deletes_custom_objects_of_its_kind_and_scope_only(player: Player, story: Story) -> None:
    snapshot = player.play(
        story.thing("stays", metadata={"namespace": "a"}),
        story.thing("goes", metadata={"namespace": "a"}),
        story.thing("elsewhere", metadata={"namespace": "b"}),
        story.thing("other", group="b.example", metadata={"namespace": "a"}),
        story.replica_set("rs", None),
        story.tell("thing.a.example", "listed", {"kind": "Thing", "namespace": "a", "uids": ["stays"]}),
    )
    assert snapshot.ids("custom_object") == ["elsewhere", "other", "stays"]
    assert snapshot.ids("workload") == ["rs"]


@pytest.mark.parametrize("gone", ["deleted", "absent"])
def test_an_object_that_a_later_event_shows_alive_is_alive(player: Player, story: Story, gone: str) -> None:
    early, first, deletion = story.thing("t"), story.thing("t"), story.thing("t", gone)
    assert player.play(first, deletion, early).ids("custom_object") == []
    assert player.play(story.thing("t")).ids("custom_object") == ["t"]


def test_an_object_that_is_listed_again_is_a_duplicate(player: Player) -> None:
    first, again = Story(1), Story(2)
    player.play(first.thing("t", "added", **whole()))
    player.play(again.thing("t", "added", **whole()))
    assert player.outcomes == [Outcome.APPLIED, Outcome.DUPLICATE]


@pytest.mark.parametrize("what", ["added", "deleted", "absent"])
def test_a_uid_of_another_cluster_is_refused(player: Player, story: Story, what: str) -> None:
    player.play(story.thing("t"))
    data = {"metadata": {"uid": "t", "name": "t"}}
    with pytest.raises(InvalidEvent, match=r"metadata\.uid: belongs to an object of the cluster edge$"):
        player.play(story.tell("thing.a.example", what, data, origin="far"))


def test_a_recorded_watch_of_the_kind_makes_custom_objects(player: Player) -> None:
    obj = whole(uid="u", resourceVersion="5")
    body = json.dumps({"type": "ADDED", "object": obj}).encode()
    event = read_body(body, source="edge", number=1)
    assert event.type == "kubernetes.thing.a.example.added"
    assert player.play(event).ids("custom_object") == ["u"]
