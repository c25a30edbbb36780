# SPDX-License-Identifier: Apache-2.0
"""The trace context of an event comes from its envelope; a malformed one is none, and never a reason to refuse it."""

from __future__ import annotations

import json

import pytest

from watcher_sync.events import TraceContext
from watcher_sync.wire.envelopes import read_body, read_message

TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
REQUEST = "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55"
CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "dcm", "type": "dcm.status.vm", "data": {}}
NOTIFICATION = {"event_type": "instance.update", "publisher_id": "nova", "message_id": "1", "payload": {}}


def read(document, **more):
    event = read_body(json.dumps({**document, **more}).encode(), source="s")
    assert event.undecodable is None
    return event.trace


@pytest.mark.parametrize("name", ["traceparent", "TraceParent"])
def test_a_cloud_event_has_it_as_an_extension_attribute(name):
    assert read(CLOUD_EVENT, **{name: TRACEPARENT}) == TraceContext(traceparent=TRACEPARENT)


def test_a_cloud_event_in_binary_mode_has_it_as_a_header():
    headers = {f"ce-{name}": str(value) for name, value in CLOUD_EVENT.items() if name != "data"}
    event = read_message(b"{}", {**headers, "ce-traceparent": TRACEPARENT}, source="s")
    assert event.trace == TraceContext(traceparent=TRACEPARENT)
    assert read_message(b"{}", headers, source="s").trace is None


@pytest.mark.parametrize("wrong", [None, 7, "", "00-ab-cd-01", TRACEPARENT + "0", TRACEPARENT.upper(), ["x"]])
def test_a_malformed_one_is_none(wrong):
    assert read(CLOUD_EVENT, traceparent=wrong) is None
    assert read(NOTIFICATION, _context_global_request_id=wrong) is None


def test_a_notification_has_the_global_request_id_of_its_context():
    assert read(NOTIFICATION, _context_global_request_id=REQUEST) == TraceContext(global_request_id=REQUEST)
    wrapped = {
        "oslo.version": "2.0",
        "oslo.message": json.dumps({**NOTIFICATION, "_context_global_request_id": REQUEST}),
    }
    assert read(wrapped) == TraceContext(global_request_id=REQUEST)
    assert read(NOTIFICATION) is None
