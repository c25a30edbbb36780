# SPDX-License-Identifier: Apache-2.0
"""The proxy breaks connections at the byte that its plan says."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.faulty_proxy import DOWN, UP, Fault, FaultPlan, FaultyProxy, Kind
from tests.waiting import wait_until


class Echo:
    """A server that sends back what it gets, and tells when a connection of it ended."""

    def __init__(self) -> None:
        self.received = 0
        self.ended: list[str] = []
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=self._serve, args=(self._server.accept()[0],), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        try:
            while data := connection.recv(65536):
                self.received += len(data)
                connection.sendall(data)
            self.ended.append("end")
        except OSError:
            self.ended.append("reset")


@pytest.fixture
def echo() -> Iterator[Echo]:
    made = Echo()
    yield made
    made._server.close()


class OneFault(FaultPlan):
    """The same fault for each connection."""

    def __init__(self, kind: Kind, direction: str, offset: int, seconds: float = 0.3) -> None:
        super().__init__(0)
        self._fault = Fault(kind, direction, offset, seconds)

    def next(self) -> Fault:
        return self._fault


def connected(proxy: FaultyProxy) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", proxy.port))
    client.settimeout(60)
    return client


def read(client: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (part := client.recv(size - len(data))):
        data += part
    return data


def test_without_a_plan_everything_passes(echo: Echo) -> None:
    with FaultyProxy(echo.port) as proxy, connected(proxy) as client:
        client.sendall(b"x" * 100_000)
        assert read(client, 100_000) == b"x" * 100_000
        assert proxy.attempts == 1


@pytest.mark.parametrize("direction", [UP, DOWN])
def test_a_cut_comes_after_exactly_so_many_bytes(echo: Echo, direction: str) -> None:
    with FaultyProxy(echo.port, OneFault(Kind.CUT, direction, 7)) as proxy, connected(proxy) as client:
        client.sendall(b"0123456789")
        got = b""
        with contextlib.suppress(ConnectionResetError):
            while part := client.recv(100):
                got += part
        assert got in (b"0123456", b"")
        wait_until(lambda: echo.ended)
        assert echo.received == (7 if direction == UP else 10)
        assert [fault.kind for fault in proxy.happened] == [Kind.CUT]


def test_a_stall_delays_and_loses_nothing(echo: Echo) -> None:
    with FaultyProxy(echo.port, OneFault(Kind.STALL, UP, 4)) as proxy, connected(proxy) as client:
        began = time.monotonic()
        client.sendall(b"0123456789")
        assert read(client, 4) == b"0123"
        assert read(client, 6) == b"456789"
        assert time.monotonic() - began >= 0.3


def test_a_half_close_ends_one_direction_only(echo: Echo) -> None:
    with FaultyProxy(echo.port, OneFault(Kind.HALF_CLOSE, DOWN, 4)) as proxy, connected(proxy) as client:
        client.sendall(b"0123456789")
        assert read(client, 10) == b"0123"
        client.sendall(b"more")
        wait_until(lambda: echo.received == 14)


def test_of_a_silenced_connection_neither_side_learns(echo: Echo) -> None:
    with FaultyProxy(echo.port) as proxy:
        with connected(proxy) as client:
            client.sendall(b"0")
            assert read(client, 1) == b"0"
            proxy.silence()
            client.sendall(b"1")
            client.settimeout(0.2)
            with pytest.raises(TimeoutError):
                client.recv(1)
        assert (echo.received, echo.ended) == (1, [])
        with connected(proxy) as client:
            client.sendall(b"2")
            assert read(client, 1) == b"2"


def test_a_proxy_that_vanished_accepts_connections_and_passes_nothing_until_it_is_restored(echo: Echo) -> None:
    with FaultyProxy(echo.port) as proxy:
        with connected(proxy) as old:
            proxy.vanish()
            with connected(proxy) as new:
                for client in (old, new):
                    client.sendall(b"0")
                    client.settimeout(0.2)
                    with pytest.raises(TimeoutError):
                        client.recv(1)
        assert (echo.received, echo.ended) == (0, [])
        proxy.restore()
        with connected(proxy) as client:
            client.sendall(b"1")
            assert read(client, 1) == b"1"


def test_a_test_stalls_resumes_refuses_and_restores(echo: Echo) -> None:
    with FaultyProxy(echo.port) as proxy, connected(proxy) as client:
        client.sendall(b"0")
        assert read(client, 1) == b"0"
        proxy.stall(UP, DOWN)
        client.sendall(b"1")
        client.settimeout(0.2)
        with pytest.raises(TimeoutError):
            client.recv(1)
        proxy.resume()
        client.settimeout(60)
        assert read(client, 1) == b"1"
        proxy.cut()
        with pytest.raises(ConnectionResetError):
            client.recv(1)
        with pytest.raises(ConnectionRefusedError):
            connected(proxy)
        proxy.restore()
        with connected(proxy) as again:
            again.sendall(b"2")
            assert read(again, 1) == b"2"


def test_one_seed_gives_one_plan() -> None:
    plans = [FaultPlan(7), FaultPlan(7)]
    first, second = ([plan.next() for _ in range(200)] for plan in plans)
    assert first == second
    assert {fault.kind for fault in first} == set(Kind)
    assert {fault.direction for fault in first} == {UP, DOWN}
