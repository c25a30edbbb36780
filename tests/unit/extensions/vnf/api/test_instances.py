# SPDX-License-Identifier: Apache-2.0
"""Registering VNF instances, and how they are shown."""

from __future__ import annotations

import copy

import pytest

from watcher_sync.commit.batch import Batch, Dispatched
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert

PATH = "/v1/vnf_instances"
DEMO = {
    "name": "demo",
    "cluster": "edge",
    "namespace": "default",
    "vnfd_id": "helloworld3",
    "flavour_id": "simple",
    "vdus": {"VDU1": {"workload": {"kind": "Deployment", "name": "vdu1"}, "initial": 1, "min": 1, "max": 3}},
    "aspects": {"vdu1_aspect": {"max_scale_level": 2, "deltas": {"VDU1": 1}}},
}


def demo(**changes):
    """The registration with these values at these paths ("vdus.VDU1.initial")."""
    body = copy.deepcopy(DEMO)
    for path, value in changes.items():
        *parents, last = path.split(".")
        place = body
        for name in parents:
            place = place[name]
        place[last] = value
    return body


def written(cycle, *changes):
    """Commit changes as an engine would."""
    cycle._commit(
        Batch(events=[event := Event(id="1", type="sync", source="sync")]),
        lambda transaction, _: Dispatched(transaction, [transaction.apply(event, changes)], [], []),
    )


def test_a_registration_is_stored_and_shown_as_it_was_given(client):
    made = client.simulate_post(PATH, json=DEMO)
    assert made.status_code == 201, made.text
    assert "levels" not in made.json
    assert {k: made.json[k] for k in DEMO} == DEMO
    assert made.json["state"] == "UNKNOWN"
    found = client.simulate_get(made.headers["location"])
    assert found.json == made.json
    assert found.headers["etag"] == made.headers["etag"]


def test_before_the_first_sync_no_level_is_claimed(client):
    info = client.simulate_post(PATH, json=DEMO).json["instantiatedVnfInfo"]
    assert info == {
        "flavourId": "simple",
        "vnfState": "STOPPED",
        "scaleStatus": [],
        "maxScaleLevels": [{"aspectId": "vdu1_aspect", "vnfdId": "helloworld3", "scaleLevel": 2}],
        "vnfcResourceInfo": [],
        "vnfcInfo": [],
        "metadata": {
            "namespace": "default",
            "vdu_reses": {"VDU1": {"kind": "Deployment", "metadata": {"name": "vdu1"}}},
        },
    }


def test_observations_are_shown_as_in_sol003_and_remain_when_the_registration_is_replaced(client, cycle):
    client.simulate_put(f"{PATH}/a", json=DEMO)
    vnfc = {
        "id": "v1", "vduId": "VDU1", "vnfdId": "helloworld3", "storageResourceIds": [],
        "vnfcCpInfo": [], "metadata": {},
        "computeResource": {"vimConnectionId": "edge", "resourceProviderId": "edge", "resourceId": "vdu1-5d8f-aaaaa",
                            "vimLevelResourceType": "Deployment"},
    }  # fmt: skip
    info = {"id": "VDU1-v1", "vduId": "VDU1", "vnfcResourceInfoId": "v1", "vnfcState": "STARTED"}
    values = {
        "state": "SYNCED", "scale_level": {"vdu1_aspect": 0}, "vnfc_resource_info": [{**vnfc, "pod": {"uid": "u"}}],
        "vnfc_info": [info],
    }  # fmt: skip
    cycle.catch_up()
    written(cycle, Upsert("vnf_instance", "a", "1", {"observed": values}))
    shown = client.simulate_get(f"{PATH}/a").json
    sol003 = shown["instantiatedVnfInfo"]
    assert sol003["vnfState"] == "STARTED"
    assert sol003["scaleStatus"] == [{"aspectId": "vdu1_aspect", "vnfdId": "helloworld3", "scaleLevel": 0}]
    assert sol003["vnfcResourceInfo"] == [vnfc]
    assert sol003["vnfcInfo"] == [info]
    assert shown["vnfc_resource_info"][0]["pod"] == {"uid": "u"}
    replaced = client.simulate_put(f"{PATH}/a", json=demo(aspects={}))
    assert replaced.status_code == 200
    assert replaced.json["vnfc_resource_info"] == shown["vnfc_resource_info"]
    assert replaced.json["created_at"] == shown["created_at"]
    assert replaced.json["instantiatedVnfInfo"]["scaleStatus"] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"aspects.vdu1_aspect.deltas.VDU1": 0}, "/aspects/vdu1_aspect/deltas/VDU1"),
        ({"aspects.vdu1_aspect.deltas.VDU1": -1}, "/aspects/vdu1_aspect/deltas/VDU1"),
        ({"aspects.vdu1_aspect.deltas.VDU1": [1, 0]}, "/aspects/vdu1_aspect/deltas/VDU1/1"),
        ({"aspects.vdu1_aspect.deltas.VDU1": [1]}, "/aspects/vdu1_aspect/deltas/VDU1"),
        ({"aspects.vdu1_aspect.deltas.VDU1": "1"}, "/aspects/vdu1_aspect/deltas/VDU1"),
        ({"aspects.vdu1_aspect.deltas": {"VDU9": 1}}, "/aspects/vdu1_aspect/deltas/VDU9"),
        ({"aspects.vdu1_aspect.max_scale_level": 3}, "/aspects/vdu1_aspect/max_scale_level"),
        ({"aspects.vdu1_aspect.max_scale_level": -1}, "/aspects/vdu1_aspect/max_scale_level"),
        ({"vdus.VDU1.workload.kind": "CronJob"}, "/vdus/VDU1/workload/kind"),
        ({"vdus.VDU1.workload.name": "Vdu_1"}, "/vdus/VDU1/workload/name"),
        ({"vdus.VDU1.initial": 0}, "/vdus/VDU1/initial"),
        ({"vdus.VDU1.initial": -1}, "/vdus/VDU1/initial"),
        ({"vdus": {}}, "/vdus"),
        ({"namespace": "no/namespace"}, "/namespace"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_registration_that_makes_no_sense_is_refused_naming_the_field(client, problem, changes, pointer):
    document = problem(client.simulate_post(PATH, json=demo(**changes)), 400)
    assert [e["pointer"] for e in document["errors"]] == [pointer]
    assert client.simulate_get(PATH).json["vnf_instances"] == []


def test_to_say_the_same_again_in_other_words_writes_nothing(client):
    made = client.simulate_put(f"{PATH}/a", json=demo(**{"vdus.VDU1.initial": 1.0}))
    again = client.simulate_put(f"{PATH}/a", json=DEMO)
    assert (made.status_code, again.status_code) == (201, 200)
    assert again.json == made.json
    assert len(client.simulate_get(f"{PATH}/a/history").json["history"]) == 1


def test_of_two_writers_who_read_the_same_version_one_is_refused(client, problem):
    tag = client.simulate_put(f"{PATH}/a", json=DEMO).headers["etag"]
    first = client.simulate_put(f"{PATH}/a", json=demo(name="new"), headers={"If-Match": tag})
    assert first.status_code == 200
    problem(client.simulate_put(f"{PATH}/a", json=DEMO, headers={"If-Match": tag}), 412)
    problem(client.simulate_delete(f"{PATH}/a", headers={"If-Match": tag}), 412)
    assert client.simulate_delete(f"{PATH}/a", headers={"If-Match": first.headers["etag"]}).status_code == 204
    problem(client.simulate_put(f"{PATH}/a", json=DEMO), 409)
    problem(client.simulate_get(f"{PATH}/a"), 404)


@pytest.mark.parametrize("method", ["POST", "PUT"])
def test_a_deleted_instance_is_registered_again_only_if_the_request_says_so(client, problem, method):
    def register(query=""):
        path, body = (PATH, {"id": "a", **DEMO}) if method == "POST" else (f"{PATH}/a", DEMO)
        return client.simulate_request(method, path, json=body, query_string=query)

    assert register().status_code == 201
    client.simulate_delete(f"{PATH}/a")
    assert problem(register(), 409)["detail"].endswith("choose another id, or say replace=true")
    assert client.simulate_get(f"{PATH}/a").status_code == 404
    again = register("replace=true")
    assert (again.status_code, again.json["state"], again.json["scale_level"]) == (201, "UNKNOWN", None)
    if method == "POST":
        problem(register("replace=true"), 409)
    assert [row["change"] for row in client.simulate_get(f"{PATH}/a/history").json["history"]] == [
        "created", "deleted", "created",
    ]  # fmt: skip


def test_what_exists_is_not_registered_again(client, problem):
    client.simulate_post(PATH, json={"id": "a", **DEMO})
    problem(client.simulate_post(PATH, json={"id": "a", **DEMO}), 409)


def test_an_unchanged_instance_is_not_sent_again_and_only_the_wanted_fields_are(client):
    made = client.simulate_put(f"{PATH}/a", json=DEMO)
    asked = client.simulate_get(f"{PATH}/a", headers={"If-None-Match": made.headers["etag"]})
    assert asked.status_code == 304
    assert client.simulate_get(f"{PATH}/a", query_string="fields=id,state").json == {"id": "a", "state": "UNKNOWN"}
    assert list(client.simulate_get(f"{PATH}/a", query_string="fields=instantiatedVnfInfo").json) == [
        "instantiatedVnfInfo"
    ]


@pytest.mark.slow
def test_instances_are_listed_by_cluster_and_state(client):
    client.simulate_put(f"{PATH}/a", json=DEMO)
    client.simulate_put(f"{PATH}/b", json=demo(cluster="core"))
    found = client.simulate_get(PATH, query_string="cluster=core&state=UNKNOWN").json["vnf_instances"]
    assert [v["id"] for v in found] == ["b"]
