# SPDX-License-Identifier: Apache-2.0
"""A way to a server that can be cut and mended."""

from __future__ import annotations

import contextlib
import socket
import threading

from tests.services.servers import free_port


class Wire:
    """Passes TCP connections on to a port of this machine, while it is whole."""

    def __init__(self, target: int) -> None:
        self.target = target
        """The port that connections made from now on lead to."""
        self._lock = threading.Lock()
        """Guards the ends: a connection that is accepted during a cut is cut, too."""
        self._ends: list[socket.socket] = []
        self._server: socket.socket | None = None
        self.port = free_port()  # no outgoing connection takes it while the wire is cut
        self.mend()

    def mend(self) -> None:
        """Take connections, on the same port as before."""
        server = self._server = socket.create_server(("127.0.0.1", self.port))
        threading.Thread(target=self._accept, args=(server,), daemon=True).start()

    def cut(self) -> None:
        """End all connections and take no more."""
        with self._lock:
            server, self._server = self._server, None
            ends, self._ends = self._ends, []
        for end in [*([server] if server else []), *ends]:
            _end(end)

    def _accept(self, server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = server.accept()
                far = socket.create_connection(("127.0.0.1", self.target))
                with self._lock:
                    is_whole = self._server is server
                    self._ends += [near, far] if is_whole else []
                if not is_whole:
                    _end(near)
                    _end(far)
                    return
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._copy, args=(one, other), daemon=True).start()

    def _copy(self, one: socket.socket, other: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := one.recv(65536):
                other.sendall(data)
        with contextlib.suppress(OSError):
            other.shutdown(socket.SHUT_RDWR)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
