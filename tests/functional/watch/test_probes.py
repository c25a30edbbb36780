# SPDX-License-Identifier: Apache-2.0
"""Health and reflection need no token, so limits of their own bound them."""

from __future__ import annotations

import collections
import contextlib
import socket
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from tests.functional.watch.clients import WatchClient, channel_to
from tests.functional.watch.serving import Serving, joined, serving
from tests.waiting import deadline, wait_until
from watcher_sync.storage.writing.store import Store

SERVICE = "central.events.v1.watch"
SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def any_migrated_url(one_migrated_url: str) -> str:
    """Where the changes are stored does not matter to the probes."""
    return one_migrated_url


class Watching:
    """The outcomes of health watches: the first answer or the status of each."""

    def __init__(self, pool: futures.Executor, channels: list[grpc.Channel], count: int) -> None:
        request = health_pb2.HealthCheckRequest()
        self.calls: list[Any] = [
            health_pb2_grpc.HealthStub(channels[each % len(channels)]).Watch(request) for each in range(count)
        ]
        self.firsts = list(pool.map(_first_of, self.calls))

    @property
    def accepted(self) -> int:
        return self.firsts.count(SERVING)

    @property
    def refused(self) -> int:
        # CANCELLED if the machine pauses while the server reads the request of a refused call.
        known = {SERVING, grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.CANCELLED}
        assert set(self.firsts) <= known, collections.Counter(self.firsts)
        return len(self.firsts) - self.accepted

    def cancel(self) -> None:
        for call in self.calls:
            call.cancel()


def _first_of(call: Any) -> Any:
    try:
        return next(call).status
    except grpc.RpcError as exc:
        return exc.code()


@contextlib.contextmanager
def channels_to(site: Serving, count: int) -> Iterator[list[grpc.Channel]]:
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(channel_to(site.port)) for _ in range(count)]


@contextlib.contextmanager
def threads() -> Iterator[futures.Executor]:
    with futures.ThreadPoolExecutor(8) as pool:
        yield pool


def test_health_watches_beyond_the_limit_of_an_address_are_refused(store: Store) -> None:
    limit, count = 100, 3_000
    with serving(store, max_streams_per_identity=limit) as site, channels_to(site, 20) as channels, threads() as pool:
        watching = Watching(pool, channels, count)
        assert (watching.accepted, watching.refused) == (limit, count - limit)
        for channel in channels[:3]:
            assert check(channel) == SERVING, "a probe works meanwhile"
        watching.cancel()

        def are_given_back() -> bool:
            again = Watching(pool, channels, limit)
            again.cancel()
            return again.accepted == limit

        wait_until(are_given_back, what="the end of all watches at the server")


def test_watches_and_reflection_at_their_limits_refuse_no_subscription(store: Store) -> None:
    limits = {"max_streams": 8, "max_streams_per_identity": 3}
    with serving(store, reflection=True, **limits) as site, channels_to(site, 2) as channels, threads() as pool:
        watching = Watching(pool, channels, 10)
        assert (watching.accepted, watching.refused) == (3, 7), "the limit of their address"
        clients = [WatchClient(channel).subscribe("admin") for channel in (*channels, channels[0])]
        joined(site, 3)
        for client in clients:
            client.close()


def test_health_watches_have_half_as_many_streams_as_clients_with_a_token(store: Store) -> None:
    with serving(store, max_streams=20) as site, channels_to(site, 2) as channels, threads() as pool:
        watching = Watching(pool, channels, 50)
        assert (watching.accepted, watching.refused) == (10, 40)
        clients: list[WatchClient] = []
        for count in (10, 20):  # half of the streams may have no subscription yet
            clients += [WatchClient(channels[0]).subscribe("admin") for _ in range(10)]
            joined(site, count)
        assert WatchClient(channels[1]).wait_for_status() == grpc.StatusCode.RESOURCE_EXHAUSTED
        watching.cancel()

        def are_accepted() -> bool:
            again = Watching(pool, channels, 1)
            again.cancel()
            return again.accepted == 1

        wait_until(are_accepted, what="a watch beside as many streams as there may be")
        for client in clients:
            client.close()


def test_a_check_that_never_sends_its_request_is_ended(store: Store) -> None:
    with serving(store, probe_request_timeout=0.2) as site, channel_to(site.port) as channel:
        for method in ("Check", "Watch"):
            call = channel.stream_unary(f"/grpc.health.v1.Health/{method}", None, None)
            with pytest.raises(grpc.RpcError) as failed:
                call(silence(), timeout=deadline(60))
            assert failed.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
            assert "0.2 s" in str(failed.value.details())


def silence() -> Iterator[bytes]:
    """No message, and no end."""
    futures.Future[None]().result(deadline(60))
    yield b""


def test_a_health_watch_follows_the_server_and_ends_with_it(store: Store) -> None:
    with serving(store) as site, channel_to(site.port) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        watches = [health.Watch(health_pb2.HealthCheckRequest(service=name)) for name in ("", SERVICE, "other")]
        firsts = [next(watch).status for watch in watches]
        assert firsts == [SERVING, SERVING, health_pb2.HealthCheckResponse.SERVICE_UNKNOWN]
        with pytest.raises(grpc.RpcError) as unknown:
            check(channel, "other")
        assert unknown.value.code() == grpc.StatusCode.NOT_FOUND
        site.stop_journal()
        assert [next(watch).status for watch in watches[:2]] == [NOT_SERVING, NOT_SERVING]
        site.stop()
        for watch in watches:
            with pytest.raises(grpc.RpcError) as ended:
                next(watch)
            assert ended.value.code() == grpc.StatusCode.UNAVAILABLE


def test_a_health_watch_that_is_not_read_delays_no_other(store: Store) -> None:
    with serving(store) as site, channel_to(site.port) as channel, socket.socket() as unread:
        unread.connect(("127.0.0.1", site.port))
        unread.sendall(WITHOUT_WINDOW)
        received = bytearray()
        while b"grpc" not in received:  # the headers of the answer: its message follows, and waits
            received += unread.recv(4096)
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=deadline(60))
        assert next(watch).status == SERVING
        site.stop_journal()
        assert next(watch).status == NOT_SERVING


@pytest.mark.parametrize(("of_identity", "of_connection"), [(256, 512), (1, 100)])
def test_a_connection_has_a_limit_of_streams(store: Store, of_identity: int, of_connection: int) -> None:
    with serving(store, max_streams_per_identity=of_identity) as site, socket.socket() as client:
        client.connect(("127.0.0.1", site.port))
        client.sendall(WITHOUT_WINDOW)
        setting = (3).to_bytes(2) + of_connection.to_bytes(4)  # SETTINGS_MAX_CONCURRENT_STREAMS
        wait_until(lambda: setting in client.recv(4096), what="the settings of the server")


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    """A frame of HTTP/2 (RFC 9113, section 4.1)."""
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def _field(name: str, value: str) -> bytes:
    """A header field without an index (RFC 7541, section 6.2.2)."""
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


_FIELDS = {
    ":method": "POST",
    ":scheme": "http",
    ":path": "/grpc.health.v1.Health/Watch",
    ":authority": "localhost",
    "content-type": "application/grpc",
    "te": "trailers",
}
WITHOUT_WINDOW = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    + _frame(4, 0, 0, b"\0\4" + (0).to_bytes(4))  # SETTINGS_INITIAL_WINDOW_SIZE = 0
    + _frame(1, 4, 1, b"".join(_field(*each) for each in _FIELDS.items()))
    + _frame(0, 1, 1, bytes(5))  # a HealthCheckRequest without a name
)
"""A health watch of a client that accepts no byte of its answers."""


def test_reflection_is_off_by_default(site: Serving, channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as refused:
        list(reflection_pb2_grpc.ServerReflectionStub(channel).ServerReflectionInfo(iter([LIST])))
    assert refused.value.code() == grpc.StatusCode.UNIMPLEMENTED


LIST = reflection_pb2.ServerReflectionRequest(list_services="")


def test_reflection_describes_the_service_and_counts_as_a_health_watch(store: Store) -> None:
    with (
        serving(store, reflection=True, max_streams_per_identity=5) as site,
        channel_to(site.port) as channel,
        threads() as pool,
    ):
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        questions = [LIST, reflection_pb2.ServerReflectionRequest(file_containing_symbol=SERVICE)]
        services, file = stub.ServerReflectionInfo(iter(questions))
        assert SERVICE in {each.name for each in services.list_services_response.service}
        assert b"resumeAfterSequence" in b"".join(file.file_descriptor_response.file_descriptor_proto)
        watching = Watching(pool, [channel], 5)
        assert watching.accepted == 5
        with pytest.raises(grpc.RpcError) as refused:
            list(stub.ServerReflectionInfo(iter([LIST])))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        watching.cancel()


def check(channel: grpc.Channel, service: str = "") -> int:
    request = health_pb2.HealthCheckRequest(service=service)
    return int(health_pb2_grpc.HealthStub(channel).Check(request, timeout=deadline(60)).status)
