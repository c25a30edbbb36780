# SPDX-License-Identifier: Apache-2.0
"""Bad input: everything that a bus may deliver and that must not stop or mislead the engine.

Each item says whether it belongs into quarantine, and which word the reason must contain. Some items only seem bad:
nulls that Nova allows, unknown fields, text in any alphabet. The engine must apply them, so a test fails if it
quarantines everything. A duplicate key and a body of one mebibyte are refused: the first is ambiguous, and Nova
sends nothing of that size.

Each run of the generator has new ids, so a good item is always applied and never a duplicate.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any, Literal, NamedTuple

from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.notification_types import AGGREGATE, INSTANCE

MEBIBYTE = 1 << 20

NULLABLE = {
    "instance.update": (
        "action_initiator_project", "action_initiator_user", "architecture", "availability_zone", "block_devices",
        "created_at", "deleted_at", "display_description", "display_name", "host", "host_name", "image_uuid",
        "kernel_id", "key_name", "launched_at", "locked_reason", "node", "old_display_name", "os_type",
        "power_state", "progress", "ramdisk_id", "request_id", "reservation_id", "state", "task_state",
        "tenant_id", "terminated_at", "updated_at", "user_id",
    ),
    "instance.create.end": ("fault", "trusted_image_certificates", "instance_name"),
    "instance.rescue.end": ("rescue_image_ref",),
    "instance.create.error": ("fault",),
    "service.update": ("availability_zone", "disabled_reason", "last_seen_up"),
    "aggregate.create.end": ("hosts", "metadata"),
}  # fmt: skip
"""Event type -> the fields that Nova's payload classes declare nullable."""


class Poison(NamedTuple):
    """One body as it comes from the bus."""

    label: str
    raw: bytes
    quarantine: bool
    """False: it has to be applied, or ignored."""
    needle: str
    """What the reason has to contain, whatever the case; empty where any reason is right."""


def poison(rng: random.Random, *, form: Literal["bare", "oslo"] = "bare") -> Iterator[Poison]:
    """All kinds of bad input, a few hundred small bodies and a few of a mebibyte.

    :param form: whether the notifications among them are in the messagingv2 envelope.
    """

    def wire(document: Any) -> bytes:
        return json.dumps(notifications.oslo_envelope(document) if form == "oslo" else document).encode()

    def fresh(event_type: str = "instance.update", **overrides: Any) -> notifications.Document:
        overrides.setdefault("envelope", {"message_id": _uuid(rng)})
        if event_type in INSTANCE or event_type in AGGREGATE:
            overrides.setdefault("uuid", _uuid(rng))
        return notifications.event(event_type, **overrides)

    yield from _bodies(rng, fresh())
    yield from _envelopes(wire, fresh)
    yield from _values(wire, fresh)
    yield from _wrong_types(wire, fresh)
    for event_type, names in NULLABLE.items():
        for name in names:
            yield Poison(f"{event_type}: null in {name}", wire(fresh(event_type, **{name: None})), False, "")
    specs = fresh(flavor={"extra_specs": None, "description": None, "projects": None})
    yield Poison("instance.update: null in flavor.extra_specs", wire(specs), False, "")
    yield Poison("instance.create.end: no time at all", wire(fresh(created_at=None, updated_at=None)), False, "")


Wire = Callable[[Any], bytes]
Fresh = Callable[..., notifications.Document]


def _bodies(rng: random.Random, good: notifications.Document) -> Iterator[Poison]:
    """What is no JSON, or no JSON object."""
    text = json.dumps(good).encode()
    name = good["payload"][notifications.DATA]["display_name"].encode()
    yield Poison("an empty body", b"", True, "")
    yield Poison("not JSON", b"<notification>power_off</notification>", True, "")
    yield Poison("JSON cut off", text[: len(text) // 2], True, "")
    yield Poison("two JSON documents", text + text, True, "")
    yield Poison("invalid UTF-8", text.replace(b'"' + name + b'"', b'"\xff\xfe\xfd"', 1), True, "")
    yield Poison("UTF-16", json.dumps(good).encode("utf-16"), True, "")
    yield Poison("NaN where a number belongs", text.replace(b'"vcpus": 2', b'"vcpus": NaN'), True, "")
    yield Poison("Infinity where a number belongs", text.replace(b'"vcpus": 2', b'"vcpus": Infinity'), True, "")
    yield Poison("JSON nested 100,000 deep", b"[" * 100_000, True, "")
    yield Poison("random bytes", bytes([0xC1]) + rng.randbytes(4_000), True, "")
    yield Poison("a mebibyte of no JSON", b"x" * MEBIBYTE, True, "")
    for label, body in (("list", b"[]"), ("string", b'"instance.update"'), ("null", b"null"), ("number", b"42")):
        yield Poison(f"a JSON {label} instead of an object", body, True, "")


def _envelopes(wire: Wire, fresh: Fresh) -> Iterator[Poison]:
    """What is wrong around the payload."""
    inner = json.dumps(fresh())
    oslo: tuple[tuple[str, dict[str, Any], str], ...] = (
        ("oslo.message that is no text", {"oslo.version": "2.0", "oslo.message": 42}, "oslo.message"),
        ("oslo.message that is no JSON", {"oslo.version": "2.0", "oslo.message": inner[:-1]}, "oslo.message"),
        ("no oslo.message", {"oslo.version": "2.0"}, ""),
        ("an unknown oslo.version", {"oslo.version": "99.0", "oslo.message": inner}, "oslo.version"),
    )
    for label, document, needle in oslo:
        yield Poison(label, json.dumps(document).encode(), True, needle)
    for name in ("event_type", "payload"):
        document = fresh()
        del document[name]
        yield Poison(f"no {name}", wire(document), True, name)
    wrong: tuple[tuple[str, Any], ...] = (
        ("event_type", 7),
        ("payload", None),
        ("payload", []),
        ("payload", "text"),
        ("timestamp", "noon"),
    )
    for name, value in wrong:
        yield Poison(f"{name} is {value!r}", wire({**fresh(), name: value}), True, name)
    for name in ("nova_object.data", "nova_object.name", "nova_object.namespace", "nova_object.version"):
        document = fresh()
        del document["payload"][name]
        yield Poison(f"no {name}", wire(document), True, name.partition(".")[2])
    yield Poison("foreign namespace", wire(fresh(namespace="cinder")), True, "namespace")
    yield Poison("unknown major version", wire(fresh(payload_version="3.0")), True, "3.0")
    for event_type in ("service.update", "aggregate.create.end"):
        document = fresh(event_type, payload_version="2.0")
        yield Poison(f"{event_type}: unknown major version", wire(document), True, "2.0")
    yield Poison("version that is none", wire(fresh(payload_version="new")), True, "version")
    yield Poison("later minor version", wire(fresh(payload_version="2.99", extra={"new_field": {"a": [1]}})), False, "")
    yield Poison("unknown event type", wire({**fresh(), "event_type": "instance.teleport.end"}), False, "")
    duplicate = json.dumps(fresh()).replace('"priority": "INFO"', '"priority": "INFO", "priority": "INFO"', 1)
    body = json.dumps({"oslo.version": "2.0", "oslo.message": duplicate}) if b"oslo." in wire(fresh()) else duplicate
    yield Poison("a key that is there twice", body.encode(), True, "priority")


def _values(wire: Wire, fresh: Fresh) -> Iterator[Poison]:
    """What has the right type and cannot be right; and what is only unusual."""
    yield Poison("no uuid", wire(fresh(drop=("uuid",))), True, "uuid")
    yield Poison("null in uuid", wire(fresh(uuid=None)), True, "uuid")
    yield Poison("empty uuid", wire(fresh(uuid="")), True, "")
    yield Poison("a service without host", wire(fresh("service.update", drop=("host",))), True, "host")
    yield Poison("display_name of a mebibyte", wire(fresh(display_name="n" * MEBIBYTE)), True, "")
    yield Poison("display_name of 300 characters", wire(fresh(display_name="n" * 300)), True, "name")
    yield Poison("flavor with -1 vcpus", wire(fresh(flavor={"vcpus": -1})), True, "vcpus")
    yield Poison("flavor with too much memory", wire(fresh(flavor={"memory_mb": 10**30})), True, "")
    yield Poison("metadata of a mebibyte", wire(fresh(metadata={"blob": "b" * MEBIBYTE})), True, "")
    yield Poison("an unknown field of a mebibyte", wire(fresh(extra={"hints": "h" * MEBIBYTE})), True, "")
    yield Poison("an unknown field of 64 KiB", wire(fresh(extra={"hints": "h" * 65_536})), False, "")
    yield Poison("half of a surrogate pair in the name", wire(fresh(display_name="a\ud800")), False, "")
    yield Poison("half of a surrogate pair in the id", wire(fresh(uuid="a\ud800")), True, "replacement character")
    yield Poison("text of every alphabet", wire(fresh(display_name="sérveur-サーバ-🖥-'; DROP TABLE --")), False, "")
    yield Poison("host named like a uuid", wire(fresh(host="6f1d3b5a-8a52-4b63-a7b3-2e5c90d1f7a8")), False, "")
    yield Poison(
        "a field of another type that the model does not read",
        wire(fresh("service.update", availability_zone=3)),
        False,
        "",
    )
    yield Poison("fields of an older release only", wire(fresh(drop=("locked", "locked_reason", "shares"))), False, "")


def _wrong_types(wire: Wire, fresh: Fresh) -> Iterator[Poison]:
    """One field of another type than Nova's."""
    instance: tuple[tuple[str, Any], ...] = (
        ("uuid", 42), ("display_name", ["a"]), ("host", {"name": "h"}), ("node", 1.5), ("state", 4), ("task_state", []),
        ("power_state", 1), ("tenant_id", 12), ("image_uuid", True), ("metadata", ["a"]), ("locked", "yes"),
        ("locked_reason", 1), ("created_at", "yesterday"), ("updated_at", 1_772_366_400), ("launched_at", "2026-13-45"),
        ("ip_addresses", "10.0.0.1"), ("ip_addresses", {"address": "10.0.0.1"}), ("flavor", [2048]),
    )  # fmt: skip
    for name, value in instance:
        yield Poison(f"{name} is {value!r}", wire(fresh(**{name: value})), True, name)
    flavor: tuple[tuple[str, Any], ...] = (
        ("vcpus", "four"), ("memory_mb", "2 GiB"), ("root_gb", [20]), ("ephemeral_gb", 1.5), ("swap", {}),
        ("extra_specs", "none"),
    )  # fmt: skip
    for name, value in flavor:
        yield Poison(f"flavor.{name} is {value!r}", wire(fresh(flavor={name: value})), True, name)
    service: tuple[tuple[str, Any], ...] = (
        ("host", 1), ("disabled", "no"), ("forced_down", 2), ("disabled_reason", []),
    )  # fmt: skip
    for name, value in service:
        yield Poison(f"service: {name} is {value!r}", wire(fresh("service.update", **{name: value})), True, name)
    aggregate: tuple[tuple[str, Any], ...] = (("hosts", "compute-1"), ("hosts", [1]), ("metadata", []), ("name", 5))
    for name, value in aggregate:
        document = fresh("aggregate.create.end", **{name: value})
        yield Poison(f"aggregate: {name} is {value!r}", wire(document), True, name)


def _uuid(rng: random.Random) -> str:
    text = f"{rng.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"
