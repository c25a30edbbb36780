# SPDX-License-Identifier: Apache-2.0
"""The page shows the entities of followed sites, whose names may be those of the operators of filters."""

from __future__ import annotations

import uuid
from urllib.parse import quote

import pytest

from tests.functional.page.cloud import Cloud
from tests.functional.page.looking import Page
from tests.functional.page.test_page_views import NOW, change
from tests.waiting import wait_until

CLUSTER = "in:edge"
WORKLOAD = "in:5f000000-0000-4000-8000-000000000001"
POD = "in:6f000000-0000-4000-8000-000000000001"


@pytest.fixture
def page(shared_page: Page) -> Page:
    """That of the module; each test opens entities of its own."""
    shared_page.open()
    wait_until(lambda: shared_page.all(".connection.live"), 60, "the live page")
    return shared_page


@pytest.fixture(scope="module")
def followed(shared_cloud: Cloud) -> None:
    """A workload with its pod, and the VNF instance that has registered it, in a cluster of the site ``in``."""
    cloud, place = shared_cloud, {"cluster": CLUSTER, "namespace": "core"}
    change(cloud, "cluster", CLUSTER, "state", version="v1.31.1")
    change(cloud, "workload", WORKLOAD, "state", kind="Deployment", name="amf", replicas=1, ready_replicas=1, **place)
    change(cloud, "pod", POD, "state", name="amf-0", phase="Running", ready=True, owner_uid=WORKLOAD, **place)
    change(cloud, "pod", POD, "workload", workload_uid=WORKLOAD)
    change(cloud, "vnf_instance", "in:amf", "registration", name="amf", vnfd_id="amf-vnfd", registered_at=NOW,
           created_at=NOW, vdus={"worker": {"workload": {"kind": "Deployment", "name": "amf"}, "initial": 1}},
           aspects={}, **place)  # fmt: skip
    change(cloud, "vnf_instance", "in:amf", "observed", workload_uids=[WORKLOAD])


def members(page: Page) -> list[str]:
    """The names in all lists of members of the open entity."""
    return page.texts(".entity .member .name")


def drawn(page: Page) -> set[str]:
    """The names in the graph of relations."""
    return set(page.texts(".graph .node text"))


def test_a_host_of_a_site_named_lt_has_its_own_instances_alone(page: Page, shared_cloud: Cloud) -> None:
    host, cloud = "lt:compute-1", shared_cloud
    cloud.commit(
        cloud.node(host, service={"status": "enabled"}),
        cloud.instance(str(uuid.uuid4()), host=host, name="followed-1", state="active"),
    )
    page.open(f"#/compute_node/{quote(host, safe='')}")
    wait_until(lambda: members(page) == ["followed-1"], 60, "its instance")
    wait_until(lambda: drawn(page) == {host, "followed-1"}, 60, "it and its instance in the graph")


def test_a_cluster_of_a_site_named_in_has_its_members(page: Page, followed: None) -> None:
    page.open(f"#/cluster/{quote(CLUSTER, safe='')}")
    wait_until(lambda: sorted(members(page)) == ["amf", "amf", "amf-0"], 60, "VNF instance, workload and pod")


@pytest.mark.parametrize(("kind", "entity_id"), [("workload", WORKLOAD), ("pod", POD), ("vnf_instance", "in:amf")])
def test_the_relations_in_a_cluster_of_a_site_named_in_are_complete(
    page: Page, followed: None, kind: str, entity_id: str
) -> None:
    page.open(f"#/{kind}/{quote(entity_id, safe='')}")
    wait_until(lambda: len(page.all(".graph .node")) == 4, 60, "workload, pod, VNF instance and cluster")
    assert drawn(page) == {"amf", "amf-0", CLUSTER}
    if kind == "workload":
        wait_until(lambda: members(page) == ["amf-0"], 60, "its pod")
