# SPDX-License-Identifier: Apache-2.0
"""A compressed watch: each event is read when it arrives, and damage is an error and not silence."""

from __future__ import annotations

import contextlib
import gzip
import queue
import socket
import threading
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import urllib3

from tests.functional.sources.reflecting import Engine, following, only, wait_for_truth
from tests.waiting import deadline, wait_until
from watcher_sync.extensions.kubernetes.source import watch_stream
from watcher_sync.extensions.kubernetes.source.connection import TooLarge, TransportError
from watcher_sync.extensions.kubernetes.source.progress import Phase
from watcher_sync.testing.kubernetes import KubernetesServer
from watcher_sync.testing.kubernetes.builders import pod

EVENTS = [b'{"type":"ADDED","object":{"metadata":{"name":"p%d"}}}\n' % number for number in range(4)]


def lines(*events: bytes) -> list[bytes]:
    return [event.rstrip(b"\n") for event in events]


class Stream:
    """A watch over real HTTP: what the server sends, and the lines that arrive."""

    def __init__(self, send: Callable[[bytes], None], end: Callable[[], None], batches: Iterator[list[bytes]]) -> None:
        self.send = send
        self.end = end
        self.batches = batches

    def rest(self) -> list[bytes]:
        """End the answer; the lines that had not been read."""
        self.end()
        return [line for batch in self.batches for line in batch]


@pytest.fixture(params=["chunked", "until the end"])
def stream(request: pytest.FixtureRequest) -> Iterator[Stream]:
    """A server that sends what the test wants, each in a chunk of its own, or without chunks as some gateways do."""
    is_chunked = request.param == "chunked"
    parts: queue.Queue[bytes | None] = queue.Queue()

    def serve() -> None:
        connection, _ = server.accept()
        with connection, contextlib.suppress(ConnectionError):
            connection.recv(65536)
            framing = b"Transfer-Encoding: chunked" if is_chunked else b"Connection: close"
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n" + framing + b"\r\n\r\n")
            while (part := parts.get()) is not None:
                connection.sendall(b"%x\r\n%b\r\n" % (len(part), part) if is_chunked else part)
            connection.sendall(b"0\r\n\r\n" if is_chunked else b"")

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        timeout = urllib3.Timeout(deadline(60))
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        response = urllib3.PoolManager().request("GET", url, preload_content=False, timeout=timeout)
        try:
            yield Stream(parts.put, lambda: parts.put(None), watch_stream.batches(response))
        finally:
            response.close()
            parts.put(None)
            thread.join(deadline(60))


def flushed() -> Callable[[bytes], bytes]:
    """Compresses each event within one member."""
    member = zlib.compressobj(wbits=31)
    return lambda event: member.compress(event) + member.flush(zlib.Z_SYNC_FLUSH)


@pytest.mark.parametrize("how", ["a member of each event", "one member, flushed"])
def test_a_compressed_event_is_read_though_nothing_follows(stream: Stream, how: str) -> None:
    compress = flushed() if how.endswith("flushed") else gzip.compress
    for event in EVENTS:
        stream.send(compress(event))
        assert next(stream.batches) == lines(event)


def test_a_large_compressed_event_is_read_though_nothing_follows(stream: Stream) -> None:
    for size in (65_535, 65_536, 65_537, 1_000_000):
        event = b'"%b"\n' % (b"x" * (size - 3))
        stream.send(gzip.compress(event))
        assert next(stream.batches) == lines(event)


def test_events_that_a_server_flushes_late_arrive_with_the_flush(stream: Stream) -> None:
    member = zlib.compressobj(wbits=31)
    late = b"".join(map(member.compress, EVENTS[:3])) + member.flush(zlib.Z_SYNC_FLUSH)
    for byte in late:
        stream.send(bytes([byte]))
    read: list[bytes] = []
    while len(read) < 3:
        read += next(stream.batches)
    assert read == lines(*EVENTS[:3])


def test_a_stream_that_ends_within_a_member_has_its_whole_events(stream: Stream) -> None:
    stream.send(gzip.compress(EVENTS[0]))
    stream.send(gzip.compress(EVENTS[1])[:-20])

    assert stream.rest() == lines(EVENTS[0])


@pytest.mark.parametrize(
    "damaged", [b"no gzip", gzip.compress(EVENTS[1])[:-8] + b"\0" * 8], ids=["no gzip", "a wrong checksum"]
)
@pytest.mark.parametrize("before", [0, 1])
def test_a_damaged_member_ends_the_watch_and_is_not_silence(stream: Stream, before: int, damaged: bytes) -> None:
    for event in EVENTS[:before]:
        stream.send(gzip.compress(event))
        assert next(stream.batches) == lines(event)
    stream.send(damaged)
    stream.send(gzip.compress(EVENTS[2]))
    stream.end()

    with pytest.raises(TransportError, match="gzip"):
        next(stream.batches)


def test_an_event_that_decompresses_without_end_is_refused_in_bounded_memory(
    stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch_stream, "_MAX_LINE_BYTES", 1 << 20)
    bomb = gzip.compress(b" " * 200_000_000, 1)
    tracemalloc.start()
    try:
        stream.send(bomb)
        with pytest.raises(TooLarge):
            next(stream.batches)
        assert tracemalloc.get_traced_memory()[1] < 20_000_000
    finally:
        tracemalloc.stop()


def test_a_streamed_list_and_what_follows_it_arrive_compressed(tmp_path: Path) -> None:
    engine = Engine()
    with KubernetesServer() as server, following(server, tmp_path, engine) as source:
        wait_until(lambda: only(source).progress.phase is Phase.WATCHING)
        (watch,) = [r for r in server.requests.last() if r.resource == "pods"]
        assert ("sendInitialEvents" in watch.query, watch.headers["accept-encoding"]) == (True, "gzip")
        for name in ("a", "b"):
            server.create(pod(name))
            wait_for_truth(server, engine)
