# SPDX-License-Identifier: Apache-2.0
"""What remains of a discard."""

from __future__ import annotations

import io
import socket
import threading

from tests.waiting import wait_until
from watcher_sync.api.http.request_input import SOCKET, RequestInput


def test_a_connection_whose_body_was_discarded_can_be_read_further() -> None:
    before = set(threading.enumerate())
    here, client = socket.socketpair()
    body = io.BytesIO(b"body, next request")
    with here, client:
        RequestInput({"CONTENT_LENGTH": "4", "wsgi.input": body, SOCKET: here}).discard()
        assert body.read() == b", next request"
        wait_until(lambda: set(threading.enumerate()) <= before, what="the end of the timer")
        client.sendall(b"x")
        assert here.recv(1) == b"x"
