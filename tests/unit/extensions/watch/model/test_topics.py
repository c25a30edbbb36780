# SPDX-License-Identifier: Apache-2.0
"""The JSON form of a watch topic, and the errors that name what is wrong in it."""

from __future__ import annotations

import copy
import datetime

import pytest

from watcher_sync.extensions.watch.model.topics import InvalidTopic, parse
from watcher_sync.extensions.watch.wire.topic_links import parts_of

TOPIC = {
    "group": "management",
    "apiVersion": "v1alpha1",
    "kind": "WatchTopic",
    "name": "agents",
    "title": "For agents",
    "spec": {
        "description": "Everything in one cluster",
        "filters": [
            {
                "group": "kubernetes",
                "kind": "Pod",
                "name": "*",
                "scope": {"kind": "Cluster", "name": "edge"},
                "type": ["created", "updated", "deleted"],
            }
        ],
    },
}
NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def changed(pointer, value):
    """The topic with one member set; ``...`` removes it."""
    document = copy.deepcopy(TOPIC)
    *way, last = pointer.strip("/").split("/")
    at = document
    for step in way:
        at = at[int(step)] if step.isdecimal() else at[step]
    last = int(last) if isinstance(at, list) else last
    if value is ...:
        del at[last]
    else:
        at[last] = value
    return document


def test_a_topic_is_read_and_written_without_a_difference():
    document = parse(TOPIC, "t1").document()
    assert document.pop("metadata") == {
        "id": "t1",
        "scope": {"id": "", "kind": "", "name": "", "selfLink": ""},
        "selfLink": "/management/v1alpha1/watchtopics/agents",
        "references": [],
        "audit": {},
    }
    assert document == TOPIC | {"attributes": {}, "tags": []}


def test_the_time_and_the_project_come_from_the_server():
    topic = parse(TOPIC, "t1", project_id="p1", created_at=NOON)
    assert topic.project_id == "p1"
    assert topic.document()["metadata"]["audit"] == dict.fromkeys(
        ("createTimestamp", "modifyTimestamp"), "2026-01-01T12:00:00.000+00:00"
    )


def test_what_a_filter_leaves_out_matches_everything():
    topic = parse({"name": "all", "spec": {"filters": [{"group": "*", "kind": "*"}]}}, "t1")
    assert topic.spec()["filters"] == [
        {
            "group": "*",
            "kind": "*",
            "name": "*",
            "scope": {"kind": "*", "name": "*"},
            "type": ["created", "updated", "deleted"],
        }
    ]


def test_members_that_a_client_copies_from_an_answer_are_ignored():
    assert parse(TOPIC | {"metadata": {"id": "x"}, "tags": [], "attributes": {}}, "t1").id == "t1"


@pytest.mark.parametrize(
    ("pointer", "value"),
    [
        ("/group", "catalog"),
        ("/apiVersion", "v2"),
        ("/kind", "Topic"),
        ("/name", ...),
        ("/name", ""),
        ("/name", "a/b"),
        ("/name", ".."),
        ("/name", "x" * 256),
        ("/name", 1),
        ("/title", None),
        ("/color", "red"),
        ("/spec", ...),
        ("/spec", []),
        ("/spec/more", 1),
        ("/spec/description", "x" * 4_097),
        ("/spec/filters", ...),
        ("/spec/filters", []),
        ("/spec/filters", {}),
        ("/spec/filters", [{"group": "*", "kind": "*"}] * 257),
        ("/spec/filters/0", "all"),
        ("/spec/filters/0/group", ...),
        ("/spec/filters/0/kind", ""),
        ("/spec/filters/0/kind", "Po*"),
        ("/spec/filters/0/name", "a\0"),
        ("/title", "a\ud800"),
        ("/spec/filters/0/scope", "Cluster"),
        ("/spec/filters/0/scope/id", "edge"),
        ("/spec/filters/0/scope/name", 7),
        ("/spec/filters/0/type", []),
        ("/spec/filters/0/type", "created"),
        ("/spec/filters/0/type/1", "renamed"),
        ("/spec/filters/0/type/1", ["created"]),
    ],
)
def test_an_error_names_the_path_of_what_is_wrong(pointer, value):
    with pytest.raises(InvalidTopic) as raised:
        parse(changed(pointer, value), "t1")
    assert raised.value.pointer == pointer


def test_a_document_that_is_no_object_is_refused():
    with pytest.raises(InvalidTopic, match="the document"):
        parse(["topic"], "t1")


def test_a_name_of_a_member_that_is_no_text_is_refused():
    """YAML has such names; this number is too long to be written."""
    with pytest.raises(InvalidTopic, match="it is unknown"):
        parse(TOPIC | {16**5_000: 1}, "t1")


def test_equal_filters_count_once():
    filters = TOPIC["spec"]["filters"]
    assert len(parse(TOPIC | {"spec": {"filters": filters * 2}}, "t1").filters) == 1


@pytest.mark.parametrize(
    ("self_link", "parts"),
    [
        ("/management/v1/watchtopics/agents", ("v1", "agents")),
        ("/management/v1alpha1/watchtopics/agents", ("v1alpha1", "agents")),
        ("/management/v2/watchtopics/agents", None),
        ("/management/v1alpha1/watchtopics/a/b", None),
        ("/management/v1alpha1/watchtopics", None),
        ("/catalog/v1alpha1/watchtopics/agents", None),
        ("agents", None),
    ],
)
def test_the_version_and_the_name_of_a_topic_are_read_from_its_link(self_link, parts):
    assert parts_of(self_link) == parts
