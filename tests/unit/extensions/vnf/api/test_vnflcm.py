# SPDX-License-Identifier: Apache-2.0
"""``/vnflcm/v2/vnf_instances``: what a client of SOL003 reads, page by page, and what is not offered."""

from __future__ import annotations

import re

import pytest

from tests.unit.extensions.vnf.api.test_instances import PATH as OWN_PATH
from tests.unit.extensions.vnf.api.test_instances import demo
from tests.unit.extensions.vnf.api.test_sol003 import PRODUCT, STANDARD, observe

PATH = "/vnflcm/v2/vnf_instances"
pytestmark = pytest.mark.slow


@pytest.fixture
def three(client):
    for number, name in enumerate("abc"):
        client.simulate_put(f"{OWN_PATH}/{name}", json=demo(**PRODUCT | {"vnf_product_name": f"P{number}"}))
    return client


def test_a_list_is_an_array_with_the_version_of_the_interface(three):
    answer = three.simulate_get(PATH)
    assert (answer.status_code, answer.headers["version"]) == (200, "2.0.0")
    link = {"_links": {"self": {"href": f"{PATH}/a"}}}
    assert answer.json[0] == {"id": "a", **STANDARD, "vnfProductName": "P0", **link}
    assert [vnf["id"] for vnf in answer.json] == ["a", "b", "c"]


def test_an_instance_has_the_attributes_of_sol003_alone(three, cycle):
    observe(cycle, "a", 2, level=1)
    answer = three.simulate_get(f"{PATH}/a")
    assert (answer.status_code, answer.headers["version"]) == (200, "2.0.0")
    assert set(answer.json) == {"id", *STANDARD, "_links", "instantiatedVnfInfo"}
    (status,) = answer.json["instantiatedVnfInfo"]["scaleStatus"]
    assert (status["aspectId"], status["scaleLevel"]) == ("vdu1_aspect", 1)
    assert three.simulate_get(f"{PATH}/none").status_code == 404


def test_filters_and_selectors_of_sol013_apply(three, problem):
    found = three.simulate_get(PATH, params={"filter": "(eq,vnfProductName,P1)", "fields": "vnfProductName"})
    assert found.json == [{"vnfProductName": "P1"}]
    complex_ones = three.simulate_get(PATH, params={"exclude_fields": "vnfProductName", "filter": "(eq,id,b)"})
    assert "instantiatedVnfInfo" in complex_ones.json[0]
    problem(three.simulate_get(PATH, params={"filter": "(eq,cluster,edge)"}), 400)
    problem(three.simulate_get(PATH, params={"fields": "vdus"}), 400)


def test_the_link_leads_from_page_to_page(three, conf):
    conf.set_override("max_limit", 2, group="api")
    found, path = [], f"{PATH}?fields=id"
    while path:
        answer = three.simulate_get(path)
        found += [vnf["id"] for vnf in answer.json]
        link = re.fullmatch(r'<(.*)>; rel="next"', answer.headers.get("link", ""))
        path = link[1] if link else None
    assert found == ["a", "b", "c"]
    conf.clear_override("max_limit", group="api")


@pytest.mark.parametrize(("method", "path"), [("POST", PATH), ("PATCH", f"{PATH}/a"), ("DELETE", f"{PATH}/a")])
def test_what_changes_an_instance_is_405(three, problem, method, path):
    problem(three.simulate_request(method, path, json={}), 405)


@pytest.mark.parametrize("path", [f"{PATH}/a/scale", "/vnflcm/v2/subscriptions", "/vnflcm/v2/vnf_lcm_op_occs"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_resources_of_sol003_that_are_not_offered_are_501(three, problem, method, path):
    assert "read-only" in problem(three.simulate_request(method, path), 501)["detail"]
