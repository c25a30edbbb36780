# SPDX-License-Identifier: Apache-2.0
"""CloudEvents as real publishers send them: what is accepted, and what is refused with which reason."""

from __future__ import annotations

import datetime
import json
from typing import Any

import pytest

from watcher_sync.events import Event
from watcher_sync.wire.envelopes import read_body, read_message, unread

GOOD: dict[str, Any] = {
    "specversion": "1.0",
    "id": "c-1",
    "source": "dcm/providers/p1",
    "type": "dcm.status.vm",
    "subject": "vm-1",
    "time": "2026-01-02T03:04:05Z",
    "datacontenttype": "application/json",
    "data": {"id": "vm-1", "status": "RUNNING"},
}
HEADERS = {
    "ce-specversion": "1.0",
    "ce-id": "c-1",
    "ce-source": "dcm/providers/p1",
    "ce-type": "dcm.status.vm",
    "ce-subject": "vm-1",
    "ce-time": "2026-01-02T03:04:05Z",
    "content-type": "application/json",
}
BODY = b'{"id":"vm-1","status":"RUNNING"}'
PLACE: dict[str, Any] = {"source": "dcm", "number": "dcm-status/9/7", "channel": "dcm.vm", "sequence": (9, 7)}


def structured(document: dict[str, Any]) -> Event:
    return read_message(json.dumps(document).encode(), None, **PLACE)


def without(document: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in document.items() if name not in names}


def test_both_modes_make_the_same_event() -> None:
    one, other = structured(GOOD), read_message(BODY, HEADERS, **PLACE)
    assert one.undecodable is None
    assert (one.id, one.type, one.origin, one.subject) == ("c-1", "dcm.status.vm", "dcm/providers/p1", "vm-1")
    assert one.time == datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert (one.channel, one.sequence, one.deliveries) == ("dcm.vm", (9, 7), 1)
    assert one.read() == other.read() == GOOD["data"]
    for name in ("id", "type", "source", "origin", "subject", "time", "channel", "sequence", "undecodable"):
        assert getattr(one, name) == getattr(other, name), name


@pytest.mark.parametrize(
    "document",
    [
        without(GOOD, "specversion") | {"specVersion": "1.0"},
        {name.upper(): value for name, value in GOOD.items()},
        without(GOOD, "time"),
        without(GOOD, "subject"),
        without(GOOD, "datacontenttype"),
        GOOD | {"time": None, "subject": None},
        GOOD | {"source": "kubevirt.localhost"},
        GOOD | {"time": "2026-01-02T03:04:05.123456789Z"},
        GOOD | {"comexampleextension": 7},
    ],
)
def test_what_real_publishers_get_wrong_is_accepted(document: dict[str, Any]) -> None:
    event = structured(document)
    assert event.undecodable is None
    assert event.id == "c-1"
    assert event.read() == GOOD["data"]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (without(GOOD, "id"), "id is missing"),
        (without(GOOD, "source"), "source is missing"),
        (without(GOOD, "type"), "type is missing"),
        (GOOD | {"id": ""}, 'id is "", not a name'),
        (GOOD | {"id": 7}, "id is 7, not a name"),
        (GOOD | {"specversion": "0.3"}, 'specversion is "0.3", not 1.0'),
        (GOOD | {"time": "yesterday"}, "time is"),
        (GOOD | {"subject": 7}, "subject is 7, not a string"),
        (GOOD | {"ID": "c-2"}, "two attributes have names that differ by case only"),
        (json.dumps(GOOD).replace('"c-1"', '"c-1", "id": "c-2"').encode(), "duplicate key id"),
        (json.dumps(GOOD).replace('"RUNNING"', "NaN").encode(), "data.status is NaN, which is no finite number"),
        (json.dumps(GOOD).replace("RUNNING", "RUNN\udcff").encode(errors="surrogateescape"), "not UTF-8 at byte"),
        (json.dumps(GOOD).replace('"RUNNING"', '"a", "status": "b"').encode(), "duplicate key data.status"),
        (b"", "empty body"),
    ],
)
def test_what_is_no_cloud_event_becomes_an_undecodable_event_with_the_reason(body: Any, reason: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    event = read_message(raw, None, **PLACE)
    assert event.undecodable is not None
    assert event.undecodable.startswith(reason)
    assert (event.data, event.channel, event.sequence) == (raw, "dcm.vm", (9, 7))


def test_what_has_no_id_gets_the_one_of_its_place_in_the_stream() -> None:
    assert read_message(b"{", None, **PLACE).id == "dcm-status/9/7"
    assert structured(without(GOOD, "source")).id == "c-1"


def test_names_of_headers_are_in_any_case_and_values_are_percent_decoded() -> None:
    headers = {name.title(): value for name, value in HEADERS.items()} | {"Ce-Subject": "vm%20%C3%A4"}
    event = read_message(BODY, headers, **PLACE)
    assert (event.undecodable, event.id, event.subject) == (None, "c-1", "vm ä")


@pytest.mark.parametrize(
    "headers",
    [
        {"Nats-Msg-Id": "1"},
        {"content-type": "application/cloudevents+json; charset=utf-8"},
        HEADERS | {"content-type": "application/cloudevents+json", "ce-id": "another"},
        {"ce-id": "no specversion, so no binary mode"},
    ],
)
def test_a_structured_body_counts_whatever_else_the_headers_say(headers: dict[str, str]) -> None:
    event = read_message(json.dumps(GOOD).encode(), headers, **PLACE)
    assert (event.undecodable, event.id) == (None, "c-1")


def test_a_binary_event_without_a_body_has_no_data() -> None:
    event = read_message(b"", HEADERS, **PLACE)
    assert (event.undecodable, event.data) == (None, None)


@pytest.mark.parametrize(
    ("headers", "body", "reason"),
    [
        (without(HEADERS, "ce-id"), BODY, "id is missing"),
        (HEADERS | {"ce-specversion": "2"}, BODY, 'specversion is "2", not 1.0'),
        (HEADERS | {"ce-time": "now"}, BODY, 'time is "now"'),
        (HEADERS | {"content-type": "text/plain"}, BODY, 'content-type is "text/plain", not JSON'),
        (HEADERS, b'{"a": NaN}', "a is NaN, which is no finite number"),
        (HEADERS, b"\xff", "not UTF-8 at byte 0"),
    ],
)
def test_a_bad_binary_event_stays_whole_in_structured_mode(headers: dict[str, str], body: bytes, reason: str) -> None:
    event = read_message(body, headers, **PLACE)
    assert event.undecodable is not None
    assert event.undecodable.startswith(reason)
    kept = json.loads(event.data)
    assert kept["source"] == "dcm/providers/p1"
    assert ("data" in kept) != ("data_base64" in kept)


@pytest.mark.parametrize("headers", [None, HEADERS])
def test_an_event_that_is_stored_unread_is_read_to_the_same_later(headers: dict[str, str] | None) -> None:
    body = BODY if headers else json.dumps(GOOD).encode()
    event = read_message(body, headers, **PLACE)
    kept = unread(body, headers, event, "delivered too often")
    assert (kept.id, kept.type, kept.sequence, kept.undecodable) == (
        event.id,
        event.type,
        (9, 7),
        "delivered too often",
    )
    again = read_body(kept.data, **PLACE)
    assert again.undecodable is None
    assert (again.id, again.type, again.subject, again.time) == (event.id, event.type, event.subject, event.time)
    assert again.read() == event.read()
