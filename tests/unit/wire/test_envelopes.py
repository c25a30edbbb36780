# SPDX-License-Identifier: Apache-2.0
"""Every document becomes one event: a good one by its envelope, a bad one with the field that is wrong."""

from __future__ import annotations

import base64
import datetime
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.wire.envelopes import read_body, read_document
from watcher_sync.wire.json import MAX_SIZE

OSLO: dict[str, Any] = {
    "message_id": "m-1",
    "publisher_id": "nova-compute:host1",
    "event_type": "instance.pause.end",
    "priority": "INFO",
    "payload": {"nova_object.data": {"memory_mb": 512}},
    "timestamp": "2026-01-02 03:04:05.000006",
}
CLOUD: dict[str, Any] = {
    "specversion": "1.0",
    "id": "c-1",
    "source": "dcm/providers/p1",
    "type": "dcm.status.vm",
    "subject": "vm-1",
    "time": "2026-01-02T05:04:05+02:00",
    "data": {"id": "vm-1", "status": "RUNNING"},
}
WATCH: dict[str, Any] = {
    "type": "MODIFIED",
    "object": {"kind": "Pod", "metadata": {"uid": "u-1", "resourceVersion": "77", "name": "p"}},
}


def body_of(document: Any) -> bytes:
    return json.dumps(document).encode()


def wrapped(document: Any, version: Any = "2.0") -> dict[str, Any]:
    return {"oslo.version": version, "oslo.message": json.dumps(document)}


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


@pytest.mark.parametrize("document", [OSLO, wrapped(OSLO)], ids=["bare", "messagingv2"])
def test_an_oslo_envelope_becomes_an_event_with_its_payload(document: Any) -> None:
    for event in (
        read_body(body_of(document), source="nova", position=3, deliveries=2),
        read_document(document, source="nova", position=3, deliveries=2),
    ):
        assert event.undecodable is None
        assert (event.id, event.type, event.source) == ("m-1", "instance.pause.end", "nova")
        assert event.origin == "nova-compute:host1"
        assert event.time == datetime.datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=datetime.UTC)
        assert event.read() == OSLO["payload"]
        assert (event.position, event.deliveries) == (3, 2)


def test_an_envelope_without_id_and_timestamp_is_numbered_by_the_caller() -> None:
    event = read_body(body_of(without(OSLO, "message_id", "timestamp")), source="nova", number=42)
    assert (event.id, event.time, event.undecodable) == ("000000000042", None, None)


def test_an_envelope_without_id_from_a_caller_that_cannot_count_has_the_same_id_every_time() -> None:
    first, again, other = (
        read_body(body_of(without(OSLO, "message_id") | {"event_type": name}), source="nova") for name in "aab"
    )
    assert first.id == again.id != other.id


def test_a_cloud_event_keeps_its_type_and_its_time_in_utc() -> None:
    event = read_body(body_of(CLOUD), source="dcm")
    assert event.undecodable is None
    assert (event.id, event.type, event.origin, event.subject) == ("c-1", "dcm.status.vm", "dcm/providers/p1", "vm-1")
    assert event.time == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert event.time.utcoffset() == datetime.timedelta(0)
    assert event.read() == CLOUD["data"]


def test_cloud_event_attributes_are_known_in_any_case_and_optional_ones_may_be_absent() -> None:
    document = {"specVersion": "1.0", "ID": "c", "Source": "s", "type": "dcm.status.vm"}
    event = read_body(body_of(document), source="dcm")
    assert (event.undecodable, event.id, event.subject, event.time, event.data) == (None, "c", "", None, None)


def test_cloud_event_data_in_base64_is_decoded() -> None:
    text = base64.b64encode(b'{"a": 1}').decode()
    event = read_body(body_of(without(CLOUD, "data") | {"data_base64": text}), source="dcm")
    assert event.read() == {"a": 1}


@pytest.mark.parametrize("what", ["ADDED", "MODIFIED", "DELETED"])
def test_a_watch_event_is_typed_by_kind_and_by_what_happened(what: str) -> None:
    event = read_body(body_of(WATCH | {"type": what}), source="edge")
    assert event.undecodable is None
    assert event.type == f"kubernetes.pod.{what.lower()}"
    assert (event.id, event.origin, event.subject, event.read()) == ("u-1/77", "edge", "p", WATCH["object"])


@pytest.mark.parametrize(
    ("document", "reason"),
    [
        ([], "the document is a list, not an envelope"),
        ("x", 'the document is "x", not an envelope'),
        (None, "the document is null, not an envelope"),
        ({}, "event_type is missing"),
        (without(OSLO, "event_type"), "event_type is missing"),
        (OSLO | {"event_type": 3}, "event_type is 3, not a name"),
        (OSLO | {"event_type": None}, "event_type is null, not a name"),
        (OSLO | {"event_type": ""}, 'event_type is "", not a name'),
        (OSLO | {"publisher_id": None}, "publisher_id is null, not a name"),
        (without(OSLO, "publisher_id"), "publisher_id is missing"),
        (without(OSLO, "payload"), "payload is missing"),
        (OSLO | {"payload": None}, "payload is null, not an object"),
        (OSLO | {"payload": [1]}, "payload is a list, not an object"),
        (OSLO | {"message_id": 7}, "message_id is 7, not a name"),
        (OSLO | {"timestamp": "yesterday"}, 'timestamp is "yesterday", not a date and time'),
        (OSLO | {"timestamp": None}, "timestamp is null, not a date and time"),
        (OSLO | {"timestamp": "2026-13-02 03:04:05"}, 'timestamp is "2026-13-02 03:04:05", not a date and time'),
        (OSLO | {"timestamp": "2026-01-02"}, 'timestamp is "2026-01-02", not a date and time'),
        (wrapped(OSLO, "3.0"), 'oslo.version is "3.0", not 2.0'),
        ({"oslo.message": "{}"}, "oslo.version is null, not 2.0"),
        (wrapped(OSLO) | {"oslo.message": OSLO}, "oslo.message is an object, not a string"),
        (wrapped([1]), "the document is a list, not an envelope"),
        (CLOUD | {"specversion": "0.3"}, 'specversion is "0.3", not 1.0'),
        (CLOUD | {"id": ""}, 'id is "", not a name'),
        (without(CLOUD, "source"), "source is missing"),
        (CLOUD | {"time": "noon"}, 'time is "noon", not a date and time'),
        (CLOUD | {"subject": 1}, "subject is 1, not a string"),
        (without(CLOUD, "data") | {"data_base64": "?"}, "data_base64 is no base64"),
        (without(CLOUD, "data") | {"data_base64": "e30x"}, "data_base64: not JSON at byte 2: Extra data"),
        (WATCH | {"type": "CHANGED"}, 'type is "CHANGED", not one of ADDED, BOOKMARK, DELETED, ERROR, MODIFIED'),
        (WATCH | {"object": None}, "object is null, not an object"),
        (WATCH | {"object": {"metadata": {}}}, "object.kind is missing"),
        (WATCH | {"object": {"kind": "Pod"}}, "object.metadata.uid is missing"),
        (WATCH | {"object": {"kind": "Pod", "metadata": {"uid": "u"}}}, "object.metadata.resourceVersion is missing"),
    ],
)
def test_a_wrong_envelope_is_undecodable_and_the_reason_names_the_field(document: Any, reason: str) -> None:
    body = body_of(document)
    event = read_body(body, source="s", number=1)
    assert event.undecodable == reason
    assert event.data == body
    assert read_document(document, source="s", number=1).undecodable == reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"hello", "not JSON at byte 0: Expecting value"),
        (b'{"event_type": "\xff"}', "not UTF-8 at byte 16"),
        (b'{"event_type": "a", "payload": {"x": NaN}}', "payload.x is NaN, which is no finite number"),
        (b'{"event_type": "a", "event_type": "b"}', "duplicate key event_type"),
        (b'{"event_type": "a\\ud800", "payload": {"x": 1, "x": 2}}', "duplicate key payload.x"),
    ],
)
def test_a_text_that_is_no_strict_json_is_undecodable_with_the_raw_text(body: bytes, reason: str) -> None:
    bare = read_body(body, source="s")
    assert (bare.undecodable, bare.data) == (reason, body)
    if b"\xff" not in body:
        outer = json.dumps({"oslo.version": "2.0", "oslo.message": body.decode()}).encode()
        inner = read_body(outer, source="s")
        assert (inner.undecodable, inner.data) == (f"oslo.message: {reason}", outer)


def test_an_undecodable_event_keeps_what_its_envelope_still_tells() -> None:
    event = read_body(body_of(OSLO | {"payload": None}), source="nova", number=1)
    assert (event.id, event.type, event.origin) == ("m-1", "instance.pause.end", "nova-compute:host1")


def test_a_body_over_the_limit_is_undecodable() -> None:
    body = body_of(OSLO)
    assert read_body(body, source="s", max_size=len(body)).undecodable is None
    event = read_body(body, source="s", max_size=len(body) - 1)
    assert event.undecodable == f"{len(body)} bytes are more than the {len(body) - 1} allowed"
    assert event.data == body


def test_a_number_that_is_not_finite_in_a_decoded_document_is_undecodable() -> None:
    event = read_document(OSLO | {"payload": {"x": float("nan")}}, source="s")
    assert event.undecodable == "payload.x is nan, which is no finite number"
    assert b"NaN" in event.data


def test_half_a_surrogate_pair_changes_no_limit_of_a_decoded_document() -> None:
    text = "я" * (MAX_SIZE // 4)
    whole, half = (read_document(OSLO | {"payload": {"text": text + end}}, source="s") for end in ("", "\udcff"))
    assert (whole.undecodable, half.undecodable) == (None, None)
    assert half.data == {"text": text + "\ufffd"}


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


@pytest.mark.slow
@given(st.sampled_from([OSLO, CLOUD, WATCH]), st.data())
def test_no_value_of_any_field_raises(document: dict[str, Any], data: st.DataObject) -> None:
    spoiled = document | {data.draw(st.sampled_from(sorted(document))): data.draw(ANYTHING)}
    for event in (read_document(spoiled, source="s"), read_body(body_of(spoiled), source="s")):
        assert event.id
        assert event.type
        assert event.undecodable is None or isinstance(event.data, bytes)
