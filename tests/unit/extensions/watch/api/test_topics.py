# SPDX-License-Identifier: Apache-2.0
"""Watch topics in the dialect of Axway's agents: paths, names and codes."""

from __future__ import annotations

import json

import pytest

from tests.unit.api.conftest import Client
from watcher_sync.assembly.api import make_application
from watcher_sync.exceptions import QuotaReached
from watcher_sync.extensions.watch.model.topics import parse
from watcher_sync.extensions.watch.topic_rows import WatchTopics

BASE = "/management/v1alpha1/watchtopics"
ALL = {"group": "*", "kind": "*"}

TOPIC = {
    "group": "management",
    "apiVersion": "v1alpha1",
    "kind": "WatchTopic",
    "name": "agents",
    "title": "For agents",
    "spec": {
        "description": "Pods of one cluster",
        "filters": [
            {
                "group": "kubernetes",
                "kind": "Pod",
                "name": "*",
                "scope": {"kind": "Cluster", "name": "edge"},
                "type": ["created", "updated"],
            }
        ],
    },
}
YAML = """
group: management
apiVersion: v1alpha1
kind: WatchTopic
name: agents
title: For agents
spec:
  description: Pods of one cluster
  filters:
    - {group: kubernetes, kind: Pod, name: "*", scope: {kind: Cluster, name: edge}, type: [created, updated]}
"""


@pytest.fixture
def client(conf, store):
    return Client(make_application(conf, store))


def post_yaml(client, text, media="application/yaml"):
    return client.simulate_post(BASE, body=text, headers={"Content-Type": media})


def without_metadata(document):
    return {name: document[name] for name in TOPIC}


def test_a_topic_is_created_shown_listed_and_deleted(client):
    made = client.simulate_post(BASE, json=TOPIC)
    assert made.status_code == 201
    assert made.headers["Location"] == f"{BASE}/agents"
    assert without_metadata(made.json) == TOPIC
    assert made.json["metadata"]["selfLink"] == f"{BASE}/agents"
    assert made.json["metadata"]["id"]
    assert client.simulate_get(f"{BASE}/agents").json == made.json
    assert client.simulate_get(BASE).json == [made.json]
    assert client.simulate_delete(f"{BASE}/agents").status_code == 204
    assert client.simulate_get(f"{BASE}/agents").status_code == 404
    assert client.simulate_delete(f"{BASE}/agents").status_code == 404
    assert client.simulate_get(BASE).json == []


@pytest.mark.parametrize("media", ["application/yaml", "application/x-yaml", "text/yaml"])
def test_a_topic_may_be_yaml(client, media):
    made = post_yaml(client, YAML, media)
    assert made.status_code == 201
    assert without_metadata(made.json) == TOPIC


@pytest.mark.slow
def test_a_topic_outlives_the_process(client, conf, store):
    client.simulate_post(BASE, json=TOPIC)
    (topic,) = WatchTopics(store.database, store.tables).page(version="v1alpha1").rows
    assert without_metadata(topic.document()) == TOPIC


@pytest.mark.parametrize(("version", "other"), [("v1", "v1alpha1"), ("v1alpha1", "v1")])
def test_a_topic_of_one_version_is_that_of_the_other_in_the_form_that_was_asked_for(client, version, other):
    base, twin = (f"/management/{each}/watchtopics" for each in (version, other))
    made = client.simulate_post(base, json=TOPIC | {"apiVersion": version})
    assert (made.status_code, made.headers["Location"]) == (201, f"{base}/agents")
    for at, each in ((base, version), (twin, other)):
        (listed,) = client.simulate_get(at).json
        shown = client.simulate_get(f"{at}/agents").json
        assert shown == listed
        assert (shown["apiVersion"], shown["metadata"]["selfLink"]) == (each, f"{at}/agents")
        assert shown["metadata"]["id"] == made.json["metadata"]["id"]
    assert client.simulate_post(twin, json=TOPIC).status_code == 409
    assert client.simulate_delete(f"{twin}/agents").status_code == 204
    assert client.simulate_get(f"{base}/agents").status_code == 404


def test_the_path_and_not_the_document_says_the_version_of_a_new_topic(client):
    made = client.simulate_post("/management/v1/watchtopics", json=TOPIC)
    assert (made.status_code, made.json["apiVersion"]) == (201, "v1")
    assert client.simulate_post("/management/v1/watchtopics", json=TOPIC | {"apiVersion": "v2"}).status_code == 400


@pytest.mark.parametrize("path", ["/management/v2/watchtopics", "/management/v2/watchtopics/agents"])
def test_a_version_that_the_dialect_does_not_have_does_not_exist(client, path):
    client.simulate_post(BASE, json=TOPIC)
    assert client.simulate_get(path).status_code == 404
    assert client.simulate_get(f"/events{path}").status_code == 404


def test_a_second_topic_of_the_name_is_a_conflict(client):
    assert client.simulate_post(BASE, json=TOPIC).status_code == 201
    again = client.simulate_post(BASE, json=TOPIC)
    assert again.status_code == 409
    assert again.headers["Content-Type"] == "application/problem+json"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pointer", "change"),
    [
        ("/kind", {"kind": "Topic"}),
        ("/name", {"name": "a/b"}),
        ("/spec/filters", {"spec": {"filters": []}}),
        ("/spec/filters/0/type/0", {"spec": {"filters": [{"group": "*", "kind": "*", "type": ["moved"]}]}}),
        ("/spec/filters/0/name", {"spec": {"filters": [{"group": "*", "kind": "*", "name": "a*"}]}}),
        ("/spec/filters/0/group", {"spec": {"filters": [{"group": "computer", "kind": "*"}]}}),
        ("/spec/filters/0/kind", {"spec": {"filters": [{"group": "compute", "kind": "instance"}]}}),
        ("/spec/filters/0/kind", {"spec": {"filters": [{"group": "compute", "kind": "Pod"}]}}),
        ("/spec/filters/0/scope/kind", {"spec": {"filters": [{**ALL, "scope": {"kind": "Host"}}]}}),
    ],
)
def test_a_wrong_topic_is_refused_in_both_forms_with_the_path_of_what_is_wrong(client, pointer, change):
    document = TOPIC | change
    for result in (client.simulate_post(BASE, json=document), post_yaml(client, json.dumps(document))):
        assert result.status_code == 400
        assert [error["pointer"] for error in result.json["errors"]] == [pointer]


def test_a_topic_may_name_what_does_not_exist_beside_what_does(client):
    filters = [{"group": "management", "kind": "APIService"}, ALL]
    assert client.simulate_post(BASE, json={**TOPIC, "spec": {"filters": filters}}).status_code == 201


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    ["{", "- a", "", "a: &x [*x]", "!!python/object/apply:os.system ['true']", "[" * 5000, "\x00", "a: 1\n" * 20_000],
)
def test_yaml_that_is_no_topic_is_refused(client, text):
    result = post_yaml(client, text)
    assert result.status_code == 400
    assert result.json["errors"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "value", ["!!bool foo", "!!int ''", "!!float ''", "!!timestamp foo", "!!float x", "{? {a: 1} : x}", "1" * 9000]
)
def test_yaml_with_a_value_that_has_no_meaning_is_refused(client, value):
    result = post_yaml(client, f"name: {value}\n")
    assert result.status_code == 400
    assert result.json["errors"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_yaml_with_an_alias_is_refused_before_it_grows(client, encoding):
    lines = ["a0: &a0 {x: 1}", *(f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 10)}]}}" for n in range(1, 4))]
    result = post_yaml(client, "\n".join(lines).encode(encoding))
    assert result.status_code == 400
    assert result.json["errors"][0]["detail"] == "YAML with aliases is refused, in line 2"


@pytest.mark.parametrize("text", ["[" * 5000, "[" * 5000 + "*a", "{a: " * 4000, "- " * 8000, "? " * 8000])
def test_deep_yaml_is_refused_before_it_is_composed(client, text):
    result = post_yaml(client, text)
    assert result.status_code == 400
    assert result.json["errors"][0]["detail"] == "YAML may be nested 16 levels deep, and is deeper in line 1"


def test_another_media_type_is_refused(client):
    assert post_yaml(client, YAML, "text/plain").status_code == 415


def test_a_list_is_paged_as_in_the_dialect(client):
    for number in range(5):
        assert client.simulate_post(BASE, json=TOPIC | {"name": f"t{number}"}).status_code == 201
    pages = [client.simulate_get(BASE, params={"page": page, "pageSize": 2}).json for page in (1, 2, 3, 4)]
    assert [[topic["name"] for topic in page] for page in pages] == [["t0", "t1"], ["t2", "t3"], ["t4"], []]
    assert client.simulate_get(BASE, params={"page": 0}).status_code == 400


def test_a_project_has_as_many_topics_as_its_quota(store):
    rows = WatchTopics(store.database, store.tables)
    rows.create(parse(TOPIC, "1", project_id="p1"), quota=1)
    with pytest.raises(QuotaReached, match="1 watch topics"):
        rows.create(parse(TOPIC | {"name": "b"}, "2", project_id="p1"), quota=1)
    rows.create(parse(TOPIC | {"name": "b"}, "2", project_id="p2"), quota=1)
