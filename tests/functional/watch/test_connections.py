# SPDX-License-Identifier: Apache-2.0
"""Pings, keepalive, TLS and health."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pytest
import trustme
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.functional.watch.clients import STOCK, WatchClient, channel_to
from tests.functional.watch.serving import Serving, Tokens, admin, joined, serving
from tests.functional.webhooks.subscribing import Instances
from tests.services.servers import free_port
from tests.waiting import deadline, wait_until
from watcher_sync.exceptions import ConfigError, DatabaseUnavailable
from watcher_sync.extensions.watch.hub import Hub
from watcher_sync.extensions.watch.settings import WatchSettings
from watcher_sync.extensions.watch.tls import Certificates
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.epochs import Position
from watcher_sync.storage.writing.store import Store

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture
def any_migrated_url(one_migrated_url: str) -> str:
    """Where the changes are stored does not matter to the connections."""
    return one_migrated_url


def test_pings_go_to_who_offers_them_and_their_answers_count(store: Store) -> None:
    with serving(store, ping_interval=0.2) as site, channel_to(site.port) as channel:
        plain = WatchClient(channel, dialect=STOCK).subscribe("admin", capabilities=["ping"])
        silent = WatchClient(channel, dialect=STOCK).subscribe("admin", capabilities=[])
        marked = WatchClient(channel).subscribe("admin", capabilities=["ping", "bookmark"])
        joined(site, 3)
        head = Instances(store).write(range(10))
        wait_until(lambda: len(plain.pings) > 3 and len(marked.pings) > 3)
        wait_until(lambda: marked.pings[-1].metadata.sequenceID == head)
        assert len({ping.id for ping in plain.pings}) == len(plain.pings)
        assert plain.answered >= 3
        assert all(ping.metadata.sequenceID == 0 for ping in plain.pings)
        assert silent.pings == []
        for client in (plain, silent, marked):
            client.close()


def test_a_bookmark_never_overtakes_an_event(store: Store) -> None:
    with serving(store, ping_interval=0.005, max_queued_events=4_000) as site, channel_to(site.port) as channel:
        instances = Instances(store)
        for _ in range(10):
            instances.write(range(100))
        order: list[tuple[str, int]] = []
        client = WatchClient(channel)
        client.events = _Noting(order, "event")  # type: ignore[assignment]
        client.pings = _Noting(order, "ping")  # type: ignore[assignment]
        client.subscribe("admin", after=0, capabilities=["ping", "bookmark"])
        head = 0
        for _ in range(20):
            head = instances.write(range(50))
        wait_until(lambda: ("event", head) in order)
        wait_until(lambda: ("ping", head) in order)
        last = 0
        for what, sequence in order:
            if what == "ping":
                assert sequence == last
            last = sequence
        client.close()


class _Noting(list[object]):
    def __init__(self, order: list[tuple[str, int]], name: str) -> None:
        super().__init__()
        self._order, self._name = order, name

    def append(self, event: object) -> None:
        super().append(event)
        self._order.append((self._name, event.metadata.sequenceID))  # type: ignore[attr-defined]


@pytest.mark.parametrize(("interval", "survives"), [(0.1, True), (60.0, False)])
def test_a_connection_without_streams_may_send_keepalives_as_often_as_the_option_says(
    store: Store, interval: float, survives: bool
) -> None:
    pings = {
        "grpc__keepalive_time_ms": 300,
        "grpc__keepalive_timeout_ms": 120_000,
        "grpc__keepalive_permit_without_calls": 1,
    }
    states: list[grpc.ChannelConnectivity] = []
    with (
        serving(store, min_keepalive_interval=interval) as site,
        channel_to(site.port, **pings, grpc__http2__max_pings_without_data=0) as channel,
    ):
        channel.subscribe(states.append, try_to_connect=True)
        wait_until(lambda: grpc.ChannelConnectivity.READY in states)
        began = time.monotonic()

        def has_ended() -> bool:
            """The channel may connect again at once."""
            ready = states.index(grpc.ChannelConnectivity.READY)
            return set(states[ready:]) != {grpc.ChannelConnectivity.READY}

        # gRPC sends at most one ping a second, and accepts two that are too early.
        wait_until(lambda: has_ended() or (survives and time.monotonic() - began > 6), what="the end of the connection")
        assert has_ended() != survives


@pytest.mark.parametrize("length", [12_000, 40_000])
def test_a_long_token_may_be_in_the_metadata_as_in_the_request(store: Store, length: int) -> None:
    token = "t" * length
    with serving(store, Tokens(**{token: admin()})) as site, channel_to(site.port) as channel:
        clients = [WatchClient(channel, token=token).subscribe() for _ in range(10)]
        wait_until(lambda: site.worker.stats.subscribed == len(clients) or any(client.status for client in clients))
        assert [client.details for client in clients if client.status] == []
        for client in clients:
            client.close()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


class Files:
    """The certificates of a server in files."""

    def __init__(self, folder: Path, authority: trustme.CA) -> None:
        self.cert, self.key, self.ca = folder / "cert.pem", folder / "key.pem", folder / "ca.pem"
        self.write(authority)

    def write(self, authority: trustme.CA) -> None:
        issued = authority.issue_cert("localhost")
        self.cert.write_bytes(b"".join(each.bytes() for each in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.ca.write_bytes(authority.cert_pem.bytes())


@contextmanager
def secure(site: Serving, authority: trustme.CA, *, has_certificate: bool = False) -> Iterator[grpc.Channel]:
    own = authority.issue_cert("agent@example.org") if has_certificate else None
    credentials = grpc.ssl_channel_credentials(
        authority.cert_pem.bytes(),
        own.private_key_pem.bytes() if own else None,
        own.cert_chain_pems[0].bytes() if own else None,
    )
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.secure_channel(f"localhost:{site.port}", credentials, options=options) as channel:
        yield channel


def test_tls_with_new_certificates_after_a_reload(store: Store, tmp_path: Path, authority: trustme.CA) -> None:
    files = Files(tmp_path, authority)
    certificates = Certificates(str(files.cert), str(files.key))
    with serving(store, certificates=certificates) as site:
        with secure(site, authority) as channel:
            client = WatchClient(channel).subscribe("admin")
            joined(site, 1)
            other = trustme.CA()
            files.write(other)
            certificates.reload()
            with secure(site, other) as second:
                again = WatchClient(second).subscribe("admin")
                joined(site, 2)
                assert client.status is None
                again.close()
            with secure(site, authority) as third:
                assert WatchClient(third).subscribe("admin").wait_for_status() == grpc.StatusCode.UNAVAILABLE
            client.close()
        files.key.unlink()
        with pytest.raises(ConfigError, match="tls_key"):
            certificates.reload()


def test_with_a_client_authority_a_client_needs_a_certificate(
    store: Store, tmp_path: Path, authority: trustme.CA
) -> None:
    files = Files(tmp_path, authority)
    with serving(store, certificates=Certificates(str(files.cert), str(files.key), str(files.ca))) as site:
        with secure(site, authority) as channel:
            assert WatchClient(channel).subscribe("admin").wait_for_status() == grpc.StatusCode.UNAVAILABLE
        with secure(site, authority, has_certificate=True) as channel:
            client = WatchClient(channel).subscribe("admin")
            joined(site, 1)
            assert WatchClient(channel).subscribe("bad").wait_for_status() == grpc.StatusCode.UNAUTHENTICATED
            client.close()


def test_a_port_in_use_is_tried_again(store: Store) -> None:
    with serving(store, port=free_port()) as first:  # no outgoing connection takes it meanwhile
        second = Serving(store, first.tokens, first.settings_at(first.port))
        second.begin()
        try:
            assert not second.worker.wait_until_serving(0.5)
            first.stop()
            assert second.worker.wait_until_serving(60)
            assert second.port == first.port
        finally:
            second.stop()


def test_a_server_whose_journal_is_not_read_is_not_healthy(site: Serving, channel: grpc.Channel) -> None:
    assert site.worker.is_serving()
    site.stop_journal()
    wait_until(lambda: not site.worker.is_serving(), what="the end of the reader")
    for service in ("", "central.events.v1.watch"):
        wait_until(lambda name=service: health_of(channel, name) == NOT_SERVING, what="NOT_SERVING")  # type: ignore[misc]


def test_a_server_is_healthy_again_when_its_journal_is_read_again(
    site: Serving, channel: grpc.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_alive = threading.Event()
    monkeypatch.setattr(JournalReader, "is_alive", lambda _: is_alive.is_set())
    wait_until(lambda: health_of(channel) == NOT_SERVING, what="NOT_SERVING")
    is_alive.set()
    wait_until(lambda: health_of(channel) == SERVING, what="SERVING")


def test_a_server_whose_hub_has_ended_is_not_healthy(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    is_broken = threading.Event()
    follow = Hub._follow

    async def ends(hub: Hub) -> None:
        if is_broken.is_set():
            raise asyncio.CancelledError
        await follow(hub)

    monkeypatch.setattr(Hub, "_follow", ends)
    with serving(store) as site, channel_to(site.port) as channel:
        assert health_of(channel) == SERVING
        is_broken.set()
        Instances(store).write([1])
        wait_until(lambda: health_of(channel) == NOT_SERVING, what="NOT_SERVING")


def health_of(channel: grpc.Channel, service: str = "") -> int:
    """The answer of the health service."""
    request = health_pb2.HealthCheckRequest(service=service)
    return int(health_pb2_grpc.HealthStub(channel).Check(request, wait_for_ready=True, timeout=deadline(60)).status)


def test_no_bookmark_precedes_the_start_of_a_stream(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    head = Instances(store).write(range(10))
    read_position, is_available = JournalReader.position, threading.Event()

    def position_of(reader: JournalReader) -> Position:
        if not is_available.is_set():
            raise DatabaseUnavailable("not yet")
        return read_position(reader)

    monkeypatch.setattr(JournalReader, "position", position_of)
    site = Serving(store, Tokens(admin=admin()), WatchSettings(port=0, ping_interval=0.02))
    site.begin()
    try:
        assert site.worker.wait_until_serving(60)
        with channel_to(site.port) as channel:
            capabilities = ["ping", "bookmark"]
            resumed = WatchClient(channel).subscribe("admin", after=5, capabilities=capabilities)
            fresh = WatchClient(channel).subscribe("admin", capabilities=capabilities)
            time.sleep(0.2)  # ten intervals
            assert [*resumed.pings, *fresh.pings] == [], "the position of a bookmark is not known yet"
            is_available.set()
            wait_until(lambda: fresh.pings and fresh.pings[-1].metadata.sequenceID == head)
            resumed.wait_for(head - 5)
            wait_until(lambda: len(resumed.pings) > 3)
            assert all(ping.metadata.sequenceID >= 5 for ping in resumed.pings)
            for client in (resumed, fresh):
                client.close()
    finally:
        is_available.set()
        site.stop()
