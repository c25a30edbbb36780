# SPDX-License-Identifier: Apache-2.0
"""A broker goes away and returns: oslo.messaging reconnects within seconds, and nothing is lost."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.functional.sources.listening import Engine, envelope, listening, make_source, publishing, wrap
from tests.waiting import Deadline, deadline, wait_until
from watcher_sync.sources.base import SourceState


class Proxy:
    """A way to the broker that can be cut, refused while cut, and restored on the same port."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.server: socket.socket | None = None
        # Never listens, and keeps the port while the way is cut.
        self.held = socket.socket()
        self.held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.held.bind(("127.0.0.1", 0))
        self.port: int = self.held.getsockname()[1]
        self.restore()

    def restore(self) -> None:
        server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.server = server
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def cut(self) -> None:
        if self.server is not None:
            self.server.shutdown(socket.SHUT_RDWR)
            self.server.close()
            self.server = None
        for one in self.sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        self.sockets.clear()

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(("127.0.0.1", 5672))
                self.sockets += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    made = Proxy()
    yield made
    made.cut()
    made.held.close()


@pytest.mark.parametrize("down", [pytest.param(0.0, marks=pytest.mark.rare), 1.0])
def test_events_arrive_within_five_seconds_of_the_brokers_return_and_none_is_lost(proxy: Proxy, down: float) -> None:
    engine = Engine(acks=True)
    with (
        publishing() as publisher,
        listening(publisher.name, engine, url_by(proxy)) as source,
    ):
        for number in range(20):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 20)
        engine.acks = False
        publisher.publish(wrap(envelope(20)))
        wait_until(lambda: len(engine.events) == 21)

        proxy.cut()
        for number in range(21, 40):
            publisher.publish(wrap(envelope(number)))
        source.ack(engine.batches[-1])
        engine.acks = True
        back = Deadline(down)
        wait_until(lambda: back.is_over)

        proxy.restore()
        wait_until(lambda: {event.id for event in engine.events} == {f"m-{number}" for number in range(40)})
        # The library reports neither the loss of the connection nor its return.
        assert (source.status().state, source.status().reconnects) == (SourceState.CONNECTED, 0)


def test_a_stop_while_the_broker_is_away_ends_in_time(proxy: Proxy) -> None:
    with publishing() as publisher:
        with listening(publisher.name, Engine(acks=True), url_by(proxy), may_be_left=True) as source:
            proxy.cut()
        proxy.restore()  # after the stop, which did not wait for it
        source._thread.join(deadline(60))
        assert not source._thread.is_alive()


def test_a_start_without_a_broker_is_reported_without_the_password_and_a_stop_does_not_wait(
    proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("watcher_sync.extensions.openstack.source.oslo_messaging._CONNECT_SECONDS", 0.2)
    proxy.cut()
    engine = Engine(acks=True)
    with publishing() as publisher:
        source = make_source(publisher.name, url_by(proxy))
        source.start(engine.emit)
        status = wait_until(lambda: source.status().state is SourceState.DISCONNECTED and source.status())
        assert "oslo.messaging has not connected" in status.detail
        assert "guest" not in status.detail
        source._started_at -= 60
        assert source.status() == status  # each other text would be a line of the log
        source.stop(time.monotonic() + deadline(600))  # returns before the broker does
        # The library cannot be interrupted: it connects now, and its queue is left as it is.
        proxy.restore()
        source._thread.join(deadline(60))
        assert not source._thread.is_alive()
        assert (engine.events, source.status().state) == ([], SourceState.STOPPED)


def url_by(proxy: Proxy) -> str:
    return f"rabbit://guest:guest@127.0.0.1:{proxy.port}/"
