# SPDX-License-Identifier: Apache-2.0
"""The bodies of deliveries in each format."""

from __future__ import annotations

import datetime

import msgspec
import pytest

from tests.simulated import NOON
from watcher_sync.extensions.webhooks.rows import SubscriptionRow
from watcher_sync.extensions.webhooks.webhook_messages import MessageHead, content_type, encode
from watcher_sync.wire.cloud_events import read_structured
from watcher_sync.wire.fields import EventDelivery

POD = {
    "name": "p",
    "GVK": {"Group": "", "Version": "v1", "Kind": "Pod"},
    "kind": "pod",
    "id": "uid-p",
    "status": {"phase": "Running", "created_at": NOON},
}
OTHER = {**POD, "id": "uid-q", "name": "q"}
NOTHING = {"created": [], "deleted": [], "modified": []}
CHANGES = {"created": [POD], "deleted": [], "modified": [OTHER]}
HEAD = MessageHead(webhook_id="msg_1", sequence=12, previous_sequence=7, time=NOON)


def subscription(format="onap", **values):
    return SubscriptionRow(
        **{
            "id": "uuid",
            "instance_kind": "vnf_instance",
            "instance_id": "v",
            "name": "s",
            "project_id": None,
            "user_id": None,
            "sees_admin_only": True,
            "callback_url": "https://x/",
            "min_notify_interval": 0.0,
            "metadata": {"a": [1]},
            "format": format,
            "created_at": NOON,
            "updated_at": NOON,
            **values,
        }
    )


def decoded(format="onap", changes=CHANGES, head=HEAD, max_bytes=10**6, **values):
    return msgspec.json.decode(encode(subscription(format, **values), changes, head, max_bytes))


def test_onap_has_its_members_first_and_then_ours():
    body = decoded()
    assert list(body) == [
        "instance-id", "subscription-name", "metadata", "resource-changes", "sequence", "previous-sequence", "time",
    ]  # fmt: skip
    assert (body["instance-id"], body["subscription-name"], body["metadata"]) == ("v", "s", {"a": [1]})
    assert (body["sequence"], body["previous-sequence"]) == (12, 7)
    assert datetime.datetime.fromisoformat(body["time"]) == NOON
    assert [each["id"] for each in body["resource-changes"]["created"]] == ["uid-p"]
    assert [each["id"] for each in body["resource-changes"]["modified"]] == ["uid-q"]


@pytest.mark.parametrize("format", ["onap", "cloudevents"])
def test_no_array_is_null(format):
    body = decoded(format, NOTHING)
    assert (body["data"] if format == "cloudevents" else body)["resource-changes"] == NOTHING


def test_the_content_types_are_those_of_the_formats():
    assert [content_type(subscription(each)) for each in ("onap", "cloudevents", "cloudevents-batch")] == [
        "application/json", "application/cloudevents+json", "application/cloudevents-batch+json",
    ]  # fmt: skip


def check_event(event):
    """The rules of CloudEvents 1.0.2 for attributes."""
    assert event["specversion"] == "1.0"
    for name, value in event.items():
        assert name == "data" or (name.isascii() and name.isalnum() and name == name.lower() and len(name) <= 20)
        assert name == "data" or (isinstance(value, str) and value)
    assert datetime.datetime.fromisoformat(event["time"]).tzinfo is not None
    assert read_structured(event, EventDelivery(source="test", number=1), None).id == event["id"]


def test_a_cloud_event_has_the_onap_body_as_its_data():
    event = decoded("cloudevents")
    check_event(event)
    assert event["data"] == decoded()
    assert event["id"] == "msg_1"
    assert event["type"] == "watcher_sync.instance.status.changed"
    assert (event["sequence"], event["previoussequence"]) == ("12", "7")


def test_a_batch_has_an_event_with_an_id_of_its_own_for_each_resource():
    events = decoded("cloudevents-batch", {**CHANGES, "deleted": [{**POD, "id": "uid-r"}]})
    for event in events:
        check_event(event)
    assert [(each["id"], each["subject"], each["type"].rpartition(".")[2]) for each in events] == [
        ("msg_1/0", "uid-p", "created"),
        ("msg_1/1", "uid-r", "deleted"),
        ("msg_1/2", "uid-q", "modified"),
    ]
    assert events[0]["data"]["id"] == "uid-p"


@pytest.mark.parametrize("more", [{}, {"state": "gone", "reason": "the instance was deleted"}])
def test_a_batch_without_resources_or_with_news_of_the_subscription_has_a_notice(more):
    head = msgspec.structs.replace(HEAD, more=more)
    (event,) = decoded("cloudevents-batch", NOTHING, head)
    check_event(event)
    assert event["type"] == "watcher_sync.instance.status.notice"
    assert event["data"] == {"instance-id": "v", **more}


@pytest.mark.parametrize("format", ["cloudevents", "cloudevents-batch"])
@pytest.mark.parametrize("instance_id", ["a b", "a/b", "a%2Fb", "a?b#c", "é"])
def test_the_source_is_a_uri_reference_whatever_the_id_of_the_instance(format, instance_id):
    body = decoded(format, instance_id=instance_id)
    source = (body if format == "cloudevents" else body[0])["source"]
    assert source.isascii()
    assert source.startswith("/v1/instance/")
    assert not set(source.removeprefix("/v1/instance/")) & set(" /?#")


@pytest.mark.parametrize("format", ["onap", "cloudevents", "cloudevents-batch"])
def test_a_body_that_is_too_large_is_sent_without_status_and_says_so(format):
    changes = {**CHANGES, "created": [{**POD, "status": {"message": "x" * 1000}}]}
    size = len(encode(subscription(format), changes, HEAD, 10**6))
    assert encode(subscription(format), changes, HEAD, size) == encode(subscription(format), changes, HEAD, 10**6)
    body = decoded(format, changes, max_bytes=size - 1)
    if format == "cloudevents-batch":
        assert [each["data"].get("status") for each in body] == [None] * 3
        assert body[-1]["data"]["truncated"] is True
        return
    body = body["data"] if format == "cloudevents" else body
    assert body["truncated"] is True
    without = {name: value for name, value in POD.items() if name != "status"}
    assert body["resource-changes"]["created"] == [without]


@pytest.mark.parametrize("format", ["onap", "cloudevents", "cloudevents-batch"])
def test_a_body_that_is_too_large_without_status_has_no_resources_and_says_where_they_are(format):
    many = {**NOTHING, "modified": [{**POD, "id": f"uid-{number}"} for number in range(10_000)]}
    head = msgspec.structs.replace(HEAD, more={"resync": "the instance names other workloads"})
    text = encode(subscription(format, instance_id="a b", metadata={"a": "x" * 16_000}), many, head, 32_768)
    assert len(text) <= 32_768
    body = msgspec.json.decode(text)
    if format == "cloudevents-batch":
        (event,) = body
        check_event(event)
        body = event["data"]
    else:
        body = body["data"] if format == "cloudevents" else body
        assert body["resource-changes"] == NOTHING
    assert body["resources-omitted"] == "/v1/instance/a%20b/status"
    assert (body["truncated"], body["resync"]) == (True, "the instance names other workloads")


def test_truncation_leaves_the_shared_documents_as_they_are():
    encode(subscription(), CHANGES, HEAD, 1)
    assert POD["status"]["phase"] == "Running"
    assert HEAD.more == {}
