# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn for the API: ``gunicorn --config python:watcher_sync.wsgi.gunicorn``.

Options of the command line override them.

gunicorn's threaded worker reads the head of a request in a thread, without a time limit. Clients that send half a head
would occupy all threads. :class:`Worker` gives a connection to a thread when the head is complete. Until then the
connection waits in the main loop, for at most :data:`HEAD_SECONDS`.

A client that stops within a body, or that stops reading an answer, loses its connection after
:data:`STALL_SECONDS`.
"""

from __future__ import annotations

import functools
import selectors
import socket
import struct
import time
import weakref
from typing import Any

import gunicorn
from gunicorn.workers.gthread import ThreadWorker

HEAD_SECONDS = 10.0
"""The longest time between the connection, or the end of the previous request, and the end of a request's head."""

STALL_SECONDS = 30
"""The longest time without a byte while a body is read or an answer is sent."""

MAX_HEAD_BYTES = 65_536
"""The connection of a longer head is closed."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


_METHODS = ("enqueue_req", "murder_pending", "on_pending_socket_readable")
_ATTRIBUTES = ("nr_conns", "pending_conns", "poller")


class UnsupportedGunicorn(Exception):
    """The installed gunicorn lacks a name that the worker uses."""


def check_library() -> None:
    """Compare the undocumented names that the worker uses with those of the installed gunicorn.

    :raises UnsupportedGunicorn: naming what is missing.
    """
    used = ThreadWorker.__init__.__code__.co_names
    missing = [name for name in _METHODS if not callable(getattr(ThreadWorker, name, None))]
    missing += [name for name in _ATTRIBUTES if name not in used]
    if missing:
        raise UnsupportedGunicorn(
            f"gunicorn {gunicorn.__version__} has no {', '.join(missing)} in its threaded worker; use another release, "
            "or --worker-class gthread behind a proxy that buffers requests"
        )


check_library()


class Worker(ThreadWorker):  # type: ignore[misc]
    """A threaded worker whose threads see complete heads only. All methods run in its main thread."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadlines: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        """Connection -> when its head must be complete."""

    def enqueue_req(self, conn: Any) -> None:
        """Give the connection to a thread, or wait for the rest of its head."""
        if self.cfg.is_ssl:
            super().enqueue_req(conn)
            return
        deadline = self._deadlines.setdefault(conn, time.monotonic() + HEAD_SECONDS)
        head = _received(conn)
        if head is None or len(head) >= MAX_HEAD_BYTES or time.monotonic() >= deadline:
            self._drop(conn, _TOO_LARGE if head is not None and len(head) >= MAX_HEAD_BYTES else b"")
        elif b"\r\n\r\n" in head.lstrip(b"\r\n"):
            del self._deadlines[conn]
            conn.data_ready = True
            _prepare_for_thread(conn.sock)
            super().enqueue_req(conn)
        else:
            self._wait(conn, len(head), deadline)

    def _wait(self, conn: Any, received: int, deadline: float) -> None:
        conn.sock.setblocking(False)
        # The poller reports the socket only when further bytes arrive.
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, received + 1)
        conn.timeout = deadline
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self.on_pending_socket_readable, conn))

    def murder_pending(self) -> None:
        """Close the connections whose time is over. They are not in the order of their deadlines."""
        now = time.monotonic()
        for conn in [conn for conn in self.pending_conns if conn.timeout <= now]:
            self.pending_conns.remove(conn)
            self.poller.unregister(conn.sock)
            self._drop(conn, b"")

    def _drop(self, conn: Any, answer: bytes) -> None:
        self._deadlines.pop(conn, None)
        self.nr_conns -= 1
        if answer:
            try:
                conn.sock.send(answer)
            except OSError:  # the client has gone
                pass
        conn.close()


def _received(conn: Any) -> bytes | None:
    """What the client has sent of the head, without consuming it; None: the client has closed the connection."""
    buffered: bytes = conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""
    try:
        waiting = conn.sock.recv(MAX_HEAD_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return buffered
    except OSError:
        return None
    return buffered + waiting if waiting else None


def _prepare_for_thread(sock: socket.socket) -> None:
    limit = struct.pack("ll", STALL_SECONDS, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


# gunicorn reads the names below.
bind = "127.0.0.1:8775"
workers = 2
worker_class = Worker
threads = 80
worker_connections = 1000
timeout = 60
graceful_timeout = 10
keepalive = 5
limit_request_line = 4094
limit_request_fields = 100
