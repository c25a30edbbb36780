# SPDX-License-Identifier: Apache-2.0
"""What a client may say in one stream, and in which order."""

from __future__ import annotations

from typing import Any

import pytest

from watcher_sync.extensions.watch.conversation import AgentReport, Conversation, PingAnswer, Refresh, Subscribe
from watcher_sync.extensions.watch.endings import StreamEnding, not_found
from watcher_sync.extensions.watch.wire import events_pb2

TOPIC = "/management/v1alpha1/watchtopics/all"


def request(**members: Any) -> bytes:
    return events_pb2.Request(**members).SerializeToString()


@pytest.fixture
def subscribed() -> Conversation:
    conversation = Conversation()
    conversation.receive(request(selfLink=TOPIC, token="t1", capabilities=["ping"]))
    return conversation


def test_the_first_request_subscribes() -> None:
    said = Conversation().receive(request(selfLink=TOPIC, token="t1", capabilities=["ping", "other"]))
    assert said == Subscribe(TOPIC, "t1", frozenset({"ping", "other"}), None)


@pytest.mark.parametrize("sent", ["Bearer t2", "bearer t2", "BEARER  t2 ", "t2"])
def test_a_token_counts_with_and_without_its_scheme(subscribed: Conversation, sent: str) -> None:
    first = Conversation().receive(request(selfLink=TOPIC, token=sent))
    assert isinstance(first, Subscribe)
    assert first.token == "t2"
    assert subscribed.receive(request(selfLink=TOPIC, token=sent)) == Refresh("t2")


def test_a_scheme_without_a_token_is_no_token() -> None:
    said = Conversation().receive(request(selfLink=TOPIC, token="Bearer "))
    assert isinstance(said, Subscribe)
    assert said.token == ""


def test_a_first_request_may_have_the_type_of_a_refresh() -> None:
    said = Conversation().receive(request(selfLink=TOPIC, token="t1", requestType=events_pb2.TOKEN_REFRESH))
    assert isinstance(said, Subscribe)


def test_a_first_request_without_a_topic_is_refused() -> None:
    with pytest.raises(StreamEnding, match="INVALID_ARGUMENT"):
        Conversation().receive(request(token="t1"))


@pytest.mark.parametrize(("capabilities", "after"), [(["resume"], 7), (["ping"], None), ([], None)])
def test_a_position_counts_only_from_a_client_that_offers_to_resume(capabilities: list[str], after: int | None) -> None:
    said = Conversation().receive(request(selfLink=TOPIC, capabilities=capabilities, resumeAfterSequence=7))
    assert isinstance(said, Subscribe)
    assert said.resume_after == after


def test_a_negative_position_is_refused() -> None:
    with pytest.raises(StreamEnding, match="INVALID_ARGUMENT"):
        Conversation().receive(request(selfLink=TOPIC, capabilities=["resume"], resumeAfterSequence=-1))


@pytest.mark.parametrize("kind", [{}, {"requestType": events_pb2.TOKEN_REFRESH}])
def test_a_later_request_refreshes_the_token_with_or_without_a_type(
    subscribed: Conversation, kind: dict[str, Any]
) -> None:
    assert subscribed.receive(request(selfLink=TOPIC, token="t2", **kind)) == Refresh("t2")


def test_a_refresh_for_another_topic_is_refused(subscribed: Conversation) -> None:
    with pytest.raises(StreamEnding, match="INVALID_ARGUMENT"):
        subscribed.receive(request(selfLink=TOPIC + "2", token="t2", requestType=events_pb2.TOKEN_REFRESH))


def test_an_answer_to_a_ping_has_the_id_of_the_ping(subscribed: Conversation) -> None:
    answer = request(requestType=events_pb2.PING_RESPONSE, pingResponse=events_pb2.PingResponse(id="p1"))
    assert subscribed.receive(answer) == PingAnswer("p1")


def test_the_status_of_an_agent_is_no_subscription() -> None:
    conversation = Conversation()
    status = request(requestType=events_pb2.AGENT_STATUS, agentStatus=events_pb2.AgentStatus(state="running"))
    assert conversation.receive(status) == AgentReport()
    assert not conversation.has_subscribed


def test_a_type_of_a_later_version_is_ignored(subscribed: Conversation) -> None:
    assert subscribed.receive(request(selfLink=TOPIC) + b"\x18\x09") == AgentReport()


@pytest.mark.parametrize("data", [b"\xff\xff\xff", b"\x0a\x05ab"])
def test_bytes_that_are_no_request_are_refused(data: bytes) -> None:
    with pytest.raises(StreamEnding, match="INVALID_ARGUMENT"):
        Conversation().receive(data)


def test_the_end_of_a_stream_repeats_little_of_what_the_client_sent() -> None:
    assert not_found("/short").detail == "there is no topic '/short'"
    assert len(not_found("x" * 60_000).detail) < 400
    conversation = Conversation()
    conversation.receive(request(selfLink="x" * 60_000))
    with pytest.raises(StreamEnding) as caught:
        conversation.receive(request(selfLink=TOPIC))
    assert len(caught.value.detail) < 400
