# SPDX-License-Identifier: Apache-2.0
"""HTTP/1.1 on one connection, and the faults that happen there.

Each connection has one thread and remains open between requests.
"""

from __future__ import annotations

import http.server
import socket
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, NoReturn

from watcher_sync.testing.http.faults import Answer, Cut, Delay, Hang, RequestAction
from watcher_sync.testing.http.listener import STOP_POLL_SECONDS, Listener


class Closed(Exception):
    """The connection ends here."""


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. A fake service implements :meth:`serve`."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    sys_version = ""

    def __init__(self, listener: Listener, *connection: Any) -> None:
        """Serves the connection until it ends.

        :param connection: the arguments that http.server gives.
        """
        self.listener = listener
        super().__init__(*connection)

    def serve(self, body: bytes) -> None:
        """Answers the request. Its method, path and headers are attributes of http.server's handler.

        :raises Closed: to end the connection.
        """
        raise NotImplementedError

    def setup(self) -> None:
        super().setup()
        self.listener.connections.add(self.connection)

    def finish(self) -> None:
        self.listener.connections.discard(self.connection)
        try:
            super().finish()
        except (OSError, ValueError):
            pass  # the client has gone, or a fault has closed it

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (OSError, ValueError, Closed):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: requests are counted instead."""

    def do_GET(self) -> None:
        self.serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 - the names that http.server requires

    def header_values(self) -> dict[str, str]:
        """The headers of the request by their names in lower case."""
        return {name.lower(): value for name, value in self.headers.items()}

    def act(self, action: RequestAction) -> float | None:
        """One fault.

        :returns: the part of the answer after which the connection ends, or None.
        """
        match action:
            case Answer(error):
                raise error
            case Delay(seconds):
                self.listener.stopping.wait(seconds)
            case Hang():
                self.hang()
            case Cut(at):
                return at
        return None

    def send(self, status: int, headers: Mapping[str, str], body: bytes, *, cut: float | None = None) -> None:
        """Writes an answer.

        :param cut: the part of the body after which the connection ends; with 0 not even the headers are written.
        """
        self.send_response(status, HTTPStatus(status).phrase)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Length", str(len(body)))
        if cut is not None and not cut:
            raise Closed
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[: int(len(body) * cut)])
        self.wfile.flush()
        if cut is not None:
            raise Closed

    def hang(self) -> NoReturn:
        """Until the server stops or the client has given up."""
        while not self.listener.stopping.wait(STOP_POLL_SECONDS):
            if self.client_has_gone():
                break
        raise Closed

    def client_has_gone(self) -> bool:
        try:
            waiting: bytes = self.connection.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        return not waiting
