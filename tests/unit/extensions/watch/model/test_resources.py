# SPDX-License-Identifier: Apache-2.0
"""What a journal row says as the change of a resource."""

from __future__ import annotations

import datetime
from typing import Annotated, Any

import pytest

from watcher_sync.extensions.watch.model.resources import BUILTIN, Describer, Reader, resource_kind
from watcher_sync.extensions.watch.wire.descriptions import ChangeType, ReferenceDescription, ScopeDescription
from watcher_sync.model.kinds import Doc, Entity, In, Kinds, Text, kind
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.testing.kinds import builtin_kinds

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)
KINDS = builtin_kinds()
DESCRIBER = Describer(KINDS)
MEMBER = Reader("p1", {name: kind.admin_only for name, kind in KINDS.items() if kind.admin_only})


def row(kind_name, entity_id, change="updated", project_id="p1", **delta: Any) -> JournalRow:
    return JournalRow(
        7, NOON, kind_name, entity_id, change, delta, {"state": "v2"}, "e1", "t", "nova", 1, None, project_id
    )


def described(*args, values=None, reader=None, **kwargs):
    return DESCRIBER.change(row(*args, **kwargs), values or {}, reader)


@kind("floating_ip", plural="floating_ips")
class FloatingIp(Entity, frozen=True, kw_only=True, gc=False):
    """A kind of a plugin."""

    address: Annotated[Text | None, In("state"), Doc("Its address.")] = None


@pytest.mark.parametrize(
    ("kind_name", "group", "shown"),
    [
        ("compute_node", "compute", "ComputeNode"),
        ("instance", "compute", "Instance"),
        ("service_type_instance", "dcm", "ServiceTypeInstance"),
        ("cluster", "kubernetes", "Cluster"),
        ("workload", "kubernetes", "Workload"),
        ("pod", "kubernetes", "Pod"),
        ("vnf_instance", "vnf", "VnfInstance"),
    ],
)
def test_each_of_our_kinds_has_its_group_and_kind(kind_name, group, shown):
    resource = described(kind_name, "x", "created").resource
    assert (resource.group, resource.kind) == (group, shown)


def test_every_field_that_a_resource_is_made_of_is_declared():
    assert set(BUILTIN) == set(KINDS)
    for name, fields in DESCRIBER.fields.items():
        assert set(fields) <= set(KINDS[name].fields)


def test_a_kind_of_a_plugin_follows_the_rule():
    found = resource_kind(Kinds(FloatingIp)["floating_ip"])
    assert (found.group, found.kind, found.name_field) == ("plugin", "FloatingIp", None)


def test_an_instance_is_in_the_scope_of_its_host():
    resource = described(
        "instance", "i1", values={"name": "web", "host": "n/1", "source_host": "n2"}, state=("a", "b")
    ).resource
    assert (resource.name, resource.id, resource.self_link) == ("web", "i1", "/v1/instances/i1")
    assert resource.scope == ScopeDescription(
        id="n/1", kind="ComputeNode", name="n/1", self_link="/v1/compute_nodes/n%2F1"
    )
    (reference,) = resource.references
    assert reference == ReferenceDescription(id="n2", kind="ComputeNode", name="n2", self_link="/v1/compute_nodes/n2")


def test_a_pod_is_in_the_scope_of_its_cluster():
    resource = described("pod", "u1", values={"name": "db-0", "cluster": "edge"}, phase=("Pending", "Running")).resource
    assert (resource.scope.kind, resource.scope.name) == ("Cluster", "edge")


def test_an_entity_without_a_name_is_named_by_its_id():
    assert described("instance", "i1", state=(None, "active")).resource.name == "i1"


def test_a_creation_has_all_values_as_text():
    change = described(
        "instance",
        "i1",
        "created",
        name=(None, "web"),
        vcpus=(None, 4),
        locked=(None, False),
        metadata=(None, {"a": [1]}),
    )
    assert change.type is ChangeType.CREATED
    assert change.resource.attributes == {"name": "web", "vcpus": "4", "locked": "false", "metadata": '{"a":[1]}'}
    assert (change.seq, change.time, change.correlation_id, change.organization_id) == (7, NOON, "e1", "p1")
    assert change.versions == {"state": "v2"}
    assert change.unset == ()


def test_an_update_has_the_new_values_and_names_what_became_null():
    change = described("instance", "i1", state=("building", "active"), host=("n1", None))
    assert change.type is ChangeType.UPDATED
    assert change.resource.attributes == {"state": "active"}
    assert change.unset == ("host",)


def test_a_deletion_has_the_last_values():
    change = described("instance", "i1", "deleted", name=("web", None), vcpus=(4, None))
    assert change.type is ChangeType.DELETED
    assert change.resource.attributes == {"name": "web", "vcpus": "4"}
    assert change.unset == ()


def test_an_update_of_one_facet_is_one_of_a_sub_resource():
    change = described(
        "service_type_instance", "s1", status=("A", "B"), status_updated_at=("1", "2"), updated_at=("1", "2")
    )
    assert (change.type, change.subresource) == (ChangeType.SUBRESOURCE_UPDATED, "status")


def test_an_update_of_the_facet_that_carries_the_existence_is_one_of_the_resource():
    change = described("service_type_instance", "s1", spec=({"a": 1}, {"a": 2}), instance_name=("n", "m"))
    assert (change.type, change.subresource) == (ChangeType.UPDATED, "")


def test_an_update_of_two_facets_is_one_of_the_resource():
    change = described("service_type_instance", "s1", status=("A", "B"), provider_name=(None, "p"))
    assert (change.type, change.subresource) == (ChangeType.UPDATED, "")


def test_an_update_of_a_kind_with_one_facet_is_one_of_the_resource():
    assert described("workload", "w1", replicas=(1, 2)).type is ChangeType.UPDATED


def test_an_update_of_derived_fields_alone_is_one_of_the_resource():
    assert described("service_type_instance", "s1", provider_state=(None, "degraded")).type is ChangeType.UPDATED


def test_a_row_that_only_raised_a_version_is_no_change():
    assert described("instance", "i1") is None


def test_a_row_of_an_unknown_kind_is_no_change():
    assert described("unknown", "x", "created") is None


def test_a_member_sees_the_entities_of_its_project_only():
    assert described("instance", "i1", "created", name=(None, "web"), reader=MEMBER) is not None
    assert described("instance", "i1", "created", name=(None, "web"), project_id="p2", reader=MEMBER) is None
    assert described("compute_node", "n1", "created", project_id=None, reader=MEMBER) is None


def test_a_member_does_not_see_the_host_of_an_instance_anywhere():
    change = described(
        "instance", "i1", "created", values={"name": "web", "host": "n1", "source_host": "n2"}, reader=MEMBER,
        name=(None, "web"), host=(None, "n1"), source_host=(None, "n2"),
    )  # fmt: skip
    assert change.resource.attributes == {"name": "web"}
    assert change.resource.scope is None
    assert change.resource.references == ()


def test_a_change_of_hidden_fields_alone_is_no_change_for_a_member():
    assert described("instance", "i1", host=("n1", "n2"), reader=MEMBER) is None
