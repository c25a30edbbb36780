# SPDX-License-Identifier: Apache-2.0
"""Which payloads pass the gate, and what their fields become."""

from __future__ import annotations

import datetime
import json
import time

import pytest

from tests.simulated import new_model, play
from tests.simulated import nova as nova_dispatcher
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Outcome, Upsert
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.nova import notifications
from watcher_sync.wire.envelopes import read_body, read_document

D = "payload.nova_object.data"
F = "nova_object.data/flavor"


@pytest.fixture(params=["document", "text"])
def form(request, nova):
    """A payload comes decoded, or as the JSON text that it was."""
    return nova.as_json if request.param == "text" else (lambda event: event)


def refusal(changes, event):
    with pytest.raises(InvalidEvent) as caught:
        changes(event)
    return str(caught.value)


BAD_FIELDS = [
    ("nova_object.data/uuid", None, f"{D}.uuid: Expected str, got null"),
    ("nova_object.data/uuid", "", f"{D}.uuid: Expected str of length >= 1"),
    ("nova_object.data/uuid", "x" * 256, f"{D}.uuid: Expected str of length <= 255"),
    ("nova_object.data/uuid", 7, f"{D}.uuid: Expected str, got int"),
    ("nova_object.data/host", 7, f"{D}.host: Expected str | null, got int"),
    ("nova_object.data/host", "", f"{D}.host: Expected str of length >= 1"),
    ("nova_object.data/display_name", "x" * 256, f"{D}.display_name: Expected str of length <= 255"),
    ("nova_object.data/state", ["active"], f"{D}.state: Expected str | null, got array"),
    ("nova_object.data/locked", "no", f"{D}.locked: Expected bool, got str"),
    ("nova_object.data/locked", None, f"{D}.locked: Expected bool, got null"),
    ("nova_object.data/locked_reason", ["x"], f"{D}.locked_reason: Expected str | null, got array"),
    ("nova_object.data/metadata", None, f"{D}.metadata: Expected object, got null"),
    ("nova_object.data/metadata", {"a": 1}, f"{D}.metadata[...]: Expected str, got int"),
    ("nova_object.data/metadata", [], f"{D}.metadata: Expected object, got array"),
    ("nova_object.data/updated_at", "yesterday", f"{D}.updated_at: Invalid RFC3339 encoded datetime"),
    ("nova_object.data/updated_at", 5, f"{D}.updated_at: Expected datetime | null, got int"),
    ("nova_object.data/updated_at", "0001-01-01T00:00:00+14:00", f"{D}.updated_at: a time outside of the calendar"),
    ("nova_object.data/launched_at", "0001-01-01T00:00:00+14:00", f"{D}.launched_at: a time outside of the calendar"),
    ("nova_object.data/ip_addresses", {}, f"{D}.ip_addresses: Expected array, got object"),
    ("nova_object.data/ip_addresses/0/nova_object.data", {}, f"{D}.ip_addresses[0].nova_object.data.address: missing"),
    (
        "nova_object.data/ip_addresses/0/nova_object.version",
        "2.0",
        f"{D}.ip_addresses[0].nova_object.version: Expected 1.x",
    ),
    (f"{F}/nova_object.data/vcpus", "1", f"{D}.flavor.nova_object.data.vcpus: Expected int, got str"),
    (f"{F}/nova_object.data/vcpus", -1, f"{D}.flavor.nova_object.data.vcpus: Expected int >= 0"),
    (f"{F}/nova_object.data/vcpus", None, f"{D}.flavor.nova_object.data.vcpus: Expected int, got null"),
    (f"{F}/nova_object.data/vcpus", True, f"{D}.flavor.nova_object.data.vcpus: Expected int, got bool"),
    (f"{F}/nova_object.data/memory_mb", 1.5, f"{D}.flavor.nova_object.data.memory_mb: Expected int, got float"),
    (f"{F}/nova_object.data/swap", 2**63, f"{D}.flavor.nova_object.data.swap: Expected int <= {2**62}"),
    (f"{F}/nova_object.data/extra_specs", {"a": None}, f"{D}.flavor.nova_object.data.extra_specs[...]: Expected str"),
    (f"{F}/nova_object.namespace", "mars", f"{D}.flavor.nova_object.namespace: Expected nova"),
    (f"{F}/nova_object.version", "2.0", f"{D}.flavor.nova_object.version: Expected 1.x, got '2.0'"),
    (F, {}, f"{D}.flavor.nova_object.data: missing"),
    (F, 3, f"{D}.flavor: Expected object | null, got int"),
    ("nova_object.data", None, f"{D}: Expected object, got null"),
    ("nova_object.data", [], f"{D}: Expected object, got array"),
]


@pytest.mark.parametrize(("path", "value", "reason"), BAD_FIELDS)
def test_a_bad_field_is_refused_by_its_path(nova, changes, form, path, value, reason):
    event = form(nova.put(nova.instance("instance.update"), path, value))
    assert refusal(changes, event).startswith(reason)


@pytest.mark.parametrize("where", ["flavor/nova_object.data/root_gb", "metadata/key", "display_name", "updated_at"])
def test_nan_in_a_used_field_is_refused(nova, changes, form, where):
    event = nova.put(nova.instance("instance.update"), f"nova_object.data/{where}", float("nan"))
    assert refusal(changes, form(event)).startswith("payload")


def test_a_lone_surrogate_is_refused_and_the_reason_can_be_stored(nova, changes, form):
    event = nova.put(nova.instance("instance.update"), "nova_object.data/display_name", "a\ud800b")
    assert refusal(changes, form(event)).encode()


@pytest.mark.parametrize(
    ("path", "value", "reason"),
    [
        ("nova_object.version", "2.0", "nova_object.version: Expected 1.x, got '2.0'"),
        ("nova_object.namespace", "mars", "nova_object.namespace: Expected nova"),
        ("nova_object.data/exception", 5, "nova_object.data.exception: Expected str | null, got int"),
        ("nova_object.data/exception_message", 5, "nova_object.data.exception_message: Expected str | null, got int"),
    ],
)
def test_a_bad_fault_is_refused_by_its_path(nova, changes, form, path, value, reason):
    fault = {
        "nova_object.name": "ExceptionPayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {"exception": "Boom", "exception_message": "It went."},
    }
    event = nova.put(nova.instance("instance.create.error", fault=fault), f"nova_object.data/fault/{path}", value)
    assert refusal(changes, form(event)).startswith(f"{D}.fault.{reason}")


def test_a_missing_uuid_is_refused(nova, changes, form):
    event = nova.drop(nova.instance("instance.update"), "nova_object.data/uuid")
    assert refusal(changes, form(event)) == f"{D}.uuid: missing"


def test_missing_data_is_refused(nova, changes, form):
    event = nova.drop(nova.instance("instance.update"), "nova_object.data")
    assert refusal(changes, form(event)) == f"{D}: missing"


@pytest.mark.parametrize("value", [5, "0", None, [], 1.5])
def test_a_payload_that_is_no_object_is_refused(nova, changes, value):
    for data in (value, json.dumps(value).encode()):
        event = nova.event("instance.update", data, sent=1, publisher="nova-compute:h")
        assert refusal(changes, event).startswith("payload: Expected object")


@pytest.mark.parametrize("text", [b"", b"{", b"\xff", b'{"nova_object.data": ' + b"[" * 100_000, b"NaN"])
def test_text_that_is_no_json_is_refused(nova, changes, text):
    event = nova.event("instance.update", text, sent=1, publisher="nova-compute:h")
    assert refusal(changes, event).startswith("payload")


def test_text_in_a_field_that_is_no_utf8_is_refused(nova, changes):
    event = nova.as_json(nova.instance("instance.update", display_name="NAME"))
    event = nova.event(event.type, event.data.replace(b"NAME", b"\xff\xfe"), sent=1, publisher="nova-compute:h")
    assert refusal(changes, event).startswith("payload")


def test_a_reason_does_not_carry_the_payload(nova, changes, form):
    secret = "s3cret" * 1000
    for path in (
        "nova_object.data/flavor/nova_object.namespace",
        "nova_object.data/updated_at",
        "nova_object.data/metadata",
    ):
        assert "s3cret" not in refusal(changes, form(nova.put(nova.instance("instance.update"), path, secret)))
    for path in ("nova_object.name", "nova_object.namespace", "nova_object.version"):
        assert len(refusal(changes, form(nova.put(nova.instance("instance.update"), path, secret)))) < 500


@pytest.mark.parametrize("field", ["disabled", "forced_down", "host", "binary"])
def test_a_bad_field_of_a_service_is_refused_by_its_path(nova, changes, form, field):
    event = form(nova.put(nova.service("service.update", "h", sent=1), f"nova_object.data/{field}", 5))
    assert refusal(changes, event).startswith(f"{D}.{field}: Expected")


@pytest.mark.parametrize("event_type", ["service.update", "service.delete"])
def test_a_compute_service_without_a_host_is_refused_and_another_one_ignored(nova, changes, form, event_type):
    assert refusal(changes, form(nova.service(event_type, None, sent=1))) == f"{D}.host: Expected str, got null"
    other = nova.service(event_type, None, sent=None, binary=None)
    assert list(changes(form(other))) == []


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("hosts", ["h", 5], "hosts[1]: Expected str, got int"),
        ("hosts", "h", "hosts: Expected array | null, got str"),
        ("uuid", None, "uuid: Expected str, got null"),
        ("name", None, "name: Expected str, got null"),
        ("metadata", {"availability_zone": "z" * 256}, "metadata.availability_zone: Expected str of length <= 255"),
    ],
)
def test_a_bad_field_of_an_aggregate_is_refused_by_its_path(nova, changes, form, field, value, reason):
    event = nova.aggregate("aggregate.create.end", "a1", sent=1, hosts=[])
    assert refusal(changes, form(nova.put(event, f"nova_object.data/{field}", value))) == f"{D}.{reason}"


# The gate


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("InstanceActionPayload", "1.0"),
        ("InstanceActionPayload", "1.99"),
        ("InstanceCreatePayload", "1.13"),
        ("InstanceUpdatePayload", "1.8"),
        ("InstanceUpdatePayload", "2.1"),
        ("InstanceUpdatePayload", "2.99"),
        ("InstanceExistsPayload", "2.1"),
        ("InstanceActionRebuildPayload", "1.10"),
        ("InstanceActionSnapshotPayload", "1.10"),
        ("InstanceActionVolumePayload", "1.7"),
        ("InstanceActionVolumeSwapPayload", "1.9"),
        ("InstanceActionRescuePayload", "1.4"),
        ("InstanceActionResizePrepPayload", "1.4"),
    ],
)
def test_a_known_payload_of_any_minor_version_passes(nova, changes, form, name, version):
    event = nova.put(
        nova.put(nova.instance("instance.update"), "nova_object.name", name), "nova_object.version", version
    )
    (change,) = changes(form(event))
    assert isinstance(change, Upsert)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("name", "InstanceFooPayload", "Expected one of InstancePayload, "),
        ("name", "ServiceStatusPayload", "Expected one of InstancePayload, "),
        ("name", ["InstanceActionPayload"], "Expected one of InstancePayload, "),
        ("namespace", "mars", "Expected nova, got 'mars'"),
        ("namespace", None, "Expected nova, got NoneType"),
        ("version", "2.0", "Expected InstanceActionPayload 1.x, got '2.0'"),
        ("version", "10.1", "Expected InstanceActionPayload 1.x, got '10.1'"),
        ("version", "", "Expected InstanceActionPayload 1.x, got ''"),
        ("version", "one", "Expected InstanceActionPayload 1.x, got 'one'"),
        ("version", 1.9, "Expected InstanceActionPayload 1.x, got float"),
    ],
)
def test_a_payload_that_we_do_not_know_is_refused(nova, changes, form, field, value, reason):
    event = form(nova.put(nova.instance("instance.power_on.end"), f"nova_object.{field}", value))
    assert refusal(changes, event).startswith(f"payload.nova_object.{field}: {reason}")


@pytest.mark.parametrize("field", ["name", "namespace", "version"])
def test_a_payload_that_does_not_say_what_it_is_is_refused(nova, changes, form, field):
    event = form(nova.drop(nova.instance("instance.power_on.end"), f"nova_object.{field}"))
    assert refusal(changes, event) == f"payload.nova_object.{field}: missing"


def test_an_unknown_major_version_is_refused_for_that_and_not_for_its_fields(nova, changes, form):
    event = nova.put(nova.instance("instance.power_on.end", uuid=5), "nova_object.version", "3.0")
    assert refusal(changes, form(event)).startswith("payload.nova_object.version")


def test_services_and_aggregates_have_gates_of_their_own(nova, changes, form):
    service = nova.put(nova.service("service.update", "h", sent=1), "nova_object.version", "2.0")
    assert refusal(changes, form(service)).startswith("payload.nova_object.version: Expected ServiceStatusPayload 1.x")
    aggregate = nova.aggregate("aggregate.delete.end", "a", sent=1, hosts=[])
    aggregate = nova.put(aggregate, "nova_object.name", "InstanceActionPayload")
    assert refusal(changes, form(aggregate)).startswith("payload.nova_object.name: Expected one of AggregatePayload")


# The fields


def test_every_field_of_an_instance_is_read(nova, facets, form):
    assert facets(form(nova.instance("instance.update", at=7, metadata={"a": "b"}))) == {
        "state": {
            "state": "active",
            "task_state": None,
        },
        "power": {
            "power_state": "running",
            "updated_at": datetime.datetime(2026, 1, 1, 12, 0, 7, tzinfo=datetime.UTC),
        },
        "details": {
            "name": "some-server",
            "host_name": "some-server",
            "project_id": "p1",
            "user_id": "u1",
            "image_id": "155d900f-4e14-4e4c-a73d-069cbf4541e6",
            "metadata": {"a": "b"},
            "key_name": "key",
            "created_at": datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC),
            "launched_at": datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC),
        },
        "flavor": {
            "vcpus": 2,
            "memory_mb": 2048,
            "disk_gb": 27,
            "root_gb": 20,
            "ephemeral_gb": 5,
            "swap_mb": 1025,
            "flavor_id": "f1",
            "flavor_name": "m1.small",
            "extra_specs": {"hw:cpu_policy": "shared"},
        },
        "network": {"ip_addresses": ["192.168.1.3"]},
        "lock": {"locked": False, "locked_reason": None},
        "placement": {"host": "host1", "node": "host1", "availability_zone": "nova"},
        "fault": {"fault_type": None, "fault_message": None},
    }


@pytest.mark.parametrize(
    ("field", "value", "changed"),
    [
        ("nova_object.data/display_name", "another", {"details": {"name": "another"}}),
        ("nova_object.data/metadata", {"a": "c"}, {"details": {"metadata": {"a": "c"}}}),
        ("nova_object.data/launched_at", None, {"details": {"launched_at": None}}),
        ("nova_object.data/state", "stopped", {"state": {"state": "stopped"}}),
        ("nova_object.data/task_state", "pausing", {"state": {"task_state": "pausing"}}),
        ("nova_object.data/host", None, {"placement": {"host": None}}),
        ("nova_object.data/availability_zone", "az2", {"placement": {"availability_zone": "az2"}}),
        ("nova_object.data/image_uuid", "", {"details": {"image_id": None}, "flavor": {"disk_gb": 7}}),
        (f"{F}/nova_object.data/vcpus", 4, {"flavor": {"vcpus": 4}}),
        (f"{F}/nova_object.data/swap", 0, {"flavor": {"swap_mb": 0, "disk_gb": 25}}),
        (f"{F}/nova_object.data/extra_specs", {}, {"flavor": {"extra_specs": {}}}),
        ("nova_object.data/ip_addresses", [], {"network": {"ip_addresses": []}}),
        ("nova_object.data/host_name", "other", {"details": {"host_name": "other"}}),
    ],
)
def test_an_event_of_a_known_instance_has_fields_of_the_facets_that_it_changes(
    nova, player, changes, form, field, value, changed
):
    player.play(form(nova.instance("instance.update", at=1, metadata={"a": "b"})))
    known = player.model.get("instance", nova.instance("instance.update").data["nova_object.data"]["uuid"])
    event = form(nova.put(nova.instance("instance.update", at=2, metadata={"a": "b"}), field, value))
    (upsert,) = [change for change in changes(event, player.model) if isinstance(change, Upsert)]
    different = {
        facet: {name: new for name, new in fields.items() if new != getattr(known, name)}
        for facet, fields in upsert.facets.items()
        if fields and facet not in ("power", "fault", "lock")
    }
    assert different == changed
    player.play(event)
    now = player.model.get("instance", known.id)
    assert {name: getattr(now, name) for fields in changed.values() for name in fields} == {
        name: new for fields in changed.values() for name, new in fields.items()
    }


@pytest.mark.parametrize("version", ["2.0", "1"])
def test_a_flavor_that_is_known_but_in_an_unknown_form_is_refused(nova, player, changes, form, version):
    player.play(form(nova.instance("instance.update", at=1)))
    event = form(nova.put(nova.instance("instance.update", at=2), f"{F}/nova_object.version", version))
    with pytest.raises(InvalidEvent, match=r"flavor\.nova_object\.version: Expected 1\.x"):
        changes(event, player.model)


def test_the_facets_name_exactly_the_fields_that_the_kind_declares(nova, facets):
    kind = builtin_kinds()["instance"]
    written = facets(nova.instance("instance.update", tags=["b", "a"])) | {
        "fault": facets(nova.instance("instance.create.error"))["fault"],
        "resize": facets(nova.instance("instance.resize.end"))["resize"],
        "request": facets(nova.instance("instance.rescue.end"))["request"],
    }
    assert {facet: set(fields) for facet, fields in written.items()} == {
        facet: set(fields) for facet, fields in kind.facet_fields.items() if facet not in ("pin", "group")
    }


NULLABLE = {
    "display_name": "name",
    "host_name": "host_name",
    "tenant_id": "project_id",
    "user_id": "user_id",
    "host": "host",
    "node": "node",
    "state": "state",
    "task_state": "task_state",
    "power_state": "power_state",
    "locked_reason": "locked_reason",
    "image_uuid": "image_id",
    "key_name": "key_name",
    "availability_zone": "availability_zone",
    "created_at": "created_at",
    "updated_at": "updated_at",
    "launched_at": "launched_at",
}


def flat(facets):
    return {name: value for fields in facets.values() for name, value in fields.items()}


@pytest.mark.parametrize("field", NULLABLE)
def test_null_stays_null_and_missing_is_left_out(nova, facets, form, field):
    event = nova.instance("instance.update", at=5)
    null = flat(facets(form(nova.put(event, f"nova_object.data/{field}", None))))
    assert null[NULLABLE[field]] is None
    missing = flat(facets(form(nova.drop(event, f"nova_object.data/{field}"))))
    assert NULLABLE[field] not in missing
    lost = set(null) - set(missing)
    also = {"image_uuid": {"disk_gb"}, "task_state": {"fault_type", "fault_message"}}  # without it nothing is settled
    assert lost == {NULLABLE[field], *also.get(field, ())}


def test_a_payload_with_all_nullable_fields_null_is_whole(nova, play, form):
    event = nova.instance("instance.update", at=None, **dict.fromkeys(set(NULLABLE) - {"created_at", "updated_at"}))
    instance = play(form(nova.put(event, "nova_object.data/created_at", None))).get("instance", nova.VM)
    assert (instance.name, instance.host, instance.state, instance.created_at) == (None, None, None, None)
    assert (instance.vcpus, instance.locked) == (2, False)


OLD = ("locked", "locked_reason", "key_name", "updated_at", "block_devices", "availability_zone", "user_id", "fault")


def test_an_old_payload_keeps_what_it_does_not_know(nova, play, form):
    play(nova.instance("instance.create.end", at=1, locked=True, locked_reason="audit"))
    old = nova.instance("instance.update", at=5, sent=5, without=(*OLD, "ip_addresses", "metadata"), state="stopped")
    old = nova.put(old, "nova_object.data/created_at", "2026-01-01T12:00:30Z")
    for name in ("swap", "name", "extra_specs"):
        old = nova.drop(old, f"nova_object.data/flavor/nova_object.data/{name}")
    instance = play(form(old)).get("instance", nova.VM)
    assert instance.state == "stopped"
    assert (instance.locked, instance.locked_reason, instance.key_name, instance.user_id) == (
        True,
        "audit",
        "key",
        "u1",
    )
    assert (instance.swap_mb, instance.flavor_name, instance.disk_gb) == (1025, "m1.small", 25)
    assert (instance.ip_addresses, instance.metadata) == (["192.168.1.3"], {})


@pytest.mark.parametrize("how", ["null", "missing"])
def test_without_a_flavor_its_fields_are_left_out(nova, facets, form, how):
    event = nova.instance("instance.update")
    event = (
        nova.put(event, "nova_object.data/flavor", None)
        if how == "null"
        else nova.drop(event, "nova_object.data/flavor")
    )
    assert "flavor" not in facets(form(event))
    assert set(builtin_kinds()["instance"].facet_fields["flavor"]).isdisjoint(flat(facets(form(event))))


@pytest.mark.parametrize(
    ("image", "root", "ephemeral", "swap", "disk"),
    [
        ("i", 20, 0, 0, 20),
        ("", 20, 0, 0, 0),
        (None, 20, 3, 0, 3),
        ("i", 20, 5, 1, 26),
        ("i", 20, 5, 1024, 26),
        ("i", 20, 5, 1025, 27),
        ("", 20, 5, 512, 6),
        ("i", 0, 0, 0, 0),
    ],
)
def test_disk_is_the_root_unless_booted_from_a_volume_and_ephemeral_and_swap(
    nova, facets, form, image, root, ephemeral, swap, disk
):
    event = nova.instance("instance.update", image_uuid=image)
    for name, value in (("root_gb", root), ("ephemeral_gb", ephemeral), ("swap", swap)):
        event = nova.put(event, f"nova_object.data/flavor/nova_object.data/{name}", value)
    found = facets(form(event))
    assert found["flavor"]["disk_gb"] == disk
    assert found["details"]["image_id"] == (image or None)


@pytest.mark.parametrize(
    ("told", "expected"),
    [("2026-01-01T12:00:00Z", 12), ("2026-01-01T12:00:00", 12), ("2026-01-01T14:00:00+02:00", 12)],
)
def test_times_are_utc_whether_they_say_so_or_not(nova, facets, form, told, expected):
    launched = facets(form(nova.instance("instance.update", launched_at=told)))["details"]["launched_at"]
    assert launched == datetime.datetime(2026, 1, 1, expected, tzinfo=datetime.UTC)
    assert launched.tzinfo is datetime.UTC


@pytest.mark.parametrize("hosts", [None, [], [*"qwertyuiopasdfghjklzxcvbnm", "a"]])
@pytest.mark.parametrize("zone", [None, {}, {"availability_zone": "z"}, {"availability_zone": None, "other": "x"}])
def test_every_field_of_an_aggregate_is_read(nova, facets, form, hosts, zone):
    event = nova.put(
        nova.aggregate("aggregate.create.end", "a1", sent=1, hosts=hosts), "nova_object.data/metadata", zone
    )
    found = facets(form(event))
    assert found.pop("state") == {
        "name": "aggregate a1",
        "number": 1,
        "metadata": zone,
        "availability_zone": zone.get("availability_zone") if zone else None,
    }
    assert found == ({} if hosts is None else {"hosts": {"hosts": sorted(set(hosts)), "joins": None}})


def test_equal_strings_equal_extra_specs_and_empty_metadata_are_in_memory_once(nova, facets):
    def texts():
        event = nova.as_json(nova.instance("instance.update", host="a host", node="a node", tenant_id="a project"))
        found = facets(event)
        details = found["details"]
        return [
            *found["placement"].values(),
            details["project_id"],
            details["metadata"],
            found["flavor"]["extra_specs"],
        ]

    assert all(one is other for one, other in zip(texts(), texts(), strict=True))


def test_the_handler_spends_microseconds_on_an_instance_event(nova, changes):
    """The budget is 12 microseconds on a quiet machine; this only catches a handler gone quadratic."""
    event = nova.instance("instance.power_off.end")
    started = time.thread_time()
    for _ in range(2000):
        changes(event)
    assert (time.thread_time() - started) / 2000 < 100e-6


def test_the_event_is_not_changed(nova, changes):
    event = nova.instance("instance.update", metadata={"a": "b"})
    before = json.dumps(event.data)
    changes(event)
    assert json.dumps(event.data) == before


def test_equal_metadata_and_equal_names_are_in_memory_once(nova, facets):
    """JSON text on purpose: the decoder makes fresh objects of it each time."""
    first, second = (
        facets(nova.as_json(nova.instance("instance.update", uuid=f"vm-{n}", metadata={"a": "b"})))["details"]
        for n in range(2)
    )
    assert first["metadata"] == {"a": "b"}
    assert first["metadata"] is second["metadata"]
    assert first["host_name"] is first["name"]


@pytest.mark.parametrize(
    ("message", "stored"),
    [
        ("x" * 70_000, "x" * 65_534 + "…"),
        ("cut \0 here", "cut \ufffd here"),
        ("byte \udcff", "byte \ufffd"),
        ("line\n\U0001f680", "line\n\U0001f680"),
    ],
)
def test_a_failure_shows_whatever_its_message_is(message, stored):
    fault = {
        "nova_object.name": "ExceptionPayload",
        "nova_object.namespace": "nova",
        "nova_object.version": "1.1",
        "nova_object.data": {"exception": "Boom", "exception_message": message},
    }
    document = notifications.event("instance.create.error", uuid="a", state="error", fault=fault)
    document |= {"message_id": "m", "timestamp": "2026-01-01 12:00:00.0"}
    model = new_model()
    readers = (
        lambda: read_body(json.dumps(document).encode(), source="s"),
        lambda: read_document(document, source="s"),
    )
    outcomes = [play(model, nova_dispatcher(), [read()])[0] for read in readers]
    assert outcomes == [Outcome.APPLIED, Outcome.DUPLICATE]
    assert model.get("instance", "a").fault_message == stored
