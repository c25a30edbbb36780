# SPDX-License-Identifier: Apache-2.0
"""A VNF instance as ETSI GS NFV-SOL 003 names it, and the attribute selectors of SOL 013."""

from __future__ import annotations

import pytest

from tests.unit.extensions.vnf.api.test_instances import DEMO, PATH, demo, written
from watcher_sync.model.changes import Upsert

PRODUCT = {
    "vnf_provider": "Example", "vnf_product_name": "UPF", "vnf_software_version": "1.2", "vnfd_version": "3.4",
    "ext_cp_info": [{"id": "cp-1", "cpdId": "VDU1_CP1", "cpConfigId": "cfg"}],
}  # fmt: skip
STANDARD = {
    "vnfInstanceName": "demo", "vnfdId": "helloworld3", "vnfProvider": "Example", "vnfProductName": "UPF",
    "vnfSoftwareVersion": "1.2", "vnfdVersion": "3.4", "instantiationState": "INSTANTIATED",
}  # fmt: skip


def vnfc(number, **more):
    return {
        "id": f"v{number}", "vduId": "VDU1", "vnfdId": "helloworld3", "storageResourceIds": [], "vnfcCpInfo": [],
        "metadata": {}, "computeResource": {"vimConnectionId": "edge", "resourceId": f"vdu1-{number}"}, **more,
    }  # fmt: skip


def observe(cycle, vnf_id, number, level=0, **values):
    """What an evaluation writes for so many pods."""
    cycle.catch_up()
    fields = {
        "state": "SYNCED", "scale_level": {"vdu1_aspect": level}, "observed": {"VDU1": number},
        "vnfc_resource_info": [vnfc(n) for n in range(number)], **values,
    }  # fmt: skip
    written(cycle, Upsert("vnf_instance", vnf_id, f"{number:04d}", {"observed": fields}))


def names(found):
    assert found.status_code == 200, found.text
    return sorted(v["id"] for v in found.json["vnf_instances"])


def asked(client, query, vnf_id=None):
    return client.simulate_get(PATH if vnf_id is None else f"{PATH}/{vnf_id}", query_string=query)


def test_the_replicas_of_a_vdu_in_vdu_reses_are_the_number_of_its_pods(client, cycle):
    client.simulate_put(f"{PATH}/a", json=DEMO)
    assert "spec" not in asked(client, "", "a").json["instantiatedVnfInfo"]["metadata"]["vdu_reses"]["VDU1"]
    for number in (2, 3):
        observe(cycle, "a", number)
        reses = asked(client, "", "a").json["instantiatedVnfInfo"]["metadata"]["vdu_reses"]
        assert reses["VDU1"]["spec"] == {"replicas": number}


def test_the_namespace_is_default_by_default(client):
    body = demo()
    del body["namespace"]
    made = client.simulate_post(PATH, json=body)
    assert (made.status_code, made.json["namespace"]) == (201, "default")
    client.simulate_put(f"{PATH}/a", json=demo(namespace="other"))
    assert client.simulate_put(f"{PATH}/a", json=body).json["namespace"] == "default"


def test_the_attributes_of_a_vnf_instance_have_the_names_of_sol003(client):
    made = client.simulate_put(f"{PATH}/a", json={**DEMO, **PRODUCT}).json
    assert {name: made.get(name) for name in STANDARD} == STANDARD
    assert made["_links"] == {"self": {"href": f"{PATH}/a"}}
    assert made["instantiatedVnfInfo"]["extCpInfo"] == PRODUCT["ext_cp_info"]
    assert {name: made[name] for name in PRODUCT} == PRODUCT
    assert asked(client, "", "a").json == made


def test_optional_attributes_that_were_not_given_are_absent(client):
    made = client.simulate_put(f"{PATH}/a", json=demo(name=None)).json
    assert {"vnfInstanceName", "vnfProvider", "vnfProductName", "vnfSoftwareVersion", "vnfdVersion"}.isdisjoint(made)
    assert "extCpInfo" not in made["instantiatedVnfInfo"]
    assert (made["vnfdId"], made["instantiationState"]) == ("helloworld3", "INSTANTIATED")


def test_a_registration_may_use_the_names_of_sol003(client, problem):
    body = {k: v for k, v in DEMO.items() if k not in ("name", "vnfd_id", "flavour_id")}
    given = {k: v for k, v in STANDARD.items() if k != "instantiationState"}
    made = client.simulate_put(f"{PATH}/a", json={**body, **given, "flavourId": "simple"})
    assert made.status_code == 201, made.text
    assert {name: made.json[name] for name in given} == given
    assert made.json["vnf_product_name"] == "UPF"
    document = problem(client.simulate_put(f"{PATH}/b", json={**DEMO, "vnfdId": "other"}), 400)
    assert document["errors"][0]["pointer"] == "/vnfdId"


# SOL 013


@pytest.fixture
def three(client, cycle):
    """Of one, two and three pods."""
    for number, (vnf_id, provider) in enumerate((("a", "Example"), ("b", "O'Neil, (Ltd)"), ("c", None)), start=1):
        body = demo(name=f"vnf-{number}") | ({"vnf_provider": provider} if provider else {})
        assert client.simulate_put(f"{PATH}/{vnf_id}", json=body).status_code == 201
        observe(cycle, vnf_id, number, level=number - 1)
    return client


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("(eq,vnfInstanceName,vnf-1)", "a"),
        ("(neq,vnfInstanceName,vnf-1)", "bc"),
        ("(in,vnfInstanceName,vnf-1,vnf-3)", "ac"),
        ("(nin,vnfInstanceName,vnf-1,vnf-3)", "b"),
        ("(cont,vnfInstanceName,-2,-3)", "bc"),
        ("(ncont,vnfInstanceName,-2,-3)", "a"),
        ("(gt,instantiatedVnfInfo/scaleStatus/scaleLevel,0)", "bc"),
        ("(gte,instantiatedVnfInfo/scaleStatus/scaleLevel,2)", "c"),
        ("(lt,instantiatedVnfInfo/scaleStatus/scaleLevel,1)", "a"),
        ("(lte,instantiatedVnfInfo/scaleStatus/scaleLevel,1)", "ab"),
        ("(eq,instantiatedVnfInfo/vnfcResourceInfo/computeResource/resourceId,vdu1-1)", "bc"),
        ("(eq,vnfProvider,'O''Neil, (Ltd)')", "b"),
        ("(eq,vnfProvider,Example);(eq,vnfdId,helloworld3)", "a"),
        ("(eq,vnfProvider,Example);(eq,vnfdId,other)", ""),
        ("(eq,vnfdVersion,1)", ""),
        ("(eq,instantiatedVnfInfo/metadata/vdu_reses/VDU1/spec/replicas,2)", "b"),
    ],
)
def test_the_attribute_filter_chooses_instances(three, text, found):
    assert names(three.simulate_get(PATH, params={"filter": text})) == list(found)


@pytest.mark.slow
def test_a_filtered_list_has_all_instances_over_its_pages(three):
    found, query = [], {"filter": "(neq,vnfInstanceName,vnf-2)", "limit": 1}
    while True:
        page = three.simulate_get(PATH, params=query).json
        found += [v["id"] for v in page["vnf_instances"]]
        if page["next_marker"] is None:
            break
        query["marker"] = page["next_marker"]
    assert found == ["a", "c"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "text", ["", "eq,vnfdId,x", "(eq,vnfdId)", "(like,vnfdId,x)", "(eq,vnfdId,x", "(eq,vnfdId,'x)", "(eq,,x)",
             "(eq,vnfdId,x,y)", "(eq,vnfdId,x)(eq,vnfdId,x)", "(gt,vnfdId,x,y)"],
)  # fmt: skip
def test_a_filter_that_is_none_is_refused(three, problem, text):
    document = problem(three.simulate_get(PATH, params={"filter": text}), 400)
    assert document["errors"][0]["pointer"] == "/filter"


def test_a_filter_of_an_unknown_attribute_is_refused_and_names_it(three, problem):
    document = problem(three.simulate_get(PATH, params={"filter": "(eq,vnfdId,x);(eq,vnfProductNam,UPF)"}), 400)
    assert document["errors"][0]["pointer"] == "/filter"
    assert "'vnfProductNam' is no attribute" in document["errors"][0]["detail"]


def test_a_list_has_the_complex_attributes_only_if_they_are_asked_for(three):
    first = three.simulate_get(PATH).json["vnf_instances"][0]
    assert first["vnfInstanceName"] == "vnf-1"
    assert "instantiatedVnfInfo" not in first
    assert asked(three, "exclude_default").json == asked(three, "").json
    whole = asked(three, "all_fields").json["vnf_instances"]
    assert whole[0] == asked(three, "", "a").json
    assert whole[1]["instantiatedVnfInfo"]["vnfcResourceInfo"][1]["id"] == "v1"


def test_fields_choose_attributes_by_their_paths(three):
    query = "fields=id,instantiatedVnfInfo/scaleStatus/scaleLevel,instantiatedVnfInfo/flavourId"
    shown = {"id": "a", "instantiatedVnfInfo": {"flavourId": "simple", "scaleStatus": [{"scaleLevel": 0}]}}
    assert asked(three, query, "a").json == shown
    assert asked(three, query).json["vnf_instances"][0] == shown
    assert asked(three, "fields=vnfInstanceName,state", "a").json == {"vnfInstanceName": "vnf-1", "state": "SYNCED"}


def test_exclude_fields_leave_attributes_out_by_their_paths(three):
    query = "exclude_fields=instantiatedVnfInfo/vnfcResourceInfo,_links,vdus"
    shown = asked(three, query, "a").json
    assert "vnfcResourceInfo" not in shown["instantiatedVnfInfo"]
    assert {"_links", "vdus"}.isdisjoint(shown)
    assert {"id", "scaleStatus"} <= {*shown, *shown["instantiatedVnfInfo"]}
    assert asked(three, query).json["vnf_instances"][0] == shown


@pytest.mark.slow
@pytest.mark.parametrize("query", ["fields=colour", "exclude_fields=colour", "fields=vnfdId,colour/x", "all_fields=7"])
def test_a_selector_that_names_no_attribute_is_refused(three, problem, query):
    name = query.partition("=")[0]
    for vnf_id in (None, "a"):
        document = problem(asked(three, query, vnf_id), 400)
        assert document["errors"][0]["pointer"].startswith(f"/{name}")


@pytest.mark.slow
def test_the_default_attributes_and_some_more(three):
    shown = asked(three, "exclude_default&fields=instantiatedVnfInfo/flavourId").json["vnf_instances"][0]
    assert shown == asked(three, "", "a").json


@pytest.mark.slow
@pytest.mark.parametrize(
    "query", ["all_fields&fields=id", "all_fields&exclude_default", "fields=id&exclude_fields=seq"]
)
def test_selectors_that_contradict_each_other_are_refused(three, problem, query):
    problem(asked(three, query), 400)
