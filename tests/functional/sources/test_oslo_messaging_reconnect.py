# SPDX-License-Identifier: Apache-2.0
"""A broker goes away and returns: the source reports it, reconnects within seconds, and loses nothing."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.functional.sources.listening import Engine, envelope, listening, publishing, wait_until, wrap
from watcher_sync.sources.base import SourceState


class Proxy:
    """A way to the broker that can be cut, refused while cut, and restored on the same port."""

    def __init__(self) -> None:
        self.sockets: list[socket.socket] = []
        self.server: socket.socket | None = None
        self.port = 0
        self.restore()

    def restore(self) -> None:
        server = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = server.getsockname()[1]
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


@pytest.mark.parametrize("down", [0.0, 3.0])
def test_it_goes_on_within_five_seconds_of_the_brokers_return(proxy: Proxy, down: float) -> None:
    engine = Engine(acks=True)
    with (
        publishing() as publisher,
        listening(publisher.name, engine, f"rabbit://guest:guest@127.0.0.1:{proxy.port}/") as source,
    ):
        for number in range(20):
            publisher.publish(wrap(envelope(number)))
        wait_until(lambda: len(engine.events) == 20)
        engine.acks = False
        publisher.publish(wrap(envelope(20)))
        wait_until(lambda: len(engine.events) == 21)

        proxy.cut()
        wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
        assert source.status().detail
        for number in range(21, 40):
            publisher.publish(wrap(envelope(number)))
        source.ack(engine.batches[-1])  # too late: the broker gives it again
        engine.acks = True
        back = time.monotonic() + down
        wait_until(lambda: time.monotonic() >= back)
        assert source.status().state is SourceState.DISCONNECTED

        proxy.restore()
        wait_until(lambda: {event.id for event in engine.events} == {f"m-{number}" for number in range(40)}, 5)
        wait_until(lambda: source.status().state is SourceState.CONNECTED)
        assert source.status().reconnects == 1
        wait_until(lambda: publisher.waiting() == 0)
        again = [event for event in engine.events if event.id == "m-20"]
        assert again[-1].deliveries == 2


def test_a_stop_while_the_broker_is_away_ends_in_time(proxy: Proxy) -> None:
    with publishing() as publisher:
        url = f"rabbit://guest:guest@127.0.0.1:{proxy.port}/"
        with listening(publisher.name, Engine(acks=True), url, may_be_left=True) as source:
            proxy.cut()
            wait_until(lambda: source.status().state is SourceState.DISCONNECTED)
            begin = time.monotonic()
        assert time.monotonic() - begin < 6  # the source had five seconds to stop
        proxy.restore()
