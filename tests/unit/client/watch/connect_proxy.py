# SPDX-License-Identifier: Apache-2.0
"""An HTTP proxy that tunnels by ``CONNECT`` and passes plain requests on, with Basic authentication."""

from __future__ import annotations

import base64
import contextlib
import select
import socket
import socketserver
import threading
from types import TracebackType
from typing import Self

_WAIT_SECONDS = 0.05


class _Handler(socketserver.StreamRequestHandler):
    server: _Server

    def handle(self) -> None:
        line = self.rfile.readline().decode().strip()
        raw = []
        while (header := self.rfile.readline()).strip():
            raw.append(header)
        headers = dict(each.decode().strip().split(": ", 1) for each in raw)
        headers = {name.lower(): value for name, value in headers.items()}
        proxy = self.server.proxy
        method, target, _ = line.split(" ")
        if headers.get("proxy-authorization") != proxy.wanted:
            proxy.refused.append(line)
            self.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        proxy.passed.append(line)
        if method == "CONNECT":
            host, port = target.rsplit(":", 1)
            far = socket.create_connection((proxy.names.get(host, host), int(port)))
            self.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            authority, path = target.removeprefix("http://").split("/", 1)
            host, port = authority.rsplit(":", 1)
            far = socket.create_connection((proxy.names.get(host, host), int(port)))
            far.sendall(f"{method} /{path} HTTP/1.1\r\n".encode() + b"".join(raw) + b"Connection: close\r\n\r\n")
        self._copy(far)

    def _copy(self, far: socket.socket) -> None:
        ends = {self.connection: far, far: self.connection}
        with contextlib.suppress(OSError), far:
            while True:
                for end in select.select(list(ends), [], [], _WAIT_SECONDS)[0]:
                    data = end.recv(65536)
                    if not data:
                        return
                    ends[end].sendall(data)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    proxy: ConnectProxy


class ConnectProxy:
    """A proxy on a port of this machine.

    :ivar names: host name -> the address that the proxy connects to.
    :ivar passed: the first lines of the requests that it served.
    :ivar refused: those of the requests without the right credentials.
    """

    def __init__(self, user: str, password: str) -> None:
        self.wanted = "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
        self.names: dict[str, str] = {}
        self.passed: list[str] = []
        self.refused: list[str] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.port: int = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, args=(_WAIT_SECONDS,), daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
