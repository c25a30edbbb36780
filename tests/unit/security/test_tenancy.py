# SPDX-License-Identifier: Apache-2.0
"""A project sees, writes and locks its own entities. Those of others do not exist for it, and it learns of no host."""

from __future__ import annotations

import json

import pytest
from keystonemiddleware.fixture import AuthTokenFixture
from oslo_policy import policy

from tests.unit.api.conftest import conf, problem, store  # noqa: F401 - fixtures
from tests.unit.extensions.vnf.api.test_instances import DEMO, demo, written
from tests.unit.security.callers import NODE, OTHER, OWN, POD, SERVER, STI, Api
from watcher_sync.api.edge.feed import Feed
from watcher_sync.model.changes import Delete, Upsert

pytestmark = pytest.mark.slow

VNFS, STIS = "/v1/vnf_instances", "/v1/service_type_instances"
NOTHING = "does-not-exist"
WRITABLE = {VNFS: DEMO, STIS: STI}
THEIRS = {VNFS: demo(namespace="theirs"), STIS: STI}
"""What the stranger may write: a VNF instance in a namespace of its project."""


@pytest.fixture
def api(conf, store):  # noqa: F811
    with AuthTokenFixture() as fixture:
        api = Api(conf, store, fixture)
        api.fill()
        yield api


@pytest.fixture
def with_policy(conf, store, tmp_path):  # noqa: F811
    """Makes an API whose policy file has these rules."""
    with AuthTokenFixture() as fixture:

        def make(rules):
            file = tmp_path / "policy.yaml"
            file.write_text(json.dumps(rules))
            policy.Enforcer(conf)  # registers the options
            conf.set_override("policy_file", str(file), group="oslo_policy")
            api = Api(conf, store, fixture)
            api.fill()
            return api

        yield make


def answered(result, entity_id):
    """The status and the document of an answer, without the ids of the entity and the request."""
    text = result.text.replace(entity_id, "ID")
    return result.status_code, text.replace(result.headers["X-OpenStack-Request-ID"], "REQUEST")


# What belongs to another project does not exist


@pytest.mark.parametrize("path", WRITABLE)
def test_anothers_entity_is_404_before_every_condition(api, path):
    entity_id = api.made(path.rpartition("/")[2])
    absent = answered(api("stranger", "GET", f"{path}/{NOTHING}"), NOTHING)
    for method in ("GET", "PUT", "DELETE"):
        body = {"json": WRITABLE[path]} if method == "PUT" else {}
        for headers in ({}, {"If-Match": '"1"'}, {"If-None-Match": "*"}, {"Operation-Token": "1"}):
            result = api("stranger", method, f"{path}/{entity_id}", headers=headers, **body)
            assert answered(result, entity_id) == absent, (method, headers)
            assert "ETag" not in result.headers
    assert api("member", "GET", f"{path}/{entity_id}").json["project_id"] == OWN


def test_an_operation_on_anothers_instance_is_404_and_tells_no_holder(api):
    entity_id = api.made("vnf_instances")
    operation, secret = api.operation(entity_id)
    at = f"{VNFS}/{entity_id}"
    absent = answered(api("stranger", "GET", f"{VNFS}/{NOTHING}/operations"), NOTHING)
    begin = {"json": {"operation": "SCALE", "holder": "me"}}
    assert answered(api("stranger", "POST", f"{at}/operations", **begin), entity_id) == absent
    assert answered(api("stranger", "GET", f"{at}/operations"), entity_id) == absent
    for method in ("GET", "PUT", "DELETE"):
        for headers in ({}, secret):
            result = api("stranger", method, f"{at}/operations/{operation}", headers=headers)
            assert answered(result, entity_id) == absent
    assert answered(api("stranger", "POST", f"{at}/sync"), entity_id) == absent
    assert answered(api("stranger", "POST", f"{at}/sync", params={"dry_run": "true"}), entity_id) == absent
    assert answered(api("stranger", "PUT", at, json=DEMO), entity_id) == absent
    assert answered(api("stranger", "DELETE", at), entity_id) == absent
    assert api("member", "POST", f"{at}/operations", **begin).status_code == 409
    assert api("member", "GET", f"{at}/operations/{operation}").json["state"] == "RUNNING"


def test_the_operations_of_a_deleted_instance_stay_with_its_project(api):
    entity_id = api.made("vnf_instances")
    operation, secret = api.operation(entity_id)
    path = f"{VNFS}/{entity_id}/operations"
    assert api("admin", "DELETE", f"{path}/{operation}", headers=secret).status_code == 204
    assert api("admin", "DELETE", f"{VNFS}/{entity_id}").status_code == 204
    assert api("member", "GET", path).json["operations"]
    for at in (path, f"{path}/{operation}"):
        assert api("stranger", "GET", at).status_code == 404


@pytest.mark.parametrize("path", WRITABLE)
def test_a_new_entity_with_anothers_id_is_404_and_never_409(api, path):
    entity_id = api.made(path.rpartition("/")[2], id="taken")
    body = {**WRITABLE[path], "id": entity_id}
    theirs = {**THEIRS[path], "id": entity_id}
    refused = api("stranger", "POST", path, json=theirs)
    assert answered(refused, entity_id) == answered(api("stranger", "GET", f"{path}/{NOTHING}"), NOTHING)
    assert api("member", "POST", path, json=body).status_code == 409
    assert api("member", "DELETE", f"{path}/{entity_id}").status_code == 204
    assert api("stranger", "POST", path, json=theirs).status_code == 404
    assert api("stranger", "PUT", f"{path}/{entity_id}", json=THEIRS[path]).status_code == 404
    assert api("member", "POST", path, json=body).status_code == 409
    assert api("member", "PUT", f"{path}/{entity_id}", json=WRITABLE[path]).status_code == 409


@pytest.mark.parametrize("path", WRITABLE)
def test_an_id_of_a_deleted_entity_without_a_known_owner_is_404(api, path):
    body = {**WRITABLE[path], "id": api.made(path.rpartition("/")[2], id="gone")}
    assert api("admin", "DELETE", f"{path}/gone").status_code == 204
    with api.store.database.begin() as connection:
        connection.execute(api.store.tables.journal.delete())
    for caller, own in (("member", WRITABLE[path]), ("stranger", THEIRS[path])):
        assert api(caller, "POST", path, json={**own, "id": "gone"}).status_code == 404
        assert api(caller, "PUT", f"{path}/gone", json=own).status_code == 404
    assert api("admin", "POST", path, json=body).status_code == 409


@pytest.mark.parametrize("path", WRITABLE)
def test_an_entity_without_a_project_is_for_administrators(api, path):
    made = api("system_admin", "POST", path, json=WRITABLE[path])
    assert made.json["project_id"] is None
    at = f"{path}/{made.json['id']}"
    for caller in ("reader", "member", "stranger"):
        assert api(caller, "GET", at).status_code == 404
        assert made.json["id"] not in api(caller, "GET", path).text
    assert api("member", "PUT", at, json=WRITABLE[path]).status_code == 404
    assert api("system_reader", "GET", at).status_code == 200


# Who gives an entity to a project


@pytest.mark.parametrize("path", WRITABLE)
def test_the_project_is_the_tokens_and_only_an_administrator_names_another_one(api, path):
    body = WRITABLE[path]
    assert api("member", "POST", path, json=body).json["project_id"] == OWN
    assert api("stranger", "PUT", f"{path}/new", json=THEIRS[path]).json["project_id"] == OTHER
    assert api("member", "POST", path, json={**body, "project_id": OWN}).status_code == 201
    for project in (OTHER, None):
        assert api("member", "POST", path, json={**body, "project_id": project}).status_code == 403
    assert api("admin", "POST", path, json={**body, "project_id": OTHER}).json["project_id"] == OTHER
    assert api("system_admin", "POST", path, json={**body, "project_id": OTHER}).json["project_id"] == OTHER


@pytest.mark.parametrize("path", WRITABLE)
def test_a_replacement_leaves_the_project_unless_an_administrator_names_another(api, path):
    at, body = f"{path}/{api.made(path.rpartition('/')[2])}", WRITABLE[path]
    assert api("system_admin", "PUT", at, json=body).json["project_id"] == OWN
    assert api("member", "PUT", at, json={**body, "project_id": OTHER}).status_code == 403
    assert api("member", "PUT", at, json=body).json["project_id"] == OWN
    assert api("system_admin", "PUT", at, json={**body, "project_id": OTHER}).json["project_id"] == OTHER
    assert api("member", "GET", at).status_code == 404
    assert api("stranger", "GET", at).status_code == 200


def test_what_a_project_did_before_it_gave_an_entity_away_stays_with_it(api):
    entity_id = api.made("service_type_instances", spec={"secret": 1})
    at = f"{STIS}/{entity_id}"
    assert api("admin", "PUT", at, json={**STI, "spec": {"secret": 2}}).status_code == 200
    assert api("admin", "PUT", at, json={**STI, "spec": {"open": 3}, "project_id": OTHER}).status_code == 200
    text = api("stranger", "GET", f"{at}/history").text
    assert "open" in text
    assert "secret" not in text
    assert OWN not in text
    text = api("stranger", "GET", "/v1/events", params={"since": 0}).text
    assert "open" in text
    assert "secret" not in text
    assert OWN not in text
    assert "secret" in api("admin", "GET", f"{at}/history").text
    assert "secret" in api("member", "GET", "/v1/events", params={"since": 0}).text


# Lists, changes and drifts


def test_a_list_has_the_own_entities_and_all_of_them_only_if_the_policy_allows_it(api):
    mine = api.made("vnf_instances")
    theirs = api.made("vnf_instances", project_id=OTHER)

    def listed(caller, **params):
        result = api(caller, "GET", VNFS, params=params)
        return result.status_code, {e["id"] for e in result.json.get("vnf_instances", ())}

    assert listed("reader") == (200, {mine})
    assert listed("stranger") == (200, {theirs})
    assert listed("admin") == listed("system_reader") == (200, {mine, theirs})
    assert listed("admin", all_projects="true") == (200, {mine, theirs})
    assert listed("admin", all_projects="false") == (200, {mine})
    assert listed("system_reader", all_projects="false") == (200, set())
    assert listed("reader", all_projects="true") == (403, set())
    assert listed("reader", all_projects="false") == (200, {mine})
    assert listed("reader", project_id=OTHER) == (403, set())


def test_a_marker_of_another_project_is_as_unknown_as_that_of_nothing(api):
    mine, theirs = api.made("vnf_instances"), api.made("vnf_instances", project_id=OTHER)

    def listed(caller, marker):
        return answered(api(caller, "GET", VNFS, params={"marker": marker}), marker)

    assert listed("reader", mine)[0] == listed("admin", theirs)[0] == 200
    assert listed("reader", theirs) == listed("reader", NOTHING)
    assert listed("reader", NOTHING)[0] == 404


def test_changes_are_those_of_the_own_project_even_after_a_deletion(api):
    mine, theirs = api.made("vnf_instances"), api.made("vnf_instances", project_id=OTHER)
    assert api("admin", "DELETE", f"{VNFS}/{mine}").status_code == 204
    for params in ({"since": 0}, {}, {"since": 0, "wait": 1}):
        page = api("reader", "GET", "/v1/events", params=params).json
        assert {e["id"] for e in page["events"]} == {mine, SERVER, POD, "workload", "object"}
        assert {e["project_id"] for e in page["events"]} == {OWN}
        assert page["next_since"] == page["head"]
        assert page["events"][-1]["change"] == "deleted"
        assert {e["id"] for e in api("stranger", "GET", "/v1/events", params=params).json["events"]} == {theirs}
    everything = {e["kind"] for e in api("system_reader", "GET", "/v1/events", params={"since": 0}).json["events"]}
    assert {"compute_node", "aggregate", "provider", "cluster", "instance"} <= everything
    assert api("reader", "GET", "/v1/events", params={"kind": "compute_node"}).status_code == 403
    assert api("reader", "GET", "/v1/events", params={"all_projects": "true"}).status_code == 403
    assert api("stranger", "GET", "/v1/events", params={"since": 0, "id": SERVER}).json["events"] == []


def test_the_last_changes_of_a_project_are_found_behind_those_of_others(api):
    mine = api.made("service_type_instances")
    for _ in range(5):
        api.made("service_type_instances", project_id=OTHER)
    page = api("reader", "GET", "/v1/events", params={"limit": 1}).json
    assert [e["id"] for e in page["events"]] == [mine]


def test_a_stream_has_the_own_changes_alone(conf, api, monkeypatch):  # noqa: F811
    conf.set_override("stream_max_age", 1.0, group="api")
    wait = Feed.wait  # the first one brings everything, however late the thread of the feed begins
    monkeypatch.setattr(Feed, "wait", lambda feed, seq, seconds, *more: wait(feed, seq, seconds if seq else 60, *more))
    mine, theirs = api.made("vnf_instances"), api.made("vnf_instances", project_id=OTHER)
    text = api("reader", "GET", "/v1/events", params={"since": 0}, headers={"Accept": "text/event-stream"}).text
    assert mine in text
    assert SERVER in text
    for hidden in (theirs, NODE, "compute_node"):
        assert hidden not in text


def test_drifts_are_those_of_the_own_entities_without_hosts(api):
    def found(caller, **params):
        drifts = api(caller, "GET", "/v1/drifts", params=params).json["drifts"]
        return [(d["kind"], d["field"]) for d in drifts]

    everything = [("instance", "state"), ("instance", "host"), ("compute_node", "state")]
    assert sorted(found("admin")) == sorted(found("system_reader")) == sorted(everything)
    assert found("reader") == [("instance", "state")]
    assert found("stranger") == []
    assert sorted(found("admin", all_projects="false")) == [("instance", "host"), ("instance", "state")]
    assert api("reader", "GET", "/v1/drifts", params={"all_projects": "true"}).status_code == 403


# Hosts


def test_a_project_learns_no_host_of_its_servers_and_pods(api):
    moved = {"placement": {"host": "compute-2", "node": "compute-2.example"}}
    written(api.cycle, Upsert("instance", SERVER, "2", moved))
    written(api.cycle, Upsert("instance", SERVER, "3", {"fault": {"fault_message": "no space on compute-2"}}))
    written(api.cycle, Delete("pod", POD, "2"))
    paths = (
        "/v1/instances", f"/v1/instances/{SERVER}", f"/v1/instances/{SERVER}/history", "/v1/pods",
        f"/v1/pods/{POD}/history", "/v1/events", "/v1/events?since=0", "/v1/drifts",
    )  # fmt: skip
    for path in paths:
        path, _, query = path.partition("?")
        assert "compute-" not in api("member", "GET", path, query_string=query).text, path
        assert "compute-" in api("system_reader", "GET", path, query_string=query).text or path == "/v1/pods", path
    entity = api("member", "GET", f"/v1/instances/{SERVER}").json
    assert {"host", "node", "fault_message"}.isdisjoint(entity)
    assert entity["state"] == "active"
    history = api("member", "GET", f"/v1/instances/{SERVER}/history").json["history"]
    assert len(history) == 1, "a change of hidden fields alone is not shown"


@pytest.mark.parametrize("query", ["host=compute-1", "sort=host", "sort=-host", "fields=id,host"])
def test_choosing_filtering_or_sorting_by_a_hidden_field_is_403(api, problem, query):  # noqa: F811
    found = problem(api("member", "GET", "/v1/instances", query_string=query), 403)
    assert "field host" in found["detail"]
    assert api("system_reader", "GET", "/v1/instances", query_string=query).status_code == 200
    assert api("member", "GET", f"/v1/instances/{SERVER}", query_string="fields=node").status_code == 403


def test_the_node_of_a_vnfs_pods_is_hidden_wherever_the_instance_is_shown(api):
    entity_id = api.made("vnf_instances")
    pod = {"uid": "u", "node": NODE, "place": NODE, "flags": []}
    entry = {"id": "v", "vduId": "VDU1", "computeResource": {"resourceId": "pod-1"}, "pod": pod}
    observed = {"vnfc_resource_info": [entry], "vacant": [entry]}
    api.cycle.follow()
    written(api.cycle, Upsert("vnf_instance", entity_id, "1", {"observed": observed}))
    shown = [
        api("member", "GET", VNFS),
        api("member", "GET", f"{VNFS}/{entity_id}"),
        api("member", "GET", f"{VNFS}/{entity_id}/history"),
        api("member", "GET", "/v1/events", params={"since": 0}),
        api("member", "PUT", f"{VNFS}/{entity_id}", json={**DEMO, "name": "new"}),
    ]
    assert [result.status_code for result in shown] == [200] * 5
    for result in shown:
        assert NODE not in result.text
        assert "pod-1" in result.text
        assert '"flags":[]' in result.text
    assert NODE in api("admin", "GET", f"{VNFS}/{entity_id}").text


def test_the_document_says_which_fields_are_hidden(api):
    document = api("nobody", "GET", "/openapi.json").json
    answer = document["paths"]["/v1/instances/{entity_id}"]["get"]["responses"]["200"]["content"]["application/json"]
    fields = answer["schema"]["properties"]
    assert {name for name, schema in fields.items() if "x-admin-only" in schema} == {
        "host",
        "node",
        "source_host",
        "fault_message",
    }


# The policy


def test_a_topology_that_the_policy_opens_counts_only_the_members_of_the_own_project(with_policy):
    api = with_policy({"topology:show": "role:reader"})
    facets = {"state": {}, "details": {"project_id": OTHER}, "placement": {"host": NODE}}
    written(api.cycle, Upsert("instance", "other", "1", facets))

    def counted(caller):
        hosts, clusters = api(caller, "GET", "/v1/topology").json["groups"]
        return [sum(g["members"][kind].values()) for g, kind in ((hosts, "instance"), (clusters, "pod"))]

    assert counted("admin") == [2, 1]
    assert counted("reader") == [1, 1]
    assert counted("stranger") == [1, 0]


def event(type_="dcm.status.vm", **more):
    return {
        "specversion": "1.0", "id": "1", "source": "dcm/providers/p", "type": type_, "subject": "dcm.vm",
        "time": "2026-07-01T12:00:00Z", "data": {"id": "i", "status": "RUNNING"}, **more,
    }  # fmt: skip


def bring(api, caller, *events):
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    return api(caller, "POST", "/v1/events", body=json.dumps(events), headers=headers)


def test_each_dialect_has_a_rule_and_one_refused_event_refuses_the_request(with_policy, problem):  # noqa: F811
    api = with_policy({"events:create:nova": "role:admin", "events:create:kubernetes": "!"})
    head = api("admin", "GET", "/v1/events").json["head"]
    assert bring(api, "service", event()).json["events"][0]["outcome"] == "parked"
    found = problem(bring(api, "service", event(id="2"), event("instance.create.end", id="3")), 403)
    assert "events:create:nova" in found["detail"]
    problem(bring(api, "service", event("nobody.declares.this", id="4")), 403)
    assert bring(api, "admin", event("nobody.declares.this", id="5")).json["events"][0]["outcome"] == "ignored"
    problem(bring(api, "admin", event("kubernetes.pod.added", id="6")), 403)
    assert api("admin", "GET", "/v1/events").json["head"] == head
    assert bring(api, "member", event()).status_code == 403


def test_a_policy_can_open_the_namespaces_without_a_project_to_members(with_policy):
    api = with_policy({"vnf_instances:unmapped_namespace": "rule:project_member or rule:admin_required"})
    assert api("member", "POST", VNFS, json=demo(namespace="unmapped")).status_code == 201


def test_a_policy_that_shows_an_entity_to_others_lets_them_write_it_no_more_than_before(with_policy):
    api = with_policy({"vnf_instances:show": "role:reader"})
    at = f"{VNFS}/{api.made('vnf_instances')}"
    assert api("stranger", "GET", at).status_code == 200
    assert api("stranger", "PUT", at, json=DEMO).status_code == 403
    assert api("stranger", "DELETE", at).status_code == 403
