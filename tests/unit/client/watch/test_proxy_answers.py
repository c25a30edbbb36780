# SPDX-License-Identifier: Apache-2.0
"""The statuses that a proxy makes: it answers 404 while it knows no service behind it, as an ingress in a rollout."""

from __future__ import annotations

import socket
import threading

import grpc
import pytest

from tests.unit.client.watch.watching import Watching
from tests.waiting import deadline, wait_until
from watcher_sync.client.watch import NotWatchService
from watcher_sync.client.watch.errors import is_of_proxy
from watcher_sync.testing.watch.service import Refusal

pytestmark = pytest.mark.slow

Code = grpc.StatusCode
STATUS_404 = b"\x8d"
"""HPACK (RFC 7541): entry 13 of the static table."""


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame of HTTP/2 (RFC 9113)."""
    return len(payload).to_bytes(3) + bytes((kind, flags)) + stream.to_bytes(4) + payload


def answer_404(listener: socket.socket) -> None:
    """Answer the first request of one connection as a web server does."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rb") as received:
        received.read(24)
        connection.sendall(frame(4, 0, 0))
        while head := received.read(9):
            received.read(int.from_bytes(head[:3]))
            if head[3] == 1:
                connection.sendall(frame(1, 5, int.from_bytes(head[5:]), STATUS_404))


@pytest.mark.parametrize(
    ("code", "status"), [(Code.UNIMPLEMENTED, 404), (Code.PERMISSION_DENIED, 403), (Code.UNAUTHENTICATED, 401)]
)
def test_what_a_proxy_answers_ends_no_watch_that_the_service_has_served(either, code, status):
    with Watching(either) as watching:
        # A stream without a position begins at the head, at a moment that only its first event shows.
        wait_until(lambda: either.topic.publish(1) and watching.events)
        either.refusals.extend([Refusal(code, f"Received http2 header with status: {status}")] * 3)
        either.open_streams()[0].end(Code.UNAVAILABLE)
        wait_until(lambda: len(either.streams) == 5 and either.open_streams())
        either.topic.publish(1)
        wait_until(lambda: watching.sequences[-1] == either.topic.head)
    assert not watching.errors


def test_an_address_that_never_served_the_watch_is_named_at_once(service):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        answering = threading.Thread(target=answer_404, args=(listener,), daemon=True)
        answering.start()
        with Watching(service, port=listener.getsockname()[1], harvester=None, resume_only=True) as watching:
            wait_until(lambda: watching.errors)
        answering.join(deadline(10))
    (error,) = watching.errors
    assert isinstance(error, NotWatchService)
    assert is_of_proxy(str(error).partition(": ")[2])
