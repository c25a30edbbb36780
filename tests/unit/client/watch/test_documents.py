# SPDX-License-Identifier: Apache-2.0
"""A page of the catch-up becomes the messages of the stream."""

from __future__ import annotations

import json

import pytest

from watcher_sync.client.watch.documents import messages_of_page
from watcher_sync.client.watch.models import EventType, event_of
from watcher_sync.testing.watch.catch_up import document_of
from watcher_sync.testing.watch.topic import FakeTopic


def page(**changes):
    topic = FakeTopic()
    topic.publish()
    document = document_of(topic.newer(0)[0], is_stock=True)
    document.update(changes)
    return json.dumps([document]).encode()


def test_a_document_of_a_stock_service_becomes_the_message_without_our_additions():
    topic = FakeTopic()
    topic.publish()
    (expected,) = topic.newer(0)
    for name in ("prevSequenceID", "versions", "unset"):
        expected.metadata.ClearField(name)

    assert messages_of_page(page()) == [expected]


def test_the_least_document_is_a_sequence_and_a_type():
    (message,) = messages_of_page(b'[{"type": "ResourceDeleted", "metadata": {"sequenceID": 5}}]')
    event = event_of(message)

    assert (event.sequence, event.type, event.previous, event.scope) == (5, EventType.DELETED, None, None)
    assert (event.name, event.time, event.attributes) == ("", None, {})


def test_an_empty_scope_is_none():
    (message,) = messages_of_page(page(payload={"metadata": {"scope": {"id": "", "kind": "", "name": ""}}}))

    assert message.payload.metadata.HasField("scope")
    assert event_of(message).scope is None


def test_members_that_are_null_or_unknown_are_ignored():
    (message,) = messages_of_page(page(payload={"metadata": None, "attributes": None, "new": 1}, organization=None))

    assert message.metadata.sequenceID == 1


def test_an_event_of_a_later_type_is_delivered_as_unknown():
    (message,) = messages_of_page(page(type="ResourceMoved"))

    assert event_of(message).type is EventType.UNKNOWN


@pytest.mark.parametrize("scope_type", ["hard", "HARD"])
def test_a_hard_reference_is_recognised_in_both_spellings(scope_type):
    payload = {"metadata": {"references": [{"kind": "Flavor", "name": "m1", "type": scope_type}]}}
    (message,) = messages_of_page(page(payload=payload))

    assert event_of(message).references[0].is_hard


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[1]",
        b'[{"type": "ResourceDeleted"}]',
        b'[{"type": "ResourceDeleted", "metadata": {"sequenceID": "5"}}]',
        b'[{"type": "ResourceDeleted", "metadata": {"sequenceID": 1.5}}]',
        b'[{"type": "ResourceDeleted", "metadata": {"sequenceID": 99999999999999999999}}]',
        b'[{"metadata": {"sequenceID": 5}}]',
        b"\xff",
    ],
)
def test_what_is_no_page_is_refused(body):
    with pytest.raises(ValueError):
        messages_of_page(body)
