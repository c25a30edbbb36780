# SPDX-License-Identifier: Apache-2.0
"""The caller of a notification comes from its request context; what is unfit is none, and no reason to refuse it."""

from __future__ import annotations

import json

import msgspec
import pytest

from watcher_sync.events import CallerContext, TraceContext
from watcher_sync.wire.envelopes import read_body, read_document, text_of

REQUEST = "req-6f2d0a1e-6a1f-4f53-9d3a-7a1c0a3d9c55"
CALLER = CallerContext(request_id=REQUEST, user_id="u", project_id="p")
NOTIFICATION = {"event_type": "instance.update", "publisher_id": "nova", "message_id": "1", "payload": {}}


def read(**context):
    document = {**NOTIFICATION, **{f"_context_{name}": value for name, value in context.items()}}
    texts = [json.dumps(document), json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(document)})]
    events = [*(read_body(text.encode(), source="s") for text in texts), read_document(document, source="s")]
    assert [event.undecodable for event in events] == [None] * 3
    assert events[0].caller == events[1].caller == events[2].caller
    return events[0].caller


@pytest.mark.parametrize(
    "names", [("user_id", "project_id"), ("user", "tenant"), ("user", "project")], ids=["today", "older", "oldest"]
)
def test_a_notification_has_the_caller_of_its_context(names):
    user, project = names
    assert read(**{"request_id": REQUEST, user: "u", project: "p"}) == CALLER


def test_todays_names_go_before_the_older_ones():
    assert read(request_id=REQUEST, user="x", user_id="u", tenant="y", project="z", project_id="p") == CALLER


def test_a_task_of_a_service_has_a_request_and_neither_user_nor_project():
    assert read(request_id=REQUEST, user_id=None, user=None) == CallerContext(REQUEST, None, None)


def test_a_notification_without_a_context_has_no_caller():
    assert read() is None
    assert read(request_id=None) is None


@pytest.mark.parametrize("wrong", [7, "", "x" * 256, ["x"], {"a": 1}, True, "a\0b", "a\nb"])
@pytest.mark.parametrize("name", ["request_id", "user_id", "project_id"])
def test_an_unfit_value_is_none_and_the_others_stay(name, wrong):
    good = msgspec.structs.asdict(CALLER)
    assert read(**{**good, name: wrong}) == CallerContext(**{**good, name: None})
    assert read(**{name: wrong}) is None


def test_the_longest_value_is_255_characters():
    assert read(request_id="x" * 255) == CallerContext("x" * 255, None, None)


def test_the_text_of_an_event_has_its_context_again():
    body = json.dumps({**NOTIFICATION, "_context_request_id": REQUEST, "_context_global_request_id": REQUEST})
    event = read_body(body.encode(), source="s")
    again = read_body(text_of(event), source="s")
    assert (again.caller, again.trace) == (CallerContext(REQUEST, None, None), TraceContext(global_request_id=REQUEST))
