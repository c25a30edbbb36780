# SPDX-License-Identifier: Apache-2.0
"""Who caused a message, as its envelope or its payload says; what is unfit is none, and no reason to refuse it."""

from __future__ import annotations

import json

import msgspec
import pytest

from watcher_sync.events import Actor, TraceContext
from watcher_sync.wire.envelopes import read_body, read_document, read_message, text_of

REQUEST = "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55"
ACTOR = Actor(id="u", project_id="p", request_id=REQUEST)
NOTIFICATION = {"event_type": "instance.update", "publisher_id": "nova", "message_id": "1", "payload": {}}


def read(payload=None, **context):
    document = {**NOTIFICATION, **{f"_context_{name}": value for name, value in context.items()}}
    document["payload"] = payload or {}
    texts = [json.dumps(document), json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(document)})]
    events = [*(read_body(text.encode(), source="s") for text in texts), read_document(document, source="s")]
    assert [event.undecodable for event in events] == [None] * 3
    assert events[0].actor == events[1].actor == events[2].actor
    return events[0].actor


@pytest.mark.parametrize(
    "names", [("user_id", "project_id"), ("user", "tenant"), ("user", "project")], ids=["today", "older", "oldest"]
)
def test_a_notification_has_the_actor_of_its_request_context(names):
    user, project = names
    assert read(**{"request_id": REQUEST, user: "u", project: "p"}) == ACTOR


def test_todays_names_go_before_the_older_ones():
    assert read(request_id=REQUEST, user="x", user_id="u", tenant="y", project="z", project_id="p") == ACTOR


def test_a_task_of_a_service_has_a_request_and_neither_user_nor_project():
    assert read(request_id=REQUEST, user_id=None, user=None) == Actor(None, None, REQUEST)


def test_a_notification_without_a_context_has_no_actor():
    assert read() is None
    assert read(request_id=None) is None


@pytest.mark.parametrize("wrong", [7, "", "x" * 256, ["x"], {"a": 1}, True, "a\0b", "a\nb"])
@pytest.mark.parametrize("name", ["request_id", "user_id", "project_id"])
def test_an_unfit_value_is_none_and_the_others_stay(name, wrong):
    good = {"user_id": "u", "project_id": "p", "request_id": REQUEST}
    field = "id" if name == "user_id" else name
    assert read(**{**good, name: wrong}) == msgspec.structs.replace(ACTOR, **{field: None})
    assert read(**{name: wrong}) is None


def test_the_longest_value_is_255_characters():
    assert read(request_id="x" * 255) == Actor(None, None, "x" * 255)


def test_the_text_of_an_event_has_its_context_again():
    body = json.dumps({**NOTIFICATION, "_context_request_id": REQUEST, "_context_global_request_id": REQUEST})
    event = read_body(body.encode(), source="s")
    again = read_body(text_of(event), source="s")
    assert (again.actor, again.trace) == (Actor(None, None, REQUEST), TraceContext(global_request_id=REQUEST))


INITIATORS = {
    "a user of Keystone": {"id": "hash", "user_id": "u", "project_id": "p", "request_id": REQUEST, "typeURI": "t"},
    "only the id of CADF": {"id": "u", "project_id": "p", "request_id": REQUEST, "host": {"address": "::1"}},
}


@pytest.mark.parametrize("initiator", INITIATORS.values(), ids=INITIATORS)
def test_a_cadf_payload_names_its_initiator(initiator):
    assert read({"initiator": initiator, "eventType": "activity"}) == ACTOR


NOVA = {"action_initiator_user": "u", "action_initiator_project": "p", "request_id": REQUEST}


def test_a_payload_of_nova_names_who_began_the_action():
    assert read({"nova_object.data": NOVA}) == ACTOR


@pytest.mark.parametrize("payload", [{"nova_object.data": NOVA}, {"initiator": {"id": "u"}}])
def test_a_request_context_goes_before_the_payload(payload):
    assert read(payload, user_id="v") == Actor("v")
    assert read(payload, request_id=REQUEST) == Actor(None, None, REQUEST)


@pytest.mark.parametrize("wrong", [7, "x", ["u"], None, {}, {"id": 7, "action_initiator_user": ["u"]}])
def test_an_unfit_initiator_is_none(wrong):
    assert read({"initiator": wrong}) is None
    assert read({"nova_object.data": wrong}) is None


CLOUD_EVENT = {"specversion": "1.0", "id": "1", "source": "dcm/providers/kubevirt", "type": "dcm.status", "data": {}}


def cloud_events(**attributes):
    document = {**CLOUD_EVENT, **attributes}
    headers = {f"ce-{name}": str(value) for name, value in document.items() if name != "data"}
    read = [read_body(json.dumps(document).encode(), source="s"), read_message(b"{}", headers, source="s")]
    assert [event.undecodable for event in read] == [None] * 2
    return read


def test_a_cloud_event_has_its_authid_or_else_its_source_as_actor():
    for event in cloud_events(authid="alice", authtype="user"):
        assert event.actor == Actor("alice")
        assert read_body(text_of(event), source="s").actor == Actor("alice")
    for event in cloud_events():
        assert event.actor == Actor("dcm/providers/kubevirt")
        assert b"authid" not in text_of(event)


@pytest.mark.parametrize("wrong", ["", "x" * 256])
def test_an_unfit_authid_is_none(wrong):
    assert [event.actor for event in cloud_events(authid=wrong)] == [Actor("dcm/providers/kubevirt")] * 2
