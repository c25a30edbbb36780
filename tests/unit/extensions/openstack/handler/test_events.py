# SPDX-License-Identifier: Apache-2.0
"""What each event type does, and that nothing else does anything."""

from __future__ import annotations

import datetime
import pathlib
import re

import pytest

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.openstack.handler.handler import NovaHandler
from watcher_sync.extensions.openstack.handler.ownership import ERRORS, INSTANCE_EVENTS, OTHER_ERROR
from watcher_sync.extensions.openstack.kinds import Instance
from watcher_sync.model.changes import Delete, Doubtful, Outcome, Seen, Upsert
from watcher_sync.model.kinds import kind_of

UPDATED = [
    "instance.create.end",
    "instance.update",
    "instance.lock",
    "instance.unlock",
    "instance.exists",
    "instance.pause.end",
    "instance.unpause.end",
    "instance.power_off.end",
    "instance.power_on.end",
    "instance.reboot.end",
    "instance.resume.end",
    "instance.suspend.end",
    "instance.shutdown.end",
    "instance.restore.end",
    "instance.rebuild.end",
    "instance.rescue.end",
    "instance.unrescue.end",
    "instance.shelve.end",
    "instance.unshelve.end",
    "instance.resize_confirm.end",
    "instance.resize_finish.end",
    "instance.resize_revert.end",
    "instance.live_migration_post_dest.end",
    "instance.live_migration_force_complete.end",
    "instance.live_migration_rollback.end",
    "instance.volume_attach.end",
    "instance.volume_detach.end",
    "instance.volume_swap.end",
    "instance.interface_attach.end",
    "instance.interface_detach.end",
    "instance.shelve_offload.end",
    "instance.soft_delete.end",
    "instance.resize.end",
    "instance.resize_finish.start",
    "instance.resize_revert.start",
    "instance.rescue.start",
    "instance.live_migration_abort.end",
]
FAILED = [
    "instance.create.error",
    "instance.rebuild.error",
    "instance.volume_attach.error",
    "instance.volume_detach.error",
    "instance.volume_swap.error",
    "instance.interface_attach.error",
    "instance.interface_detach.error",
    "instance.snapshot.error",
    "instance.resize.error",
]
SERVICES = ["service.create", "service.update"]
AGGREGATES = [
    "aggregate.create.end",
    "aggregate.add_host.end",
    "aggregate.remove_host.end",
    "aggregate.update_prop.end",
    "aggregate.update_metadata.end",
]
DELETED = ["instance.delete.end", "service.delete", "aggregate.delete.end"]
COMPUTE_TASKS = [
    "compute_task.build_instances.error",
    "compute_task.migrate_server.error",
    "compute_task.rebuild_server.error",
]
NOT_HEARD = [
    "instance.create.start",
    "instance.live_migration_post.end",
    "instance.live_migration_rollback_dest.end",
    "instance.live_migration_pre.end",
    "instance.resize_prep.end",
    "instance.evacuate",
    "instance.trigger_crash_dump.end",
    "aggregate.create.start",
    "aggregate.delete.start",
    "aggregate.cache_images.progress",
    "compute_task.build_instances.start",
    "compute.exception",
    "flavor.create",
    "keypair.create.end",
    "libvirt.connect.error",
    "metrics.update",
    "scheduler.select_destinations.end",
    "server_group.create",
    "volume.usage",
    "instance",
    "",
]


def made(nova, event_type):
    if event_type.startswith("service"):
        return nova.service(event_type, "host1", sent=3)
    if event_type.startswith("aggregate"):
        return nova.aggregate(event_type, "a1", sent=3, hosts=["host1"], zone="z1")
    state = "deleted" if event_type == "instance.delete.end" else "active"
    return nova.instance(event_type, at=2, sent=3, state=state)


SENT_BY_OTHERS = ["instance.update", "service.update", "service.delete", *AGGREGATES, "aggregate.delete.end"]
"""An API or a conductor sends them, some of them in the name of a compute."""
SENT_BY_OTHERS += ["instance.lock", "instance.unlock"]


def heard(event_type, event):
    """The sign of life that the event is."""
    return [] if event_type in SENT_BY_OTHERS else [Seen("compute_node", event.origin.split(":")[1], event.time)]


@pytest.mark.parametrize("event_type", UPDATED + FAILED + SERVICES + AGGREGATES)
def test_event_upserts_what_it_is_about_and_the_compute_that_sent_it_is_seen(nova, changes, event_type):
    event = made(nova, event_type)
    upsert, *others = changes(event)
    assert isinstance(upsert, Upsert)
    assert [change for change in others if not isinstance(change, Doubtful)] == heard(event_type, event)
    assert (Doubtful("instance", nova.VM) in others) == (event_type in FAILED)
    about = event_type.split(".")[0]
    expected = {
        "instance": ("instance", nova.VM),
        "service": ("compute_node", "host1"),
        "aggregate": ("aggregate", "a1"),
    }
    assert (upsert.kind, upsert.id) == expected[about]


@pytest.mark.parametrize("event_type", DELETED)
def test_event_deletes_what_it_is_about_and_the_compute_that_sent_it_is_seen(nova, changes, event_type):
    event = made(nova, event_type)
    delete, *others = changes(event)
    assert isinstance(delete, Delete)
    assert others == heard(event_type, event)
    about = event_type.split(".")[0]
    expected = {
        "instance": ("instance", nova.VM),
        "service": ("compute_node", "host1"),
        "aggregate": ("aggregate", "a1"),
    }
    assert (delete.kind, delete.id) == expected[about]


@pytest.mark.parametrize("event_type", UPDATED + FAILED + SERVICES + AGGREGATES + DELETED)
def test_event_leaves_in_the_model_what_it_tells(nova, player, event_type):
    snapshot = player.play(made(nova, event_type))
    assert player.outcomes == [Outcome.APPLIED]
    found = {kind: snapshot.ids(kind) for kind in ("instance", "compute_node", "aggregate")}
    if event_type in DELETED:
        assert found == {"instance": [], "compute_node": [], "aggregate": []}
    elif event_type in FAILED:
        assert found == {"instance": [nova.VM], "compute_node": [], "aggregate": []}
    elif event_type in UPDATED:
        assert found == {"instance": [nova.VM], "compute_node": ["host1"], "aggregate": []}
        assert snapshot.get("compute_node", "host1").discovered
    elif event_type in SERVICES:
        assert found == {"instance": [], "compute_node": ["host1"], "aggregate": []}
        assert not snapshot.get("compute_node", "host1").discovered
    else:
        assert found == {"instance": [], "compute_node": [], "aggregate": ["a1"]}


@pytest.mark.parametrize("event_type", NOT_HEARD)
def test_everything_else_is_ignored(nova, player, event_type):
    player.play(nova.event(event_type, {"nova_object.name": 5}, sent=1, publisher="nova-compute:host1"))
    assert player.outcomes == [Outcome.IGNORED]


def test_the_dispatch_table_is_the_contracts_table():
    dispatcher = Dispatcher([("nova", NovaHandler())])
    without_effect = ("", "on_heartbeat", "on_compute_exception")
    applied = {entry.pattern for entry in dispatcher.table() if entry.method not in without_effect}
    named = {event_type for event_type in FAILED if event_type in INSTANCE_EVENTS}
    assert applied == {*UPDATED, "instance.*.error", *named, *COMPUTE_TASKS, *SERVICES, *AGGREGATES, *DELETED}


@pytest.mark.parametrize("event_type", ["instance.live_migration_post.end", "metrics.update", "compute.exception"])
def test_an_ignored_notification_of_a_compute_is_a_sign_of_life_of_its_publisher(nova, player, event_type):
    player.play(nova.service("service.create", "host1", sent=1))
    snapshot = player.play(nova.event(event_type, {"nova_object.name": 5}, sent=2, publisher="nova-compute:host1"))
    assert player.outcomes == [Outcome.APPLIED, Outcome.IGNORED]
    assert snapshot.last_seen("compute_node", "host1") == datetime.datetime(2026, 1, 1, 12, 0, 2, tzinfo=datetime.UTC)


@pytest.mark.parametrize("event_type", [*UPDATED, "instance.create.error"])
def test_an_instance_with_a_time_of_deletion_is_deleted_whichever_event_says_so(nova, play, event_type):
    play(nova.instance("instance.create.end", at=0))
    snapshot = play(nova.instance(event_type, at=9, state="deleted", deleted_at="2026-01-01T12:00:09Z"))
    assert snapshot.count("instance") == snapshot.count("compute_node") == 0


@pytest.mark.parametrize("host", [None, "host1"])
def test_delete_end_deletes_whatever_its_host_is(nova, play, host):
    play(nova.instance("instance.create.end", at=0))
    assert play(nova.instance("instance.delete.end", at=9, host=host, state="deleted")).count("instance") == 0


def test_a_shelved_and_offloaded_instance_is_on_no_host(nova, play):
    play(nova.instance("instance.create.end", at=0))
    snapshot = play(nova.instance("instance.shelve_offload.end", at=5, host=None, node=None, state="shelved_offloaded"))
    instance = snapshot.get("instance", nova.VM)
    assert (instance.host, instance.node, instance.state) == (None, None, "shelved_offloaded")
    assert snapshot.ids("compute_node") == []
    assert play(nova.instance("instance.unshelve.end", at=9, host="host2")).ids("compute_node") == ["host2"]


def test_a_soft_deleted_instance_counts_on_its_host_until_delete_end(nova, play):
    play(nova.instance("instance.create.end", at=0))
    snapshot = play(nova.instance("instance.soft_delete.end", at=3, state="soft-delete"))
    assert snapshot.get("instance", nova.VM).state == "soft-deleted"
    assert [i.id for i in snapshot.by("instance", "host", "host1")] == [nova.VM]
    assert play(nova.instance("instance.restore.end", at=5)).get("instance", nova.VM).state == "active"
    play(nova.instance("instance.soft_delete.end", at=7, state="soft-delete"))
    assert play(nova.instance("instance.delete.end", at=9, state="deleted")).count("compute_node") == 0


def test_soft_delete_is_spelled_soft_deleted_in_any_event(nova, facets):
    assert facets(nova.instance("instance.update", state="soft-delete"))["state"]["state"] == "soft-deleted"
    assert facets(nova.instance("instance.delete.error", state="soft-delete"))["state"]["state"] == "soft-deleted"


def test_an_error_keeps_the_fault_and_moves_nothing(nova, play):
    play(nova.instance("instance.create.end", at=0))
    fault = {
        "nova_object.name": "ExceptionPayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {
            "module_name": "nova.tests",
            "function_name": "build",
            "exception": "FlavorDiskTooSmall",
            "exception_message": "The disk is too small.",
            "traceback": "Traceback (most recent call last):",
        },
    }
    failed = nova.instance("instance.rebuild.error", at=5, host="host9", state="error", task_state=None, fault=fault)
    instance = play(failed).get("instance", nova.VM)
    assert (instance.state, instance.host) == ("error", "host1")
    assert (instance.fault_type, instance.fault_message) == ("FlavorDiskTooSmall", "The disk is too small.")


def test_only_error_events_write_a_fault(nova, facets):
    assert set(facets(nova.instance("instance.update"))["fault"].values()) == {None}
    assert "fault" not in facets(nova.instance("instance.update", state="error"))
    assert facets(nova.instance("instance.create.error"))["fault"] == {"fault_type": None, "fault_message": None}
    assert "fault" not in facets(nova.instance("instance.create.error", without=("fault",)))


def test_a_service_tells_of_its_host_and_its_end_marks_or_removes_it(nova, play):
    node = play(
        nova.service("service.create", "host1", sent=1, availability_zone="az1"),
        nova.service("service.update", "host1", sent=2, disabled=True, disabled_reason="swap", availability_zone="az1"),
    ).get("compute_node", "host1")
    assert (node.status, node.disabled_reason, node.service_zone, node.availability_zone) == (
        "disabled",
        "swap",
        None,
        None,
    )
    play(nova.instance("instance.create.end", at=2))
    node = play(nova.service("service.delete", "host1", sent=3)).get("compute_node", "host1")
    assert (node.gone, node.status) == (True, None)
    assert play(nova.instance("instance.delete.end", at=5, state="deleted")).count("compute_node") == 0
    assert play(nova.service("service.create", "host1", sent=6)).get("compute_node", "host1").gone is False


def test_an_aggregate_gives_its_hosts_their_zone(nova, play):
    play(nova.service("service.create", "host1", sent=1), nova.service("service.create", "host2", sent=1))
    play(nova.aggregate("aggregate.create.end", "a1", sent=1, hosts=["host2"], zone="z1"))
    snapshot = play(nova.aggregate("aggregate.add_host.end", "a1", sent=2, hosts=["host2", "host1"], zone="z1"))
    assert snapshot.get("aggregate", "a1").hosts == ["host1", "host2"]
    assert {n.id: n.availability_zone for n in snapshot.all("compute_node")} == {"host1": "z1", "host2": "z1"}
    snapshot = play(nova.aggregate("aggregate.remove_host.end", "a1", sent=3, hosts=["host2"], zone="z1"))
    assert {n.id: n.availability_zone for n in snapshot.all("compute_node")} == {"host1": None, "host2": "z1"}
    snapshot = play(nova.aggregate("aggregate.update_metadata.end", "a1", sent=4, hosts=["host2"], zone="z2"))
    assert snapshot.get("compute_node", "host2").availability_zone == "z2"
    snapshot = play(nova.aggregate("aggregate.delete.end", "a1", sent=5, hosts=[], zone="z2"))
    assert snapshot.get("compute_node", "host2").availability_zone is None
    assert snapshot.count("aggregate") == 0


def test_the_publishers_host_is_seen_and_is_not_the_instances_host(nova, play):
    snapshot = play(
        nova.service("service.create", "source", sent=1),
        nova.instance("instance.resize_confirm.end", at=5, host="dest", publisher="nova-compute:source"),
    )
    assert snapshot.get("instance", nova.VM).host == "dest"
    assert snapshot.last_seen("compute_node", "source") == datetime.datetime(
        2026, 1, 1, 12, 0, 5, 500_000, datetime.UTC
    )
    assert snapshot.last_seen("compute_node", "dest") is None


@pytest.mark.parametrize(
    ("publisher", "host"),
    [
        ("nova-compute:a:b", "a:b"),
        ("nova-compute:", None),
        ("nova-compute", None),
        ("", None),
        ("nova-compute:" + "h" * 256, None),
        ("nova-api:host1", None),
        ("nova-conductor:host1", None),
    ],
)
def test_a_publisher_is_split_once_and_without_a_compute_no_host_is_seen(nova, changes, publisher, host):
    heard = [
        change.id
        for change in changes(nova.instance("instance.pause.end", publisher=publisher))
        if isinstance(change, Seen)
    ]
    assert heard == ([] if host is None else [host])


def test_an_event_without_a_time_is_no_sign_of_life(nova, changes):
    (change,) = changes(nova.service("service.update", "host1", sent=None))
    assert isinstance(change, Upsert)


@pytest.mark.parametrize("zone", [None, datetime.timezone(datetime.timedelta(hours=-7))], ids=["naive", "other"])
def test_the_time_at_which_a_host_is_seen_is_in_utc_whatever_the_envelope_says(nova, changes, zone):
    event = nova.instance("instance.pause.end", sent=5)
    time = event.time.replace(tzinfo=None) if zone is None else event.time.astimezone(zone)
    _, heard = changes(
        Event(id=event.id, type=event.type, source="nova", origin=event.origin, time=time, data=event.data)
    )
    assert heard.time == event.time
    assert heard.time.tzinfo is datetime.UTC


def test_the_documented_table_of_facets_is_the_handlers():
    text = (pathlib.Path(__file__).parents[5] / "doc/source/contributor/nova-events.rst").read_text()
    rows = re.findall(r"^   \* - ``(\S+)``\n     - (.*)\n     - (.*)$", text, re.MULTILINE)
    documented = {event_type: (facets, reason) for event_type, facets, reason in rows}
    table = {**INSTANCE_EVENTS, ERRORS: OTHER_ERROR}
    assert documented == {
        event_type: (", ".join(owner.facets) or "none", owner.reason) for event_type, owner in table.items()
    }


def test_every_facet_that_an_event_owns_is_one_of_the_instance():
    declared = set(kind_of(Instance).facets)
    assert all(declared.issuperset(owner.facets) and owner.reason for owner in INSTANCE_EVENTS.values())
