# SPDX-License-Identifier: Apache-2.0
"""A port that serves HTTP with a thread for each connection."""

from __future__ import annotations

import functools
import http.server
import socket
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any, Final


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


STOP_POLL_SECONDS: Final = 0.05


class Listener:
    """A port. It can be stopped, and started again on the same port."""

    def __init__(
        self,
        handler: Callable[..., http.server.BaseHTTPRequestHandler],
        *,
        name: str,
        host: str,
        port: int = 0,
        on_stop: Callable[[], None] = lambda: None,
    ) -> None:
        """
        :param handler: makes the :class:`~.handler.Handler` of a connection; its first argument is the listener.
        :param name: of the thread that accepts connections.
        :param port: 0 takes any that is free.
        :param on_stop: wakes handlers that wait for something else than :attr:`stopping` or their socket.
        """
        self.connections = Connections()
        self.stopping = threading.Event()
        """Set as long as the port is being closed, and then until it is opened again."""
        self._handler = functools.partial(handler, self)
        self._name = name
        self.host = host
        self._port = port
        self._on_stop = on_stop
        self._holder: socket.socket | None = None
        """Keeps the port while nothing listens, so that no other process gets it."""
        self._http: http.server.ThreadingHTTPServer | None = None
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        """Without a slash at its end."""
        return f"http://{self.host}:{self._port}"

    def start(self) -> None:
        """Listen; on the same port as before, if there was one. Nothing happens when it does already.

        :raises OSError: when the port is taken.
        """
        if self._http is not None:
            return
        if self._holder is None:
            self._holder = self._held()
            self._port = self._holder.getsockname()[1]
        self.stopping.clear()
        self.connections.open()
        self._http = _Server((self.host, self._port), self._handler)
        self._thread = threading.Thread(
            target=self._http.serve_forever, kwargs={"poll_interval": STOP_POLL_SECONDS}, name=self._name, daemon=True
        )
        self._thread.start()

    def _held(self) -> socket.socket:
        holder = socket.socket()
        weakref.finalize(self, holder.close)
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            holder.bind((self.host, self._port))
        except OSError:
            holder.close()
            raise
        return holder

    def stop(self) -> None:
        """Cut all connections and listen no more: clients find the port closed."""
        if self._http is None or self._thread is None:
            return
        self.stopping.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        self._on_stop()
        self.connections.close()
        self._http = None


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 1024
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that the client or a fault has cut; anything else is a bug of ours and is shown."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)
