# SPDX-License-Identifier: Apache-2.0
"""How a resource and an instance are shown, and what is not shown of them."""

from __future__ import annotations

import copy
import dataclasses
from typing import Annotated, Any

import msgspec
import pytest

from tests.simulated import NOON
from tests.unit.extensions.vnf.model.world import World, registered
from watcher_sync.extensions.dcm.kinds import ServiceTypeInstance
from watcher_sync.extensions.kubernetes.kinds import Pod, Workload
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.webhooks.onap.documents import (
    STATUS_FIELDS,
    document_fields,
    group_version_kind,
    is_ready,
    resource_document,
    status_document,
)
from watcher_sync.model.kinds import Entity, In, Text, kind, kind_of
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()


@kind("radio", plural="radios")
class Radio(Entity, frozen=True, kw_only=True, gc=False):
    """A plugin's kind."""

    state: Annotated[Text | None, In("state")] = None
    band: Annotated[Text | None, In("state")] = None
    settings: Annotated[dict[str, Any] | None, In("state")] = None


def document(entity, *, full=False, hidden=None):
    return resource_document(kind_of(type(entity)), entity, full=full, hidden=hidden or {})


def test_every_built_in_kind_has_a_status_of_declared_fields():
    assert STATUS_FIELDS.keys() == KINDS.keys()
    for name, fields in STATUS_FIELDS.items():
        assert fields
        assert set(fields) <= set(KINDS[name].fields), name
        assert len(set(fields)) == len(fields)


@pytest.mark.parametrize(
    "bookkeeping", ["resource_version", "updated_at", "observed_at", "last_heard", "labels", "name"]
)
def test_bookkeeping_and_identity_are_no_status(bookkeeping):
    assert all(bookkeeping not in fields for fields in STATUS_FIELDS.values())


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (Pod(id="1"), ("", "v1", "Pod")),
        *[
            (Workload(id="1", api_group="apps", kind=name), ("apps", "v1", name))
            for name in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
        ],
        (Workload(id="1", api_group="batch", kind="Job"), ("batch", "", "Job")),
        (Workload(id="1"), ("", "", "")),
        (Instance(id="1"), ("compute", "v1alpha1", "Instance")),
        (ServiceTypeInstance(id="1"), ("dcm", "v1alpha1", "ServiceTypeInstance")),
        (VnfInstance(id="1"), ("vnf", "v1alpha1", "VnfInstance")),
        (Radio(id="1"), ("watcher_sync", "v1alpha1", "radio")),
    ],
)
def test_each_kind_has_its_group_version_and_kind(entity, expected):
    assert tuple(group_version_kind(kind_of(type(entity)).name, entity).values()) == expected


def test_a_document_has_the_status_part_without_nulls():
    pod = Pod(id="u", name="p", namespace="n", cluster="c", phase="Running", ready=False, labels={"a": "b"})
    assert document(pod) == {
        "name": "p",
        "GVK": {"Group": "", "Version": "v1", "Kind": "Pod"},
        "kind": "pod",
        "id": "u",
        "cluster": "c",
        "namespace": "n",
        "status": {"phase": "Running", "ready": False},
    }


def test_a_full_document_has_all_public_fields():
    pod = Pod(id="u", seq=4, versions=("1",), name="p", labels={"a": "b"}, created_at=NOON)
    assert document(pod, full=True)["status"] == {"id": "u", "name": "p", "labels": {"a": "b"}, "created_at": NOON}


def test_times_are_text_in_json():
    pod = Pod(id="u", deleted_at=NOON)
    assert msgspec.json.decode(msgspec.json.encode(document(pod)))["status"] == {"deleted_at": "2026-01-01T12:00:00Z"}


def test_two_objects_of_one_name_in_two_namespaces_are_two():
    one, other = (document(Pod(id=i, name="p", namespace=i, cluster="c")) for i in ("a", "b"))
    assert one["name"] == other["name"]
    assert (one["namespace"], one["id"]) != (other["namespace"], other["id"])


@pytest.mark.parametrize(
    ("entity", "name"),
    [
        (ServiceTypeInstance(id="1", instance_name="db"), "db"),
        (ServiceTypeInstance(id="1"), "1"),
        (Instance(id="1", name="vm"), "vm"),
        (Radio(id="r"), "r"),
    ],
)
def test_the_name_is_that_of_the_entity_else_its_id(entity, name):
    assert document(entity)["name"] == name


def test_a_kind_of_a_plugin_shows_all_its_fields():
    assert document(Radio(id="r", band="n78"))["status"] == {"id": "r", "band": "n78"}


def test_what_is_hidden_is_not_shown():
    place = {"id": "v", "pod": {"name": "p", "node": "host"}}
    vnf = VnfInstance(id="1", vnfc_resource_info=[place])
    assert document(vnf, hidden=KINDS["vnf_instance"].admin_only)["status"]["vnfc_resource_info"] == [
        {"id": "v", "pod": {"name": "p"}}
    ]
    server = Instance(id="1", state="active", host="h", node="n", source_host="s", fault_message="on h")
    for full in (False, True):
        shown = document(server, full=full, hidden=KINDS["instance"].admin_only)
        assert {"host", "node", "source_host", "fault_message"}.isdisjoint(shown["status"])
        assert shown["status"]["state"] == "active"


SECRETS = {
    "password": "x", "adminPassword": "x", "client_secret": "x", "auth-token": "x", "privateKey": "x",
    "ssh_private_key": "x", "credentials": {"user": "u"}, "apiKey": "x", "kubeconfig": "x", "passphrase": "x",
    "client-key-data": "x", "PASSWD": ["x"],
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize(
    "place", [lambda v: v, lambda v: {"a": v}, lambda v: {"a": [{"b": v}]}, lambda v: {"a": [[v]]}]
)
def test_the_value_of_a_secret_is_masked_at_any_depth(name, place):
    spec = place({name: SECRETS[name], "user": "u"})
    before = copy.deepcopy(spec)
    for full in (False, True):
        shown = document(ServiceTypeInstance(id="1", output_spec=spec), full=full)["status"]["output_spec"]
        assert shown == place({name: "***", "user": "u"})
    assert spec == before


def test_the_value_next_to_the_name_of_a_secret_is_masked():
    spec = {"env": [{"name": "DB_PASSWORD", "value": "x"}, {"name": "DB_HOST", "value": "h"}]}
    shown = document(ServiceTypeInstance(id="1", output_spec=spec))["status"]["output_spec"]
    assert shown == {"env": [{"name": "DB_PASSWORD", "value": "***"}, {"name": "DB_HOST", "value": "h"}]}


def test_the_data_of_a_secret_object_is_masked():
    manifest = {"kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "eA=="}, "stringData": {"a": "x"}}
    shown = document(Radio(id="r", settings={"manifest": manifest}))["status"]["settings"]["manifest"]
    assert shown == {"kind": "Secret", "metadata": {"name": "s"}, "data": "***", "stringData": "***"}


def test_a_vdu_with_the_name_of_a_secret_is_no_secret():
    vnf = VnfInstance(id="1", observed={"token-server": 3})
    assert document(vnf)["status"]["observed"] == {"token-server": 3}


def test_a_resource_names_what_it_depends_on():
    shown = document(Pod(id="1", cluster="c", owner_uid="rs", workload_uid="d"))
    owned = {"relation": "owned_by", "kind": "workload"}
    assert shown["references"] == [
        {"field": "owner_uid", **owned, "id": "rs"},
        {"field": "workload_uid", **owned, "id": "d"},
    ]
    assert "references" not in document(VnfInstance(id="1", workload_uids=["d"]))


def test_a_reference_that_the_reader_may_not_see_is_absent():
    server = Instance(id="1", host="n1")
    assert [each["id"] for each in document(server)["references"]] == ["n1"]
    assert "references" not in document(server, hidden=kind_of(Instance).admin_only)


def test_a_change_of_a_reference_is_a_change_of_the_document():
    assert "provider_id" in document_fields(kind_of(ServiceTypeInstance), full=False)


@pytest.mark.parametrize(
    ("entity", "expected"),
    [
        (Pod(id="1", ready=True), True),
        (Pod(id="1", ready=False), False),
        (Pod(id="1"), False),
        (Pod(id="1", ready=True, deleted_at=NOON), False),
        (Workload(id="1", replicas=2, ready_replicas=2), True),
        (Workload(id="1", replicas=2, ready_replicas=1), False),
        (Workload(id="1", replicas=2), False),
        (Workload(id="1", replicas=0), True),
        (Workload(id="1"), False),
        (Instance(id="1", state="active"), True),
        (Instance(id="1", state="error"), False),
        (Instance(id="1"), False),
        (ServiceTypeInstance(id="1", status="RUNNING"), True),
        (ServiceTypeInstance(id="1", status="READY"), True),
        (ServiceTypeInstance(id="1", status="ACTIVE"), True),
        (ServiceTypeInstance(id="1", status="FAILED"), False),
        (ServiceTypeInstance(id="1"), False),
        (VnfInstance(id="1", state="SYNCED"), True),
        (VnfInstance(id="1", state="DRIFTED"), False),
        (VnfInstance(id="1"), False),
        (Radio(id="1"), False),
        (Radio(id="1", state="ready"), True),
        (Radio(id="1", state="error"), False),
    ],
)
def test_an_entity_is_ready_when_it_does_what_it_is_there_for(entity, expected):
    assert is_ready(kind_of(type(entity)).name, entity) is expected


@dataclasses.dataclass
class Case:
    """A VNF instance with one ready pod, and its status."""

    world: World
    vnf: VnfInstance

    def status(self, only=None, full=False):
        view = self.world.model.snapshot()
        return status_document(
            view,
            KINDS,
            "vnf_instance",
            self.vnf,
            full=full,
            hidden_of=lambda kind, _: KINDS[kind].admin_only,
            only=only,
        )


@pytest.fixture
def case():
    world = World()
    below = world.deployment(ready_replicas=1)
    world.workload(below, "ReplicaSet", "vdu1-5d8f", owner_uid="d-vdu1", replicas=1, ready_replicas=1)
    world.pod("a", below, ready=True, node="host")
    return Case(world, registered(name="gateway", state="SYNCED"))


def test_the_status_of_an_instance_has_its_resources(case):
    status = case.status()
    assert status["request"] == {"instance-id": "vnf", "kind": "vnf_instance", "name": "gateway"}
    assert status["ready"] is True
    assert status["resourceCount"] == 3
    assert [each["name"] for each in status["resourcesStatus"]] == ["a", "vdu1", "vdu1-5d8f"]
    assert status["resourcesStatus"][0]["status"] == {"phase": "Running", "ready": True}


def test_the_kinds_that_are_asked_for_do_not_influence_whether_it_is_ready(case):
    case.world.pod("a", "rs-vdu1", ready=False)
    status = case.status(only=["workload"])
    assert (status["ready"], status["resourceCount"]) == (False, 2)
    assert case.status(only=["vnf_instance"])["resourcesStatus"][0]["GVK"]["Kind"] == "VnfInstance"


def test_an_instance_that_is_not_synced_is_not_ready(case):
    case.vnf = registered(name="gateway", state="DRIFTED")
    assert case.status()["ready"] is False


@pytest.mark.parametrize(
    "ended", [{"phase": "Failed", "reason": "Evicted"}, {"phase": "Succeeded"}, {"deleted_at": NOON}]
)
def test_a_pod_that_ended_does_not_make_its_instance_unready(case, ended):
    case.world.pod("z", "rs-vdu1", ready=False, **ended)
    assert case.status()["ready"] is True


def test_the_status_of_an_instance_can_be_whole(case):
    assert case.status(full=True)["resourcesStatus"][0]["status"]["owner_uid"] == "rs-vdu1"
