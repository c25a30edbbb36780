# SPDX-License-Identifier: Apache-2.0
"""Builders for Nova's versioned notifications, complete as on the wire, one for each event type.

A notification has the payload class and version that Nova uses for its event type, and all fields of that class. It
has nested objects in envelopes and the size of a real one. :func:`event` builds any type in
:mod:`watcher_sync.testing.nova.notification_types`.

Guarantees: each call builds a new document, and the same arguments build the same document (no clock, no random
numbers). A field that Nova does not have is refused, so a misspelt override cannot make a test pass. The values of
one event need not be consistent; :mod:`watcher_sync.testing.nova.cloud` makes consistent ones. No threads, no I/O.
"""

from __future__ import annotations

import json
import uuid as uuids
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from watcher_sync.testing.nova.notification_types import (
    ACTION,
    AGGREGATE,
    CREATE,
    ERRORS,
    EXISTS,
    INSTANCE,
    MORE,
    OTHER,
    PROJECT,
    SERVICE,
    UPDATE,
    USER,
    UUID,
    VERSIONS,
    Shape,
)

Document = dict[str, Any]
"""A JSON object as Python has it."""

DATA = "nova_object.data"
DEFAULT_TIME = "2026-03-01 12:00:00.000000"


def wrap(name: str, data: Document, *, version: str | None = None, namespace: str = "nova") -> Document:
    """A versioned object in its wire form.

    :param version: another version than the current one of this payload class.
    """
    return {
        DATA: data,
        "nova_object.name": name,
        "nova_object.namespace": namespace,
        "nova_object.version": VERSIONS[name] if version is None else version,
    }


def flavor(**fields: Any) -> Document:
    """A FlavorPayload; memory_mb and swap in MiB, root_gb and ephemeral_gb in GiB."""
    data = {
        "description": None, "disabled": False, "ephemeral_gb": 0,
        "extra_specs": {
            "hw:cpu_policy": "shared", "hw:mem_page_size": "large", "hw:watchdog_action": "disabled",
            "hw_rng:allowed": "True", "quota:vif_inbound_average": "125000",
        },
        "flavorid": "a3d1c0f2-6e0b-4a55-8f1d-0c6c1b9e7a42", "is_public": True, "memory_mb": 2048,
        "name": "m1.small", "projects": None, "root_gb": 20, "rxtx_factor": 1.0, "swap": 0,
        "vcpu_weight": 0, "vcpus": 2,
    }  # fmt: skip
    return wrap("FlavorPayload", _override("flavor", data, fields))


def address(text: str, *, port_uuid: str = "0f5d0b8e-43a7-4c58-9a3b-6d2f1e8c7b90") -> Document:
    """An IpPayload for one fixed address."""
    return wrap("IpPayload", {
        "address": text, "device_name": f"tap{port_uuid[:11]}", "label": "private", "mac": "fa:16:3e:5b:0c:a7",
        "meta": {}, "port_uuid": port_uuid, "version": 6 if ":" in text else 4,
    })  # fmt: skip


def volume(volume_id: str, *, device_name: str = "/dev/vdb", boot_index: int | None = None) -> Document:
    """A BlockDevicePayload for one attached volume."""
    return wrap("BlockDevicePayload", {
        "boot_index": boot_index, "delete_on_termination": False, "device_name": device_name, "tag": None,
        "volume_id": volume_id,
    })  # fmt: skip


def fault(exception: str = "NoValidHost", message: str = "No valid host was found.", **fields: Any) -> Document:
    """An ExceptionPayload."""
    data = {
        "exception": exception, "exception_message": message, "function_name": "_build_and_run_instance",
        "module_name": "nova.compute.manager",
        "traceback": "Traceback (most recent call last):\n  File \"nova/compute/manager.py\", line 2710, in _build\n",
    }  # fmt: skip
    return wrap("ExceptionPayload", _override("fault", data, fields))


def instance(
    event_type: str,
    *,
    drop: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    payload_version: str | None = None,
    namespace: str = "nova",
    **fields: Any,
) -> Document:
    """The notification of one instance event.

    :param event_type: one of :data:`INSTANCE`.
    :param drop: names of fields to leave out, as older payload versions do; ``flavor.x`` for the flavor's.
    :param extra: fields that Nova does not have (yet).
    :param envelope: overrides for message_id, publisher_id, priority, timestamp; None drops the field.
    :param fields: overrides. The field ``flavor`` may be a mapping of the fields that differ, and ``fault`` a pair
        (exception class, message). The field ``ip_addresses`` may be a list of texts, and ``block_devices`` a list of
        volume ids.
    :raises KeyError: for an unknown event type.
    :raises TypeError: for a field that this payload class does not have.
    """
    shape = INSTANCE[event_type]
    given = dict(fields)
    if isinstance(changes := given.get("flavor"), Mapping) and DATA not in changes:
        given["flavor"] = flavor(**changes)
    given.setdefault("flavor", flavor())
    given["ip_addresses"] = _each(given.get("ip_addresses", ["192.168.10.24"]), address)
    given["block_devices"] = _each(given.get("block_devices", []), volume)
    if event_type in ERRORS:
        given.setdefault("fault", fault())
    if isinstance(pair := given.get("fault"), tuple):
        given["fault"] = fault(*pair)
    data = _override(event_type, _instance_data(shape), given)
    for name in drop:
        if name.startswith("flavor."):
            del data["flavor"][DATA][name.removeprefix("flavor.")]
        else:
            del data[name]
    if extra:
        data.update(extra)
    payload = wrap(shape.payload, data, version=payload_version, namespace=namespace)
    publisher = f"nova-compute:{data.get('host') or 'compute-0'}"
    return _envelope(event_type, payload, publisher, str(data.get("uuid")), envelope)


def service(
    event_type: str,
    *,
    drop: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    payload_version: str | None = None,
    namespace: str = "nova",
    **fields: Any,
) -> Document:
    """The notification of one service event (one of :data:`SERVICE`); parameters as :func:`instance`."""
    if event_type not in SERVICE:
        raise KeyError(event_type)
    data = _override(event_type, {
        "availability_zone": None, "binary": "nova-compute", "disabled": False, "disabled_reason": None,
        "forced_down": False, "host": "compute-0", "last_seen_up": "2026-03-01T11:59:52Z", "report_count": 1,
        "topic": "compute", "uuid": "b4c7e0d5-2f4a-4f7e-8c8e-95a4b6f3d210", "version": 68,
    }, fields)  # fmt: skip
    publisher = f"{data['binary']}:{data['host']}"
    _reshape(data, drop, extra)
    payload = wrap("ServiceStatusPayload", data, version=payload_version, namespace=namespace)
    return _envelope(event_type, payload, publisher, publisher, envelope)


def aggregate(
    event_type: str,
    *,
    drop: Iterable[str] = (),
    extra: Mapping[str, Any] | None = None,
    envelope: Mapping[str, Any] | None = None,
    payload_version: str | None = None,
    namespace: str = "nova",
    **fields: Any,
) -> Document:
    """The notification of one aggregate event (one of :data:`AGGREGATE`); parameters as :func:`instance`."""
    if event_type not in AGGREGATE:
        raise KeyError(event_type)
    data = _override(event_type, {
        "hosts": ["compute-0"], "id": 1, "metadata": {"availability_zone": "az-1"}, "name": "zone-1",
        "uuid": "9d6e1b7c-0f53-4b0c-8c35-2a7e64d1f8b0",
    }, fields)  # fmt: skip
    subject = str(data["uuid"])
    _reshape(data, drop, extra)
    payload = wrap("AggregatePayload", data, version=payload_version, namespace=namespace)
    return _envelope(event_type, payload, "nova-api:controller-0", subject, envelope)


def other(event_type: str, *, envelope: Mapping[str, Any] | None = None, **fields: Any) -> Document:
    """A notification of Nova that says nothing about hosts or instances (one of :data:`OTHER`).

    :param fields: any fields of the payload; those that are left out are not checked.
    """
    name, binary, defaults = OTHER[event_type]
    payload = flavor(**fields) if name == "FlavorPayload" else wrap(name, {**json.loads(defaults), **fields})
    return _envelope(event_type, payload, f"{binary}:controller-0", "", envelope)


def event(event_type: str, **overrides: Any) -> Document:
    """The notification of any event type of the registry, by the builder that knows it.

    :raises KeyError: for an unknown event type.
    """
    if event_type in OTHER:
        return other(event_type, **overrides)
    builder = {"service": service, "aggregate": aggregate}.get(event_type.partition(".")[0], instance)
    return builder(event_type, **overrides)


def oslo_envelope(document: Document, *, context: bool = True) -> Document:
    """The messagingv2 envelope around a notification, as oslo.messaging puts it on the wire.

    :param context: add the request context (``_context_*``) and ``_unique_id`` that come with it there.
    """
    if context:
        document = {**document, **oslo_context(document)}
    return {"oslo.version": "2.0", "oslo.message": json.dumps(document)}


def oslo_context(document: Document) -> Document:
    """The request context and the unique id that a notification has on the wire besides its own fields.

    The request is that of the envelope or of the payload, if one of them has it.
    """
    payload = document.get("payload")
    data = payload.get(DATA) if isinstance(payload, dict) else None
    own = document.get(REQUEST) or (data.get("request_id") if isinstance(data, dict) else None)
    context = {**_CONTEXT, REQUEST: own} if own else _CONTEXT
    return {**context, "_unique_id": document.get("message_id", "").replace("-", "")}


def event_types() -> tuple[str, ...]:
    """Every event type that :func:`event` builds."""
    return (*INSTANCE, *SERVICE, *AGGREGATE, *OTHER)


REQUEST = "_context_request_id"
"""The field of an envelope with the request that made a service publish the notification."""

_CONTEXT = {
    "_context_user": USER, "_context_tenant": PROJECT, "_context_user_domain": "default",
    "_context_project_domain": "default", "_context_is_admin": False, "_context_read_only": False,
    REQUEST: "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55", "_context_roles": ["member", "reader"],
    "_context_remote_address": "10.20.0.11", "_context_timestamp": "2026-03-01T12:00:00.000000",
    "_context_user_name": "operator", "_context_project_name": "edge",
}  # fmt: skip


def instance_record() -> Document:
    """The fields that every instance payload has, as Nova's database holds them: flavor, ip_addresses and
    block_devices are plain, to be wrapped by :func:`from_record`."""
    return {
        "action_initiator_project": PROJECT, "action_initiator_user": USER, "architecture": "x86_64",
        "auto_disk_config": "MANUAL", "availability_zone": "nova", "block_devices": [],
        "created_at": "2026-03-01T11:00:00Z", "deleted_at": None,
        "display_description": "a server of the edge cloud, made by its tests", "display_name": "server-1",
        "flavor": flavor()[DATA], "host": "compute-0", "host_name": "server-1",
        "image_uuid": "6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8", "ip_addresses": ["192.168.10.24"], "kernel_id": "",
        "key_name": "key", "launched_at": "2026-03-01T11:00:20Z", "locked": False, "locked_reason": None,
        "metadata": {"role": "worker", "site": "edge-17", "owner": "platform", "recovery": "evacuate"},
        "node": "compute-0.edge.example.org", "os_type": "linux", "power_state": "running", "progress": 0,
        "ramdisk_id": "", "request_id": "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55", "reservation_id": "r-4k7x0q2m",
        "shares": [], "state": "active", "task_state": None, "tenant_id": PROJECT, "terminated_at": None,
        "updated_at": "2026-03-01T12:00:00Z", "user_id": USER, "uuid": UUID,
    }  # fmt: skip


def from_record(event_type: str, record: Document, more: Document, *, envelope: Document) -> Document:
    """The notification of a whole record, without the checks and comforts of :func:`instance`: for histories
    of hundreds of thousands of events. Nothing of the record is shared with the notification.

    :param record: as :func:`instance_record` gives it.
    :param more: fields that only this payload class has, ready for the wire; a fault as a pair.
    """
    shape = INSTANCE[event_type]
    data = {**record, **_own_fields(shape), **more}
    specs = record["flavor"]
    data["flavor"] = wrap("FlavorPayload", {**specs, "extra_specs": dict(specs["extra_specs"])})
    data["ip_addresses"] = [address(text) for text in record["ip_addresses"]]
    data["block_devices"] = [volume(text) for text in record["block_devices"]]
    data["metadata"] = dict(record["metadata"])
    data["shares"] = []
    if isinstance(pair := data.get("fault"), tuple):
        data["fault"] = fault(*pair)
    return _envelope(event_type, wrap(shape.payload, data), "", "", envelope)


def _instance_data(shape: Shape) -> Document:
    """Every field that this payload class has, with the values that go with the event."""
    data = instance_record()
    data.update(state=shape.state, task_state=shape.task_state, power_state=shape.power_state, **_own_fields(shape))
    if shape.state in ("deleted", "soft-delete"):
        data["deleted_at"] = data["updated_at"]
        data["terminated_at"] = data["updated_at"] if shape.state == "deleted" else None
    if shape.state == "shelved_offloaded":
        data["host"] = data["node"] = None
    return data


def _own_fields(shape: Shape) -> Document:
    """The fields of this payload class that not every instance payload has."""
    name = shape.payload
    if name == ACTION:
        return {"fault": None}
    if name in (UPDATE, EXISTS):
        period = wrap("AuditPeriodPayload", {
            "audit_period_beginning": "2026-03-01T00:00:00Z", "audit_period_ending": "2026-03-01T12:00:00Z",
        })  # fmt: skip
        if name == EXISTS:
            return {"audit_period": period}
        change = {
            "new_task_state": shape.task_state, "old_state": shape.state, "old_task_state": None, "state": shape.state,
        }  # fmt: skip
        update = wrap("InstanceStateUpdatePayload", change)
        return {"audit_period": period, "old_display_name": None, "tags": [], "state_update": update}
    if name == CREATE:
        return {
            "fault": None, "instance_name": "instance-0000002a", "keypairs": [], "tags": [],
            "trusted_image_certificates": None,
        }  # fmt: skip
    return {"fault": None, **MORE[name]}


def _each(values: Any, build: Any) -> Any:
    if not isinstance(values, Sequence) or isinstance(values, str):
        return values
    return [build(value) if isinstance(value, str) else value for value in values]


def _override(what: str, data: Document, fields: Mapping[str, Any]) -> Document:
    if not fields.keys() <= data.keys():
        raise TypeError(f"{what} has no field {', '.join(sorted(fields.keys() - data.keys()))}")
    data.update(fields)
    return data


def _reshape(data: Document, drop: Iterable[str], extra: Mapping[str, Any] | None) -> None:
    for name in drop:
        del data[name]
    if extra:
        data.update(extra)


def _envelope(
    event_type: str, payload: Document, publisher: str, subject: str, overrides: Mapping[str, Any] | None
) -> Document:
    envelope: Document = {
        "message_id": None,
        "publisher_id": publisher,
        "event_type": event_type,
        "priority": "ERROR" if event_type.endswith((".error", ".exception")) else "INFO",
        "payload": payload,
        "timestamp": DEFAULT_TIME,
    }
    if overrides:
        envelope.update(overrides)
        for name in [name for name, value in overrides.items() if value is None]:
            del envelope[name]
    if "message_id" in envelope and envelope["message_id"] is None:
        seed = f"{event_type} {subject} {envelope.get('timestamp')}"
        envelope["message_id"] = str(uuids.uuid5(uuids.NAMESPACE_OID, seed))
    return envelope
