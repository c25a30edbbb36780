# SPDX-License-Identifier: Apache-2.0
"""A manager against a real gRPC server and a real HTTP server of this process."""

from __future__ import annotations

import base64
import datetime
import json
import queue
import threading
import time

import grpc
import pytest

from tests.unit.client.watch.watching import Watching
from tests.waiting import deadline, wait_until
from watcher_sync.client.watch import (
    ConsumerFailed,
    EventsPurged,
    EventType,
    FileSequence,
    Gap,
    ManagerClosed,
    MemorySequence,
    MissingSequence,
    NotWatchService,
    PermissionDenied,
    RequestRefused,
    RestHarvester,
    TopicNotFound,
    Unauthenticated,
    UnknownWatch,
    WatchManager,
    WatchOptions,
)
from watcher_sync.client.watch import watch as watch_module
from watcher_sync.client.watch.models import event_of
from watcher_sync.extensions.watch.wire import events_pb2
from watcher_sync.testing.watch.catch_up import Answer
from watcher_sync.testing.watch.service import FakeWatchService, Refusal
from watcher_sync.testing.watch.topic import SELF_LINK, FakeTopic

pytestmark = pytest.mark.slow

Code = grpc.StatusCode


def streaming(service, count=1):
    """Waits until the service has so many streams whose first request has arrived."""
    return wait_until(
        lambda: (s := [each for each in service.open_streams() if each.requests]) and len(s) >= count and s
    )


def test_the_first_request_and_the_metadata_are_those_of_the_dialect(service):
    with Watching(service, after=3):
        (stream,) = streaming(service)

    assert stream.metadata["authorization"] == "Bearer token-1"
    assert stream.metadata["x-axway-tenant-id"] == "tenant-1"
    request = stream.requests[0]
    assert (request.selfLink, request.token) == (SELF_LINK, "Bearer token-1")
    assert list(request.capabilities) == ["ping", "resume", "bookmark"]
    assert request.resumeAfterSequence == 3
    assert not request.HasField("requestType")


def test_an_event_larger_than_grpcs_default_of_four_mebibytes_comes_over_the_stream(service):
    large = "x" * (5 * 1024 * 1024)
    service.topic.publish()
    service.topic.publish(attributes={"user_data": large})
    with Watching(service, after=1, harvester=None, resume_only=True) as watching:
        assert watching.wait_for(1) == [2]
        assert watching.events[0].attributes["user_data"] == large
        assert len(service.streams) == 1


def test_without_a_watermark_the_watch_begins_live_and_asks_for_no_catch_up(either):
    either.topic.publish(5)
    with Watching(either) as watching:
        streaming(either)
        wait_until(watching.manager.status)
        # The stream begins at the head when the service handles the request, so the first event may precede it.
        wait_until(lambda: either.topic.publish() and watching.events)

        assert watching.sequences == sorted(watching.sequences)
        assert watching.sequences[0] > 5
    assert not either.asked


def test_with_a_watermark_the_watch_catches_up_and_goes_on_live(either):
    either.topic.publish(250, stride=3)
    with Watching(either, after=30) as watching:
        assert watching.wait_for(240) == list(range(33, 751, 3))
        either.topic.publish(5, stride=3)
        assert watching.wait_for(245) == list(range(33, 766, 3))


def test_the_catch_up_asks_in_the_grammar_of_the_dialect(stock):
    stock.topic.publish(250)
    with Watching(stock, after=30) as watching:
        watching.wait_for(220)

    asked = stock.asked[0]
    assert asked.path == f"/events{SELF_LINK}"
    assert asked.query == {"page": "1", "pageSize": "100", "query": "sequenceID>30", "sort": "sequenceID,ASC"}
    assert asked.headers["authorization"] == "Bearer token-1"
    assert asked.headers["x-auth-token"] == "token-1"
    assert asked.headers["x-axway-tenant-id"] == "tenant-1"
    assert [each.query["query"] for each in stock.asked[:3]] == [f"sequenceID>{each}" for each in (30, 130, 230)]


def test_the_first_request_precedes_the_catch_up(stock):
    stock.topic.publish(5)
    order = []

    class Noticing:
        def harvest(self, topic, after, token):
            order.append(bool(wait_until(lambda: any(each.requests for each in stock.streams))))
            return iter(stock.topic.newer(after))

    with Watching(stock, after=2, harvester=Noticing()) as watching:
        watching.wait_for(3)

    assert order[0] is True


def test_an_event_has_the_same_value_from_the_stream_and_from_the_catch_up(service):
    service.topic.publish(1, stride=4)
    service.topic.publish(1, stride=4, type=events_pb2.Event.CREATED)
    with Watching(service, after=4, resume_only=True) as watching:
        watching.wait_for(1)
        live = watching.events[0]
    caught_up = event_of(next(iter(RestHarvester(service.url, "t").harvest(SELF_LINK, 4, "x"))))

    assert caught_up == live
    assert live.sequence == 8
    assert live.previous == 4
    assert live.type is EventType.CREATED
    assert live.time == datetime.datetime(2026, 1, 2, 3, 4, 5, 678000, datetime.UTC)
    assert (live.group, live.kind, live.name, live.entity_id) == ("compute", "Instance", "instance-1", "id-instance-1")
    assert (live.scope.kind, live.scope.name, live.scope.id) == ("ComputeNode", "compute-1", "id-host")
    assert live.references[0].kind == "Flavor"
    assert live.attributes == {"state": "active", "sequence": "8"}
    assert (live.versions, live.unset) == ({"provider": "[8]"}, ("task_state",))
    assert live.message.metadata.sequenceID == 8
    assert json.loads(json.dumps(live.to_dict()))["scope"]["name"] == "compute-1"


class NoCatchUp:
    """A harvester without events."""

    def harvest(self, topic, after, token):
        return iter(())


def test_events_and_errors_may_go_to_queues(service):
    events, errors = queue.Queue(maxsize=1), queue.SimpleQueue()
    service.topic.publish(5)
    with Watching(service, after=1) as watching:
        watching.manager.register_watch(SELF_LINK, events, errors)
        assert [events.get(timeout=deadline(60)).sequence for _ in range(4)] == [2, 3, 4, 5]
        for stream in streaming(service, 2):
            stream.end(Code.PERMISSION_DENIED, "no more")
        assert isinstance(errors.get(timeout=deadline(60)), PermissionDenied)


def test_the_watermark_is_stored_and_the_next_manager_resumes_after_it(service, tmp_path):
    service.topic.publish(10)
    path = tmp_path / "sequence.json"
    FileSequence(path).set(SELF_LINK, 4)
    with Watching(service, sequence=FileSequence(path)) as watching:
        assert watching.wait_for(6) == [5, 6, 7, 8, 9, 10]
    assert FileSequence(path).get(SELF_LINK) == 10
    service.topic.publish(2)
    with Watching(service, sequence=FileSequence(path)) as watching:
        assert watching.wait_for(2) == [11, 12]


@pytest.mark.slow
def test_the_watermark_is_stored_while_the_stream_is_idle(service):
    service.topic.publish(3)
    with Watching(service, after=1) as watching:
        wait_until(lambda: watching.sequence.get(SELF_LINK) == 3)


@pytest.mark.slow
def test_a_bookmark_moves_the_stored_watermark(service):
    service.topic.publish(3)
    with Watching(service, after=1) as watching:
        watching.wait_for(2)
        streaming(service)[0].ping("p", bookmark=77)
        wait_until(lambda: watching.sequence.get(SELF_LINK) == 77)
        assert watching.sequences == [2, 3]


def test_a_negative_sequence_is_an_error_and_calls_the_callback(service):
    with Watching(service) as watching:
        watching.sequence.set("/lost", -1)
        with pytest.raises(MissingSequence, match="/lost"):
            watching.watch(topic="/lost")

    assert [type(each) for each in watching.sync_errors] == [MissingSequence]


def test_pings_are_answered_with_their_id(service):
    with Watching(service):
        (stream,) = streaming(service)
        stream.ping("ping-1")
        stream.ping("ping-2")
        wait_until(lambda: len(stream.requests) == 3)

    assert [each.pingResponse.id for each in stream.requests[1:]] == ["ping-1", "ping-2"]
    assert {each.requestType for each in stream.requests[1:]} == {events_pb2.PING_RESPONSE}
    assert {each.selfLink for each in stream.requests} == {SELF_LINK}


def test_pings_are_answered_while_the_consumer_blocks_and_the_buffer_is_full(service):
    released, got = threading.Event(), []

    def block(event):
        released.wait(deadline(60))
        got.append(event.sequence)

    with Watching(service, after=1, consumer=block, buffer_limit=10) as watching:
        (stream,) = streaming(service)
        service.topic.publish(500)
        wait_until(lambda: stream.sent == 500 or stream.sent == 499)
        stream.ping("late")
        wait_until(lambda: any(each.pingResponse.id == "late" for each in stream.requests))
        assert not got
        released.set()
        wait_until(lambda: len(got) >= 499)
        assert got == list(range(2, 501))
        assert not watching.gaps
        assert not watching.errors


def test_a_gap_is_reported_and_filled(service):
    service.topic.publish(2)
    with Watching(service, after=1) as watching:
        watching.wait_for(1)
        service.topic.publish(3, lost=True)
        service.topic.publish(2)

        assert watching.wait_for(6) == [2, 3, 4, 5, 6, 7]
        assert watching.gaps == [Gap(SELF_LINK, 2, 5)]


def test_a_gap_is_reported_once_while_its_catch_up_fails(service):
    service.topic.publish(2)
    with Watching(service, after=1) as watching:
        watching.wait_for(1)
        service.answers.extend([Answer(503), Answer(200, b"not json"), Answer(200, b'[{"type": "x"}]')])
        service.topic.publish(1, lost=True)
        service.topic.publish(1)

        assert watching.wait_for(3) == [2, 3, 4]
        assert len(watching.gaps) == 1
        assert not service.answers


def test_a_resumed_stream_needs_no_catch_up_that_succeeds(service):
    service.topic.publish(20)
    service.answers.extend([Answer(503)] * 1000)
    with Watching(service, after=5) as watching:
        assert watching.wait_for(15) == list(range(6, 21))


@pytest.mark.slow
@pytest.mark.parametrize(
    "code", [Code.RESOURCE_EXHAUSTED, Code.UNAVAILABLE, Code.OK, Code.INTERNAL, Code.UNKNOWN, Code.CANCELLED]
)
def test_a_transient_end_is_followed_by_another_stream_that_resumes(either, code):
    either.topic.publish(5)
    with Watching(either, after=2) as watching:
        watching.wait_for(3)
        streaming(either)[0].end(code)
        wait_until(lambda: len(either.streams) == 2 and streaming(either))
        either.topic.publish(3)

        assert watching.wait_for(6) == [3, 4, 5, 6, 7, 8]
        assert either.streams[1].requests[0].resumeAfterSequence == 5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("code", "error"),
    [
        (Code.PERMISSION_DENIED, PermissionDenied),
        (Code.NOT_FOUND, TopicNotFound),
        (Code.INVALID_ARGUMENT, RequestRefused),
        (Code.UNIMPLEMENTED, NotWatchService),
    ],
)
def test_a_final_status_ends_the_watch_with_one_error(service, code, error):
    service.refusals.append(Refusal(code, "because"))
    with Watching(service) as watching:
        wait_until(lambda: watching.errors)
        assert [type(each) for each in watching.errors] == [error]
        assert "because" in str(watching.errors[0])
        with pytest.raises(UnknownWatch):
            watching.manager.close_watch(watching.id)
    assert len(service.streams) == 1


def test_purged_events_call_the_callback_with_the_bounds(service):
    service.topic.publish(20)
    service.topic.purge(10)
    with Watching(service, after=5, harvester=NoCatchUp()) as watching:
        wait_until(lambda: watching.errors)

    (error,) = watching.sync_errors
    assert isinstance(error, EventsPurged)
    assert (error.topic, error.after, error.min_sequence, error.max_sequence) == (SELF_LINK, 5, 11, 20)
    assert watching.errors == [error]


def test_a_catch_up_that_answers_410_calls_the_callback(stock):
    stock.topic.publish(20)
    stock.topic.purge(10)
    stock.refusals.clear()
    stock.answers.append(Answer(410, b"{}", (("X-Axway-Max-Sequence-Id", "20"),)))
    with Watching(stock, after=5) as watching:
        wait_until(lambda: watching.errors)

    assert [(each.after, each.max_sequence) for each in watching.sync_errors] == [(5, 20)]


def test_one_refused_token_gets_a_fresh_one(service):
    tokens = iter(f"token-{number}" for number in range(100))
    service.refusals.append(Refusal(Code.UNAUTHENTICATED, "expired"))
    with Watching(service, token_getter=lambda: next(tokens)) as watching:
        wait_until(lambda: len(service.streams) == 2 and streaming(service))
        assert service.streams[0].requests[0].token != service.streams[1].requests[0].token
        assert not watching.errors


def test_two_refused_tokens_in_succession_end_the_watch(service):
    service.refusals.extend([Refusal(Code.UNAUTHENTICATED, "bad")] * 2)
    with Watching(service) as watching:
        wait_until(lambda: watching.errors)

    assert isinstance(watching.errors[0], Unauthenticated)
    assert len(service.streams) == 2


def test_a_catch_up_that_refuses_two_tokens_ends_the_watch(service):
    service.topic.publish(3)
    service.answers.extend([Answer(401)] * 2)
    with Watching(service, after=3) as watching:
        wait_until(lambda: watching.errors)

    assert isinstance(watching.errors[0], Unauthenticated)


def test_a_token_getter_that_fails_is_asked_again(service):
    answers = iter([RuntimeError("keystone is down"), "token-2"])

    def token():
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    with Watching(service, token_getter=token):
        assert streaming(service)[0].requests[0].token == "Bearer token-2"


def _jwt(life):
    body = base64.urlsafe_b64encode(json.dumps({"exp": time.time() + life}).encode()).decode().rstrip("=")
    return f"e30.{body}.c2ln"


@pytest.mark.slow
def test_a_jwt_is_refreshed_on_the_open_stream_at_four_fifths_of_its_life(service):
    asked = []

    def token():
        asked.append(time.monotonic())
        return _jwt(2.0 if len(asked) == 1 else 3600)

    with Watching(service, token_getter=token):
        (stream,) = streaming(service)
        wait_until(lambda: len(stream.requests) == 2)

    refresh = stream.requests[1]
    assert refresh.requestType == events_pb2.TOKEN_REFRESH
    assert refresh.selfLink == SELF_LINK
    assert refresh.token != stream.requests[0].token
    assert 1.2 < asked[1] - asked[0] < 1.9 + 30  # the machine may be slow, but never early
    assert len(service.streams) == 1


@pytest.mark.slow
def test_a_token_that_is_no_jwt_is_refreshed_at_the_interval(service):
    with Watching(service, token_refresh_interval=1.0):
        (stream,) = streaming(service)
        wait_until(lambda: len(stream.requests) >= 3)

    assert {each.requestType for each in stream.requests[1:]} == {events_pb2.TOKEN_REFRESH}


def test_closing_one_watch_touches_no_other(service):
    other = []
    with Watching(service) as watching:
        watching.watch(other.append)
        first, second = streaming(service, 2)
        watching.manager.close_watch(watching.id)
        wait_until(lambda: len(service.open_streams()) == 1)
        wait_until(lambda: service.topic.publish() and other)

        assert not watching.events
        assert len(service.streams) == 2
        assert watching.manager.status()
        with pytest.raises(UnknownWatch):
            watching.manager.close_watch(watching.id)
        assert first.is_open != second.is_open


def test_a_consumer_may_close_its_own_watch(service):
    service.topic.publish(5)
    got = []

    def once(event):
        got.append(event.sequence)
        watching.manager.close_watch(own)

    with Watching(service, after=2) as watching:
        registered = threading.Event()
        own = watching.manager.register_watch(
            SELF_LINK, lambda event: registered.wait(deadline(60)) and once(event), watching.errors.append
        )
        streaming(service, 2)
        registered.set()
        wait_until(lambda: len(service.open_streams()) == 1)

    assert got == [3]


def test_a_watch_with_a_full_queue_can_be_closed(service):
    full = queue.Queue(maxsize=1)
    service.topic.publish(5)
    with Watching(service, after=1, consumer=full) as watching:
        wait_until(full.full)
        watching.manager.close_watch(watching.id)

    assert full.get().sequence == 2
    assert full.empty()
    assert watching.sequence.get(SELF_LINK) == 2


def test_a_consumer_that_raises_ends_the_watch_before_the_event(service):
    service.topic.publish(5)

    def fail(event):
        if event.sequence == 4:
            raise KeyError("x")

    with Watching(service, after=1, consumer=fail) as watching:
        wait_until(lambda: watching.errors)
        assert isinstance(watching.errors[0], ConsumerFailed)
        assert isinstance(watching.errors[0].__cause__, KeyError)
        wait_until(lambda: watching.sequence.get(SELF_LINK) == 3)


def test_the_status_is_true_while_all_streams_are_open_and_says_when_the_server_is_gone(service):
    with Watching(service) as watching:
        wait_until(watching.manager.status)
        service.stop()
        wait_until(lambda: not watching.manager.status())
        assert not watching.errors
        service.start()
        wait_until(watching.manager.status)
        streaming(service)
        wait_until(lambda: service.topic.publish() and watching.events)
        watching.manager.close_conn()
        assert not watching.manager.status()


@pytest.mark.slow
def test_after_a_restart_of_the_server_no_event_is_missing(either):
    either.topic.publish(3)
    with Watching(either, after=1) as watching:
        watching.wait_for(2)
        either.stop()
        either.topic.publish(4)
        either.start()
        streaming(either)
        either.topic.publish(2)

        assert watching.wait_for(8) == list(range(2, 10))


def test_a_closed_manager_registers_nothing_and_closes_again(service):
    watching = Watching(service)
    watching.manager.close_conn()
    watching.manager.close_conn()

    with pytest.raises(ManagerClosed):
        watching.watch()
    wait_until(lambda: not service.open_streams())


def test_no_thread_is_left_after_the_close(service):
    with Watching(service, after=1) as watching:
        service.topic.publish(3)
        watching.wait_for(2)
    wait_until(lambda: not [each for each in threading.enumerate() if each.name.startswith("watch-")])


def test_a_watermark_that_cannot_be_stored_stops_no_event(service, caplog):
    class Full(MemorySequence):
        def set(self, topic, sequence):
            raise OSError("no space left")

    service.topic.publish(4)
    with Watching(service, sequence=Full({SELF_LINK: 2})) as watching:
        assert watching.wait_for(2) == [3, 4]
    assert "the watermark cannot be stored: no space left" in caplog.text


def test_logs_have_no_token(service, caplog):
    caplog.set_level("DEBUG")
    service.refusals.append(Refusal(Code.UNAVAILABLE, "drain"))
    service.topic.publish(4)
    with Watching(service, after=2, token_getter=lambda: "very-secret") as watching:
        watching.wait_for(2)
        wait_until(lambda: len(service.streams) > 1 and streaming(service))  # the refused one opens for a moment
    assert "disconnected" in caplog.text
    assert "very-secret" not in caplog.text


def test_an_outage_is_one_line_and_its_end_another_one(service, caplog):
    caplog.set_level("INFO")
    service.topic.publish(4)
    service.refusals.extend([Refusal(Code.UNAVAILABLE, "drain")] * 4)
    with Watching(service, after=2) as watching:
        wait_until(lambda: len(service.streams) > 4 and streaming(service))  # the refused ones open for a moment
        service.topic.publish(1)
        watching.wait_for(3)
        wait_until(lambda: "connected again" in caplog.text)
    lines = [record.getMessage() for record in caplog.records if SELF_LINK in record.getMessage()]
    assert [line.split(": ")[1].split(",")[0].split(" after")[0] for line in lines] == [
        "streaming", "disconnected", "connected again",
    ]  # fmt: skip


@pytest.mark.slow
def test_the_end_of_an_outage_is_reported_though_the_stream_has_nothing_to_send(service, caplog, monkeypatch):
    monkeypatch.setattr(watch_module, "MAX_PAUSE_SECONDS", 0.2)
    caplog.set_level("INFO")
    service.topic.publish(4)
    service.refusals.append(Refusal(Code.UNAVAILABLE, "drain"))
    with Watching(service, after=4):
        wait_until(lambda: "connected again" in caplog.text)
    assert not sum(stream.sent for stream in service.streams)


@pytest.mark.slow
def test_the_catch_up_is_at_the_same_host_and_port_by_default():
    asked = []
    topic = FakeTopic()
    with FakeWatchService(topic=topic) as service:
        options = WatchOptions(tls=None, sequence=MemorySequence({SELF_LINK: 1}), backoff=(0.05, 0.1))
        manager = WatchManager("127.0.0.1", int(service.url.rpartition(":")[2]), "t", lambda: "x", options)
        topic.publish(3)
        # The port is the one of the catch-up, so the stream fails: only the URL matters here.
        with manager:
            manager.register_watch(SELF_LINK, asked.append, asked.append)
            wait_until(lambda: service.asked)
        assert service.asked[0].path == f"/events{SELF_LINK}"


def test_the_catch_up_has_the_epoch_of_the_watermark_and_its_refusal_ends_the_watch_as_lost(stock):
    stock.topic.publish(20)
    stock.answers.append(Answer(410, b"{}", (("X-Watcher-Sync-Epoch", "e2"),)))
    sequence = MemorySequence({SELF_LINK: 5}, {SELF_LINK: "e1"})
    with Watching(stock, sequence=sequence) as watching:
        wait_until(lambda: watching.errors)
    assert stock.asked[0].query["epoch"] == "e1"
    assert [type(error) for error in watching.errors] == [EventsPurged]
    assert sequence.get(SELF_LINK) < 0


def test_without_a_rest_api_a_new_stream_brings_what_another_lacked(service):
    service.topic.publish(20)
    with Watching(service, after=5, resume_only=True) as watching:
        assert watching.wait_for(15) == list(range(6, 21))
        service.stop()
        service.topic.publish(5)
        service.start()
        assert watching.wait_for(20) == list(range(6, 26))
        assert not watching.gaps
    assert not service.asked


def test_without_a_rest_api_a_gap_that_a_new_stream_has_too_is_final(service):
    service.topic.publish(2)
    with Watching(service, after=1, resume_only=True) as watching:
        watching.wait_for(1)
        service.topic.publish(3, lost=True)
        service.topic.publish(2)

        assert watching.wait_for(3) == [2, 6, 7]
        assert watching.gaps == [Gap(SELF_LINK, 2, 5)]
        assert len(service.streams) == 2


def test_without_a_rest_api_a_slow_consumer_gets_every_event(service):
    released, got = threading.Event(), []
    service.topic.publish(1)

    def block(event):
        released.wait(deadline(60))
        got.append(event.sequence)

    with Watching(service, after=1, consumer=block, buffer_limit=50, resume_only=True):
        (stream,) = streaming(service)
        service.topic.publish(300)
        wait_until(lambda: stream.sent >= 300)
        released.set()
        wait_until(lambda: len(got) >= 300)
        assert got == list(range(2, 302))
