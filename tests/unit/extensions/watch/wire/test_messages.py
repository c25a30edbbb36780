# SPDX-License-Identifier: Apache-2.0
"""The message of the watch stream and the element of its REST twin say the same of a change."""

from __future__ import annotations

import datetime

import msgspec
import pytest
from google.protobuf import json_format
from hypothesis import given, settings
from hypothesis import strategies as st

from watcher_sync.extensions.watch.wire import datamodel_pb2, events_pb2, messages
from watcher_sync.extensions.watch.wire.descriptions import (
    ChangeDescription,
    ChangeType,
    ReferenceDescription,
    ResourceDescription,
    ScopeDescription,
    TopicRef,
)

TOPIC = TopicRef("t1", "/management/v1alpha1/watchtopics/agents")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
RESOURCES = st.builds(
    ResourceDescription,
    group=TEXTS,
    kind=TEXTS,
    name=TEXTS,
    id=TEXTS,
    self_link=TEXTS,
    scope=st.none() | st.builds(ScopeDescription, id=TEXTS, kind=TEXTS, name=TEXTS, self_link=TEXTS),
    references=st.lists(
        st.builds(ReferenceDescription, id=TEXTS, kind=TEXTS, name=TEXTS, self_link=TEXTS, is_hard=st.booleans()),
        max_size=2,
    ).map(tuple),
    attributes=st.dictionaries(TEXTS, TEXTS, max_size=3),
)
CHANGES = st.builds(
    ChangeDescription,
    seq=st.integers(1, 2**62),
    time=st.datetimes(timezones=st.just(datetime.UTC)),
    type=st.sampled_from(list(ChangeType)),
    resource=RESOURCES,
    subresource=TEXTS,
    correlation_id=TEXTS,
    organization_id=TEXTS,
    versions=st.dictionaries(TEXTS, TEXTS, max_size=2),
    unset=st.lists(TEXTS, max_size=2).map(tuple),
)
CHANGE = ChangeDescription(
    seq=7,
    time=datetime.datetime(2026, 1, 1, 12, 0, 0, 123_987, datetime.UTC),
    type=ChangeType.CREATED,
    resource=ResourceDescription(group="compute", kind="Instance", name="web", id="i1", self_link="/v1/instances/i1"),
    correlation_id="e1",
)
REST_TYPES = {
    "CREATED": "ResourceCreated",
    "UPDATED": "ResourceUpdated",
    "DELETED": "ResourceDeleted",
    "SUBRESOURCEUPDATED": "ResourceSubResourceUpdated",
}


def as_element(message):
    """The message, as the REST twin would write it."""
    document = json_format.MessageToDict(message, always_print_fields_with_no_presence=True)
    document["type"] = REST_TYPES[document["type"]]
    document["metadata"]["sequenceID"] = int(document["metadata"]["sequenceID"])
    return document


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(CHANGES)
def test_both_twins_say_the_same(change):
    assert as_element(messages.event(change, TOPIC)) == messages.element(change, TOPIC)


@settings(max_examples=100, deadline=None)
@given(CHANGES, st.none() | st.integers(0, 2**62))
def test_the_bytes_of_an_event_are_its_body_and_its_topic(change, previous):
    read = events_pb2.Event.FromString(messages.addressed(messages.body(change), TOPIC, previous))
    assert read == messages.event(change, TOPIC, previous)
    assert read == events_pb2.Event.FromString(messages.encoded(change, TOPIC, previous))


def test_a_previous_sequence_of_0_is_sent():
    message = messages.event(CHANGE, TOPIC, 0)
    assert message.metadata.HasField("prevSequenceID")
    assert not messages.event(CHANGE, TOPIC).metadata.HasField("prevSequenceID")


def test_an_element_has_every_member_of_the_dialect():
    document = messages.element(CHANGE, TOPIC)
    assert list(document) == [
        "id", "time", "version", "product", "correlationId", "organization", "type", "payload", "metadata",
    ]  # fmt: skip
    assert document["time"] == "2026-01-01T12:00:00.123Z"
    assert document["type"] == "ResourceCreated"
    assert (document["product"], document["correlationId"]) == ("watcher_sync", "e1")
    assert document["organization"] == {"id": "watcher_sync"}
    assert document["payload"]["metadata"] == {
        "id": "i1",
        "scope": {"id": "", "kind": "", "name": "", "selfLink": ""},
        "selfLink": "/v1/instances/i1",
        "references": [],
    }
    assert document["metadata"]["sequenceID"] == 7


@pytest.mark.parametrize(("is_hard", "text"), [(True, "HARD"), (False, "SOFT")])
def test_the_type_of_a_reference_is_in_upper_case_in_the_rest_twin(is_hard, text):
    """Axway's SDK takes every other text as HARD."""
    reference = ReferenceDescription(id="n", kind="ComputeNode", name="n", self_link="/n", is_hard=is_hard)
    resource = msgspec.structs.replace(CHANGE.resource, references=(reference,))
    document = messages.element(msgspec.structs.replace(CHANGE, resource=resource), TOPIC)
    assert [each["type"] for each in document["payload"]["metadata"]["references"]] == [text]


def test_an_event_of_the_stream_has_metadata_and_a_scope_also_where_the_resource_has_none():
    """Axway's sample client reads them unchecked."""
    message = events_pb2.Event.FromString(messages.encoded(CHANGE, TOPIC))
    assert message.payload.HasField("metadata")
    assert message.payload.metadata.HasField("scope")
    assert message.payload.metadata.scope == datamodel_pb2.Metadata.ScopeKind()


def test_the_id_of_an_event_is_that_of_the_change_on_every_topic():
    other = messages.element(CHANGE, TopicRef("t2", "/other"))
    assert other["id"] == messages.element(CHANGE, TOPIC)["id"] == messages.event(CHANGE, TOPIC).id


@pytest.mark.parametrize("seq", [8, 6])
def test_two_changes_have_different_ids(seq):
    other = ChangeDescription(seq=seq, time=CHANGE.time, type=CHANGE.type, resource=CHANGE.resource)
    assert messages.event_id(other) != messages.event_id(CHANGE)
