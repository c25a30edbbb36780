# SPDX-License-Identifier: Apache-2.0
"""What each of Cinder's notifications writes."""

from __future__ import annotations

import datetime
import json
import types
from pathlib import Path

import pytest
import watcher_sync_cinder
from watcher_sync_cinder.handler import CinderHandler

from tests.unit.contrib.cinder_events import (
    API,
    BACKEND,
    OTHER_POOL,
    POOL,
    SNAPSHOT,
    TYPE,
    VOLUME,
    backend,
    envelope,
    group,
    only,
    playing,
    pool,
    snapshot,
    unscheduled,
    volume,
    volume_type,
)
from watcher_sync.model.changes import Doubtful, Upsert
from watcher_sync.testing.stable_imports import assert_stable_imports
from watcher_sync.wire.envelopes import read_body

CREATED = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


def test_the_package_imports_the_stable_interface_only():
    assert_stable_imports(Path(watcher_sync_cinder.__file__).parent)


def test_a_created_volume_has_all_that_the_payload_has():
    assert only("volume", volume("create.end", 1, metadata={"tier": "gold"})) == {
        "id": VOLUME,
        "name": "data",
        "status": "available",
        "size_gb": 1,
        "project_id": "project",
        "user_id": "user",
        "availability_zone": "nova",
        "volume_type_id": TYPE,
        "snapshot_id": None,
        "created_at": CREATED,
        "metadata": {"tier": "gold"},
        "pool_id": POOL,
        "instance_ids": [],
        "attachments": [],
        "bootable": None,
        "multiattach": None,
        "source_volume_id": None,
        "migration_status": None,
        "name_id": None,
    }


def test_only_attachments_that_are_attached_count():
    found = only("volume", volume("attach.end", 1, status="in-use", attached=["vm-2", "vm-1"], reserved=["vm-3"]))
    assert found["instance_ids"] == ["vm-1", "vm-2"]
    assert found["attachments"] == [
        {"attachment_id": "a-vm-1", "instance_id": "vm-1"},
        {"attachment_id": "a-vm-2", "instance_id": "vm-2"},
    ]


def test_a_volume_without_a_host_is_in_no_pool():
    assert only("volume", volume("delete.start", 1, host=None))["pool_id"] is None
    assert only("volume", volume("delete.start", 1, host=""))["pool_id"] is None


def test_a_payload_without_attachments_leaves_them():
    silent = volume("retype", 2)
    del silent["payload"]["volume_attachment"]
    assert only("volume", volume("attach.end", 1, attached=["vm-1"]), silent)["instance_ids"] == ["vm-1"]


@pytest.mark.parametrize("event", ["delete.end", "unmanage.end", "group_delete.end"])
def test_a_volume_with_the_status_deleted_is_gone_for_good(event):
    found = playing(volume(event, 2, status="deleted"), volume("create.end", 1), volume("update.end", 3))
    assert "volume" not in found.entities


def test_a_deletion_that_begins_deletes_nothing():
    assert only("volume", volume("delete.start", 1, status="deleting"))["status"] == "deleting"


def test_a_later_event_of_any_unknown_type_writes_all_that_it_has():
    found = only("volume", volume("create.end", 1), volume("paint.end", 2, status="painted", host=OTHER_POOL))
    assert (found["status"], found["pool_id"]) == ("painted", OTHER_POOL)


def test_an_update_reports_the_name_and_copies_the_status():
    found = only(
        "volume",
        volume("create.end", 1, metadata={"tier": "gold"}),
        volume("update.end", 2, status="creating", display_name="renamed", metadata={}),
    )
    assert (found["name"], found["status"], found["metadata"]) == ("renamed", "available", {"tier": "gold"})


def test_an_update_that_comes_first_brings_all_of_the_volume():
    found = only("volume", volume("update.end", 2, metadata={"tier": "gold"}))
    assert (found["status"], found["metadata"]) == ("available", {"tier": "gold"})


def test_a_resize_has_the_old_size_at_its_start_and_the_new_one_at_its_end():
    begun, done = volume("resize.start", 1, status="extending"), volume("resize.end", 2, size=3)
    assert only("volume", begun)["size_gb"] == 1
    assert only("volume", done, begun)["size_gb"] == 3


@pytest.mark.parametrize(("action", "status"), [("create", "awaiting-transfer"), ("delete", "available")])
def test_the_end_of_a_transfer_has_the_status_that_cinder_has_just_written(action, status):
    before = {"create": "available", "delete": "awaiting-transfer"}[action]
    assert only("volume", volume(f"transfer.{action}.end", 1, status=before))["status"] == status


def test_the_end_of_a_revert_has_the_status_that_cinder_writes_next():
    assert only("volume", volume("revert.end", 1, status="reverting"))["status"] == "error"
    assert only("volume", volume("revert.end", 1))["status"] == "available"
    assert only("volume_snapshot", snapshot("revert.end", 1, status="restoring"))["status"] == "available"


@pytest.mark.parametrize("kind", [volume, snapshot])
def test_an_audit_of_the_past_changes_nothing(kind):
    begun = {"audit_period_beginning": "2026-01-01T11:00:00"}
    past = [kind(event, 9, status=status, **begun) for event, status in (("exists", "x"), ("delete.end", "deleted"))]
    found = playing(kind("create.end", 1), *past)
    assert found.outcomes["ignored"] == 2
    ((entity,),) = (found.entities["volume" if kind is volume else "volume_snapshot"].values(),)
    assert entity["status"] == "available"


def test_an_unscheduled_volume_is_in_error_and_in_no_pool():
    found = only("volume", volume("create.start", 1, status="creating"), unscheduled(2))
    assert (found["status"], found["pool_id"]) == ("error", None)


def test_a_volume_that_was_never_placed_is_known_from_the_request():
    found = only("volume", unscheduled(1))
    assert (found["name"], found["size_gb"], found["created_at"]) == ("data", 1, CREATED)
    assert (found["project_id"], found["metadata"]) == ("project", {"tier": "gold"})


def test_a_refused_retype_restores_the_status_and_leaves_the_pool():
    refused = unscheduled(2, method="retype", state={"status": "in-use"})
    found = only("volume", volume("attach.end", 1, status="retyping"), refused)
    assert (found["status"], found["pool_id"]) == ("in-use", POOL)


def test_a_scheduler_failure_without_a_status_changes_nothing():
    failed = unscheduled(2, method="migrate_volume_to_host", state={"migration_status": "error"})
    assert only("volume", volume("create.end", 1), failed)["status"] == "available"


def test_a_failed_snapshot_of_the_scheduler_is_in_error():
    payload = {"snapshot_id": SNAPSHOT, "state": "error", "method": "create_snapshot", "request_spec": {}}
    failed = envelope("scheduler.create_snapshot", 2, payload, "scheduler.controller", "ERROR")
    assert only("volume_snapshot", snapshot("create.start", 1, status="creating"), failed)["status"] == "error"


def test_a_snapshot_has_its_volume_and_its_size():
    assert only("volume_snapshot", snapshot("create.end", 1, volume_size=3)) == {
        "id": SNAPSHOT,
        "name": "monday",
        "status": "available",
        "size_gb": 3,
        "project_id": "project",
        "volume_id": VOLUME,
        "created_at": CREATED,
    }


def test_a_deleted_snapshot_is_gone_for_good():
    found = playing(snapshot("delete.end", 2, status="deleted"), snapshot("create.end", 3))
    assert "volume_snapshot" not in found.entities


def test_a_type_has_its_name_and_its_specs():
    found = only("volume_type", volume_type("create", 1), volume_type("update", 2, name="quick", is_public=False))
    assert found == {
        "id": TYPE,
        "name": "quick",
        "is_public": False,
        "extra_specs": {"volume_backend_name": "fast"},
    }


def test_a_deleted_type_is_gone():
    assert "volume_type" not in playing(volume_type("create", 1), volume_type("delete", 2)).entities


@pytest.mark.parametrize("event", ["create", "update", "delete"])
def test_a_refused_request_for_a_type_changes_nothing(event):
    found = playing(volume_type("create", 1), volume_type(event, 2, error="in use"))
    assert found.refused == []
    assert found.entities["volume_type"].keys() == {TYPE}


def test_changed_specs_change_nothing_without_a_comparison():
    changed = envelope("volume_type_extra_specs.update", 2, {"type_id": TYPE, "id": "tier"}, "volumeTypeExtraSpecs.c")
    assert only("volume_type", volume_type("create", 1), changed)["extra_specs"] == {"volume_backend_name": "fast"}


def test_a_pool_has_its_backend_and_its_capacity():
    assert only("storage_pool", pool(1)) == {
        "id": POOL,
        "backend_id": BACKEND,
        "name": "fast-a",
        "total_capacity_gb": 100.0,
        "free_capacity_gb": 90.0,
        "provisioned_capacity_gb": 10.0,
        "allocated_capacity_gb": 5.0,
        "max_over_subscription_ratio": None,
        "reserved_percentage": None,
        "total_volumes": None,
        "volume_backend_name": None,
    }


def test_a_report_of_a_backend_says_that_it_exists():
    assert only("storage_backend", backend(1))["id"] == BACKEND


@pytest.mark.parametrize(
    "broken",
    [
        volume("create.end", 1, size="large"),
        volume("create.end", 1, created_at=None),
        envelope("volume_type.create", 1, {"volume_types": {"name": "x"}}, "volumeType.controller"),
        {**volume("create.end", 1), "timestamp": "yesterday"},
    ],
)
def test_a_payload_of_another_form_is_in_quarantine(broken):
    assert playing(broken).outcomes["quarantined"] == 1


@pytest.mark.parametrize("late", ["create.end", "resize.end", "retype", "attach.end"])
def test_the_name_that_the_api_changed_meanwhile_stays(late):
    renamed = volume("update.end", 2, display_name="new", publisher=API)
    assert only("volume", volume("create.start", 1), renamed, volume(late, 3))["name"] == "new"
    assert only("volume", volume(late, 3), renamed)["name"] == "new"


@pytest.mark.parametrize(
    ("event", "known", "marked"),
    [
        ("create.start", None, False),
        ("manage_existing.end", None, False),
        ("attach.start", None, True),
        ("attach.start", VOLUME, False),
    ],
)
def test_a_volume_that_no_event_created_needs_a_comparison(event, known, marked):
    """Such is the target of a migration of an attached volume: Cinder publishes its attachment, and never its end."""
    view = types.SimpleNamespace(get=lambda kind, entity_id: known)
    changes = CinderHandler().on_volume(read_body(json.dumps(volume(event, 1)).encode(), source="test"), view)
    assert [type(change) for change in changes] == [Upsert, *([Doubtful] if marked else [])]


@pytest.mark.parametrize(
    ("event", "kind", "member"),
    [
        ("group.delete.end", "volume", volume),
        ("consistencygroup.delete.end", "volume", volume),
        ("group_snapshot.delete.end", "volume_snapshot", snapshot),
        ("cgsnapshot.delete.end", "volume_snapshot", snapshot),
    ],
)
def test_a_deleted_group_has_what_its_project_deletes_compared(event, kind, member):
    """Cinder publishes the start of each deletion, and the end of none."""
    key = f"{kind.rpartition('_')[2]}_id"
    members = [
        member("create.end", 1, **{key: SNAPSHOT}),
        *(member("delete.start", 2, status="deleting", **{key: entity_id}) for entity_id in (VOLUME, TYPE)),
        member("delete.start", 2, status="deleting", tenant_id="another", **{key: "other"}),
    ]
    known = [types.SimpleNamespace(**fields) for fields in playing(*members).entities[kind].values()]
    view = types.SimpleNamespace(by=lambda _kind, index, value: [one for one in known if getattr(one, index) == value])
    read = read_body(json.dumps(group(event, 3)).encode(), source="test")
    changes = getattr(CinderHandler(), CinderHandler.events[event])(read, view)
    assert sorted(change.id for change in changes if change == Doubtful(kind, change.id)) == [VOLUME, TYPE]
    assert playing(*members, group(event, 3)).outcomes["quarantined"] == 0


def test_a_known_backend_and_a_known_pool_write_what_the_event_reports_and_no_more():
    """The reconciler alone writes the rest: an event during its listing does not hold it off."""
    found = playing(backend(1), pool(1), backend(2), pool(2, free=80.0), batch_size=1)
    assert found.outcomes["applied"] == 3
    assert found.entities["storage_pool"][POOL]["free_capacity_gb"] == 80.0
