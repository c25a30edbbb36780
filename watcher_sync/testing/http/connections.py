# SPDX-License-Identifier: Apache-2.0
"""The open connections of a server, so that stopping the server closes them."""

from __future__ import annotations

import socket
import threading


class Connections:
    """Sockets, each from its acceptance until its thread is done with it. Thread-safe."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._sockets: set[socket.socket] = set()
        self._closed = False

    def open(self) -> None:
        """New ones are welcome, again."""
        with self._changed:
            self._closed = False

    def add(self, connection: socket.socket) -> None:
        with self._changed:
            self._sockets.add(connection)
            if self._closed:
                _cut(connection)

    def discard(self, connection: socket.socket) -> None:
        with self._changed:
            self._sockets.discard(connection)
            self._changed.notify_all()

    def close(self, *, deadline: float = 5.0) -> None:
        """Cut all of them, and wait until their threads are done with them, for so many seconds at most."""
        with self._changed:
            self._closed = True
            for connection in self._sockets:
                _cut(connection)
            self._changed.wait_for(lambda: not self._sockets, deadline)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it is closed already
