# SPDX-License-Identifier: Apache-2.0
"""What a client writes of VNF instances is what the API has afterwards."""

from __future__ import annotations

import datetime

import pytest

from tests.syncing import syncing_with
from tests.unit.client.conftest import served
from tests.unit.extensions.vnf.api.test_instances import DEMO, demo
from tests.unit.extensions.vnf.api.test_sync import Syncing
from watcher_sync.assembly.api import make_application
from watcher_sync.client import (
    BadRequest,
    Conflict,
    Forbidden,
    InvalidId,
    NotFound,
    PreconditionFailed,
    SyncedPod,
    Unavailable,
    VnfOperation,
    connect,
)
from watcher_sync.exceptions import SourceError


@pytest.fixture
def syncing(store):
    return Syncing(store)


@pytest.fixture
def application(conf, store, syncing):
    return make_application(conf, store, extensions=syncing_with(syncing))


def test_an_instance_is_registered_replaced_and_deleted(client):
    made = client.register_vnf_instance(DEMO)
    vnf_id = made.entity["id"]
    assert client.stored("vnf_instance", vnf_id) == made
    assert "levels" not in made.entity
    replaced = client.replace_vnf_instance(vnf_id, demo(name="new"), if_match=made.etag)
    assert replaced.entity["name"] == "new"
    with pytest.raises(PreconditionFailed):
        client.replace_vnf_instance(vnf_id, DEMO, if_match=made.etag)
    with pytest.raises(PreconditionFailed):
        client.delete_vnf_instance(vnf_id, if_match=made.etag)
    client.delete_vnf_instance(vnf_id, if_match=replaced.etag)
    assert list(client.entities("vnf_instance")) == []
    with pytest.raises(NotFound):
        client.delete_vnf_instance(vnf_id)


def test_a_registration_is_not_repeated_and_a_replacement_with_if_match_creates_nothing(client):
    client.register_vnf_instance({"id": "a", **DEMO})
    with pytest.raises(Conflict):
        client.register_vnf_instance({"id": "a", **DEMO})
    with pytest.raises(PreconditionFailed):
        client.replace_vnf_instance("b", DEMO, if_match="*")
    assert client.replace_vnf_instance("b", DEMO).entity["id"] == "b"


def test_a_registration_that_makes_no_sense_is_refused_naming_the_fields(client):
    with pytest.raises(BadRequest) as refused:
        client.register_vnf_instance(demo(**{"aspects.vdu1_aspect.deltas.VDU1": 0}))
    assert [error.pointer for error in refused.value.errors] == ["/aspects/vdu1_aspect/deltas/VDU1"]


@pytest.mark.slow
def test_an_operation_is_begun_renewed_shown_listed_and_ended(client):
    client.register_vnf_instance({"id": "a", **DEMO})
    begun = client.begin_operation("a", "SCALE", "lcm-1")
    assert isinstance(begun, VnfOperation)
    assert (begun.operation, begun.holder, begun.state, begun.ended_at) == ("SCALE", "lcm-1", "RUNNING", None)
    beaten = client.heartbeat("a", begun.id, secret=begun.secret, token=begun.token)
    assert beaten.expires_at > begun.expires_at
    assert client.heartbeat("a", begun.id, secret=begun.secret).id == begun.id
    with pytest.raises(PreconditionFailed):
        client.heartbeat("a", begun.id, secret=begun.secret, token=begun.token + 1)
    with pytest.raises(PreconditionFailed):
        client.end_operation("a", begun.id, secret=begun.secret, token=begun.token + 1)
    with pytest.raises(Forbidden):
        client.end_operation("a", begun.id)
    client.end_operation("a", begun.id, secret=begun.secret, token=begun.token, state="FAILED")
    ended = client.shown_operation("a", begun.id)
    assert (ended.state, ended.expires_at) == ("FAILED", None)
    assert ended.ended_at.tzinfo is not None
    assert ended.ended_at >= begun.since - datetime.timedelta(seconds=1)
    client.end_operation("a", client.begin_operation("a", "HEAL", "lcm-2").id, force=True)
    assert [(o.operation, o.state) for o in client.operations("a")] == [("SCALE", "FAILED"), ("HEAL", "COMPLETED")]
    assert [o.operation for o in client.operations("a", limit=1)] == ["SCALE"]
    assert [o.operation for o in client.operations("a", marker=str(begun.token))] == ["HEAL"]


def test_the_holder_of_an_operation_may_write_and_others_are_refused_with_its_name(client):
    client.register_vnf_instance({"id": "a", **DEMO})
    begun = client.begin_operation("a", "SCALE", "lcm-1")
    for refused in (
        lambda: client.replace_vnf_instance("a", demo(name="new")),
        lambda: client.delete_vnf_instance("a"),
        lambda: client.begin_operation("a", "HEAL", "lcm-2"),
        lambda: client.sync_vnf_instance("a"),
    ):
        with pytest.raises(Conflict) as taken:
            refused()
        assert taken.value.document["holder"] == "lcm-1"
        assert taken.value.retry_after >= 1
    assert (
        client.replace_vnf_instance("a", demo(name="new"), token=begun.token, secret=begun.secret).entity["name"]
        == "new"
    )
    client.delete_vnf_instance("a", token=begun.token, secret=begun.secret)
    with pytest.raises(NotFound):
        client.stored("vnf_instance", "a")


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_sync_reports_what_was_found(client, syncing, dry_run):
    client.register_vnf_instance({"id": "a", **DEMO})
    report = client.sync_vnf_instance("a", dry_run=dry_run)
    assert (report.vnf_instance_id, report.dry_run, report.state, report.changed) == ("a", dry_run, "DRIFTED", True)
    assert report.vdu_results["VDU1"]["result"] == "DRIFTED"
    assert [(d.field, d.model_value, d.live_value) for d in report.differences] == [("state", "UNKNOWN", "DRIFTED")]
    assert report.pods[0] == SyncedPod(vdu="VDU1", vnfc_id="v1", old="vdu1-5d8f-aaaaa", new="vdu1-5d8f-bbbbb")
    assert syncing.asked == [("a", dry_run)]


def test_a_sync_that_cannot_be_done_says_why(client, syncing, conf, store):
    with pytest.raises(NotFound):
        client.sync_vnf_instance("a")
    client.register_vnf_instance({"id": "a", **DEMO})
    syncing.outcome = SourceError("edge: no route")
    with pytest.raises(Unavailable, match="edge: no route"):
        client.sync_vnf_instance("a")
    with (
        served(make_application(conf, store)) as url,
        pytest.raises(Unavailable, match="no source that is configured here follows the cluster"),
    ):
        connect(url).sync_vnf_instance("a")


@pytest.mark.slow
@pytest.mark.parametrize("vnf_id", ["", "..", "a/b", "a/sync"])
def test_an_id_that_would_be_another_path_is_not_asked_for(client, vnf_id):
    for asked in (
        lambda: client.replace_vnf_instance(vnf_id, DEMO),
        lambda: client.delete_vnf_instance(vnf_id),
        lambda: client.sync_vnf_instance(vnf_id),
        lambda: client.begin_operation(vnf_id, "SCALE", "lcm-1"),
        lambda: client.end_operation("a", vnf_id),
        lambda: client.shown_operation("a", vnf_id),
        lambda: client.operation(vnf_id, "SCALE"),
        lambda: client.operations(vnf_id),
    ):
        with pytest.raises(InvalidId):
            asked()
