# SPDX-License-Identifier: Apache-2.0
"""What is missing is waited for, what is lost is found again: server, stream, consumer."""

from __future__ import annotations

import collections
import contextlib
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator

import pytest
from nats.errors import Error as NatsError

from tests.functional.sources.jetstream import (
    Dcm,
    cloud_event,
    connected,
    dcm_of,
    disconnected,
    make_source,
    reading,
    running,
    stop,
)
from tests.functional.sources.listening import Engine
from tests.services.servers import Server
from tests.waiting import deadline, wait_until
from watcher_sync.sources.base import SourceState


@pytest.fixture
def dcm(own_nats: Server) -> Iterator[Dcm]:
    with dcm_of(own_nats.url) as client:
        yield client


def test_a_source_waits_for_a_server_that_is_not_there_yet(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    dcm.publish(cloud_event(1))
    own_nats.stop()
    engine = Engine(acks=True)
    with running(engine, own_nats.url) as source:
        disconnected(source, "cannot connect")
        own_nats.start()
        connected(source)
        wait_until(lambda: engine.events)
    assert source.status().state is SourceState.STOPPED


def test_a_source_waits_for_a_stream_and_says_which(own_nats: Server, dcm: Dcm) -> None:
    engine = Engine(acks=True)
    with running(engine, own_nats.url) as source:
        disconnected(source, "the stream dcm-status does not exist yet")
        dcm.make_stream()
        connected(source)
        dcm.publish(cloud_event(1))
        wait_until(lambda: engine.events)
        assert source.status().reconnects == 0


def test_a_stream_is_made_only_where_the_operator_says_so_and_never_changed(own_nats: Server, dcm: Dcm) -> None:
    engine = Engine(acks=True)
    with reading(engine, own_nats.url, stream_mode="create"):
        assert dcm.stream().config.subjects == ["dcm.*"]
        dcm.publish(cloud_event(1))
        wait_until(lambda: engine.events)
    dcm.delete_stream()
    dcm.make_stream(subjects="dcm.>")
    with reading(Engine(acks=True), own_nats.url, stream_mode="create"):
        assert dcm.stream().config.subjects == ["dcm.>"]


def test_a_server_without_jetstream_is_said_to_have_none(own_nats: Server) -> None:
    own_nats.stop()
    plain = own_nats._command
    own_nats._command = lambda: [*plain()[:5]]  # the same without a configuration file
    own_nats.start()
    with running(Engine(acks=True), own_nats.url) as source:
        disconnected(source, "the server has no JetStream")


@pytest.mark.parametrize(
    ("config", "complaint"),
    [
        ({"filter_subject": "dcm.vm"}, r"filter_subject is dcm.vm, not dcm.*"),
        ({"ack_policy": "all"}, "ack_policy is all, not explicit"),
        ({"max_ack_pending": 999}, "max_ack_pending is 999, less than 1000"),
        ({"ack_wait": 5.0}, "ack_wait is 5 s, less than 30 s"),
        ({"max_deliver": 3}, "max_deliver is 3, after which messages would be lost"),
        ({"deliver_subject": "somewhere"}, "it is a push consumer"),
    ],
)
def test_a_consumer_that_does_not_fit_is_left_alone_and_named(
    own_nats: Server, dcm: Dcm, config: dict[str, object], complaint: str
) -> None:
    dcm.make_stream()
    dcm.make_consumer(**config)
    before = dcm.consumer()
    engine = Engine(acks=True)
    with running(engine, own_nats.url) as source:
        disconnected(source, re.escape(complaint))
        assert (dcm.consumer().config, dcm.consumer().created) == (before.config, before.created)
        dcm.delete_consumer()
        connected(source)


def test_a_consumer_that_is_deleted_by_hand_is_made_again_and_nothing_is_lost(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    engine = Engine(acks=True)
    with reading(engine, own_nats.url) as source:
        dcm.publish(*(cloud_event(n) for n in range(10)))
        wait_until(lambda: len(engine.events) == 10)
        dcm.delete_consumer()
        dcm.publish(*(cloud_event(n) for n in range(10, 20)))
        wait_until(lambda: {event.id for event in engine.events} == {f"e-{n}" for n in range(20)})
        wait_until(dcm.settled)
        assert source.status().reconnects == 0


def test_a_stream_that_is_deleted_and_made_again_has_another_epoch_and_its_events_flow(
    own_nats: Server, dcm: Dcm
) -> None:
    dcm.make_stream()
    engine = Engine(acks=True)
    with reading(engine, own_nats.url) as source:
        dcm.publish(*(cloud_event(n) for n in range(5)))
        wait_until(lambda: len(engine.events) == 5)
        dcm.delete_stream()
        disconnected(source, "")
        dcm.make_stream()
        dcm.publish(*(cloud_event(n) for n in range(100, 103)))
        wait_until(lambda: len(engine.events) == 8)
        wait_until(dcm.settled)
    old, new = engine.events[:5], engine.events[5:]
    assert [event.sequence[1] for event in new] == [1, 2, 3]
    assert len({event.sequence[0] for event in new}) == 1
    assert new[0].sequence > old[-1].sequence


def test_acks_of_a_stream_that_is_gone_do_not_reach_the_new_one(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    engine = Engine(acks=False)
    with reading(engine, own_nats.url) as source:
        dcm.publish(cloud_event(1))
        wait_until(lambda: len(engine.events) == 1)
        dcm.delete_stream()
        dcm.make_stream()
        dcm.publish(cloud_event(2))
        wait_until(lambda: len(engine.events) == 2)
        source.ack(engine.batches[0])
        source.nack(engine.batches[1], 0.0)
        wait_until(lambda: len(engine.events) == 3)
        source.ack(engine.batches[2])
        wait_until(dcm.settled)
    assert [event.id for event in engine.events] == ["e-1", "e-2", "e-2"]


def test_a_server_that_is_killed_under_load_is_back_in_use_after_its_return(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    engine = Engine(acks=True)
    pauses = []
    stopping = threading.Event()
    published: list[int] = []

    def publish() -> None:
        number = 0
        while not stopping.is_set():
            try:
                # An answer that a kill lost never comes, and the next attempt repeats the event.
                dcm.do(dcm.js.publish("dcm.vm", cloud_event(number), timeout=deadline(1)))
            except (NatsError, OSError):
                continue  # the server is away: this one was not stored, or we do not know
            published.append(number)
            number += 1

    with reading(engine, own_nats.url) as source:
        publisher = threading.Thread(target=publish, daemon=True)
        publisher.start()
        for _ in range(3):
            seen = len(engine.events)
            wait_until(lambda seen=seen: len(engine.events) > seen + 100)
            own_nats.kill()
            disconnected(source, "")
            own_nats.start()
            back = time.monotonic()
            connected(source)
            pauses.append(time.monotonic() - back)
        stopping.set()
        publisher.join(deadline(30))
        wait_until(lambda: {event.id for event in engine.events} >= {f"e-{n}" for n in published})
        assert source.status().reconnects >= 3  # a server that pauses for long is lost, too
    assert max(pauses) < 40, pauses


@pytest.mark.parametrize(("ending", "most"), [("stop", 1), ("kill", 2)])
def test_what_was_in_hand_when_the_connection_broke_is_acked_by_the_next_one(
    own_nats: Server, dcm: Dcm, ending: str, most: int
) -> None:
    dcm.make_stream()
    dcm.publish(*(cloud_event(n) for n in range(5)))
    engine = Engine(acks=False)
    with reading(engine, own_nats.url, ack_wait=60.0) as source:
        wait_until(lambda: len(engine.events) == 5)
        getattr(own_nats, ending)()
        disconnected(source, "")
        begun = len(engine.events)
        source.ack(engine.events)
        own_nats.start()
        connected(source)

        def settled() -> bool:
            source.ack(engine.events[begun:])  # what is delivered once more after the ack is with the engine again
            return dcm.settled()

        wait_until(settled)
    came = collections.Counter(event.id for event in engine.events)
    assert set(came) == {f"e-{n}" for n in range(5)}
    # A server writes down a little later what it has delivered. One that is killed before may know nothing of it, and
    # then of no ack either: it delivers once more, for the first time as it believes.
    assert max(came.values()) <= most, came


def test_a_frozen_server_is_noticed_and_used_again(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    engine = Engine(acks=True)
    with reading(engine, own_nats.url) as source:
        own_nats._process.send_signal(signal.SIGSTOP)
        disconnected(source, "")
        own_nats._process.send_signal(signal.SIGCONT)
        connected(source)
        dcm.publish(cloud_event(1))
        wait_until(lambda: engine.events)


def test_a_stop_while_the_server_is_away_does_not_wait_for_it(own_nats: Server, dcm: Dcm) -> None:
    dcm.make_stream()
    dcm.publish(cloud_event(1))
    engine = Engine(acks=False)
    source = make_source(own_nats.url)
    source.start(engine.emit)
    wait_until(lambda: engine.events)
    own_nats.kill()
    disconnected(source, "")
    source.ack(engine.events)
    assert stop(source, 60) < 45


class DeafServer:
    """Lets everybody in as a NATS server does, and answers nothing else."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._server.close()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                with contextlib.suppress(OSError):
                    self._talk(connection)

    def _talk(self, connection: socket.socket) -> None:
        connection.sendall(b'INFO {"server_id":"d","version":"2.10.0","headers":true,"max_payload":1048576}\r\n')
        while data := connection.recv(65536):
            if b"PING\r\n" in data:
                connection.sendall(b"PONG\r\n")
            if b"$JS.API.STREAM.INFO" in data:
                self.asked.set()


def test_a_stop_while_an_answer_is_waited_for_does_not_wait_for_it() -> None:
    server = DeafServer()
    source = make_source(server.url)
    source.start(Engine(acks=True).emit)
    assert server.asked.wait(deadline(60))
    assert stop(source, 60) < 45
    server.close()


def test_a_stop_while_a_frozen_server_is_connected_to_does_not_wait_for_it(own_nats: Server) -> None:
    own_nats._process.send_signal(signal.SIGSTOP)
    source = make_source(own_nats.url)
    source.start(Engine(acks=True).emit)
    wait_until(lambda: source._session._loop.attempting)
    assert stop(source, 60) < 45
    own_nats._process.send_signal(signal.SIGCONT)
