# SPDX-License-Identifier: Apache-2.0
"""The body of a message in each format."""

from __future__ import annotations

import datetime
import json
from typing import Any

import msgspec
import pytest

from watcher_sync.extensions.webhooks.webhook_messages import NO_RESOURCES, MessageHead, content_type, encode

POD = {"name": "p", "id": "1", "kind": "pod", "status": {"phase": "Running", "text": "x" * 1000}}
CHANGES = {"created": [POD], "deleted": [{"name": "q", "id": "2"}], "modified": []}
HEAD = MessageHead(
    webhook_id="msg_1",
    sequence=7,
    previous_sequence=5,
    time=datetime.datetime(2026, 7, 1, 12, tzinfo=datetime.UTC),
)
DOCUMENT = {
    "instance-id": "a b",
    "subscription-name": "one",
    "metadata": {"m": 1},
    "resource-changes": CHANGES,
    "sequence": 7,
    "previous-sequence": 5,
    "time": "2026-07-01T12:00:00Z",
}
EVENT = {
    "specversion": "1.0",
    "id": "msg_1",
    "source": "/v1/instance/a%20b",
    "type": "watcher_sync.instance.status.changed",
    "subject": "one",
    "time": "2026-07-01T12:00:00Z",
    "datacontenttype": "application/json",
    "sequence": "7",
    "previoussequence": "5",
    "subscription": "one",
    "data": DOCUMENT,
}


class Subscribed(msgspec.Struct, frozen=True):
    format: str
    instance_id: str = "a b"
    name: str = "one"
    metadata: dict[str, Any] = msgspec.field(default_factory=lambda: {"m": 1})


def made(format, resources=CHANGES, head=HEAD, max_bytes=1_000_000):
    """The decoded message."""
    return json.loads(encode(Subscribed(format), resources, head, max_bytes))


def event(number, change, subject, data):
    kind = f"watcher_sync.instance.status.{change}"
    return {**EVENT, "id": f"msg_1/{number}", "type": kind, "subject": subject, "data": data}


@pytest.mark.parametrize(
    ("format", "media_type", "body"),
    [
        ("onap", "application/json", DOCUMENT),
        ("cloudevents", "application/cloudevents+json", EVENT),
        (
            "cloudevents-batch",
            "application/cloudevents-batch+json",
            [event(0, "created", "1", POD), event(1, "deleted", "2", {"name": "q", "id": "2"})],
        ),
    ],
)
def test_a_message_has_the_media_type_and_the_body_of_its_format(format, media_type, body):
    assert (content_type(Subscribed(format)), made(format)) == (media_type, body)


def test_a_batch_without_resources_is_one_notice():
    assert made("cloudevents-batch", NO_RESOURCES) == [event(0, "notice", "one", {"instance-id": "a b"})]
    head = msgspec.structs.replace(HEAD, more={"resync": True})
    assert made("cloudevents-batch", head=head)[2:] == [
        event(2, "notice", "one", {"instance-id": "a b", "resync": True})
    ]


@pytest.mark.parametrize("format", ["onap", "cloudevents", "cloudevents-batch"])
def test_a_message_that_is_too_large_is_sent_without_the_status_and_says_so(format):
    text = encode(Subscribed(format), CHANGES, HEAD, 1000)
    assert b'"truncated":true' in text
    assert b'"phase"' not in text
    assert b'"name":"p"' in text
    assert b'"truncated"' not in encode(Subscribed(format), CHANGES, HEAD, 1_000_000)


def test_further_members_are_in_the_document():
    assert made("onap", head=msgspec.structs.replace(HEAD, more={"resync": True})) == {**DOCUMENT, "resync": True}
