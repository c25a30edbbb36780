# SPDX-License-Identifier: Apache-2.0
"""Settings of gunicorn for the API: ``gunicorn --config python:watcher_sync.wsgi.gunicorn``.

Options of the command line override them.

gunicorn's threaded worker reads the head of a request in a thread, without a time limit. Clients that send half a head
would occupy all threads. :class:`Worker` gives a connection to a thread when the head is complete. Until then the
connection waits in the main loop, for at most :data:`HEAD_SECONDS`.

A body must be complete :data:`BODY_SECONDS` after the head. A body that the application leaves unread occupies no
thread: the worker closes the connection, and its main loop waits for the client's end. A client that stops reading an
answer loses its connection after :data:`STALL_SECONDS`.
"""

from __future__ import annotations

import contextlib
import functools
import selectors
import socket
import struct
import time
import weakref
from concurrent import futures
from typing import Any

import gunicorn
from gunicorn.http.parser import Parser
from gunicorn.workers.gthread import ThreadWorker

HEAD_SECONDS = 10.0
"""The longest time between the connection, or the end of the previous request, and the end of a request's head."""

BODY_SECONDS = 30.0
"""The longest time between the end of a request's head and the end of its body."""

LINGER_SECONDS = 2.0
"""The longest time between the end of an answer and the close of its connection, for a client that still sends.

A thread reads a body for at least this time, also if the request waited for the thread.
"""

STALL_SECONDS = 30
"""The longest time without a byte while a body is read or an answer is sent."""

MAX_HEAD_BYTES = 65_536
"""The connection of a longer head is closed."""

_TOO_LARGE = b"HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"


_METHODS = ("enqueue_req", "finish_request", "handle_request", "murder_pending", "on_pending_socket_readable")
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
    if not callable(getattr(Parser, "finish_body", None)):
        missing.append("finish_body")
    if missing:
        raise UnsupportedGunicorn(
            f"gunicorn {gunicorn.__version__} has no {', '.join(missing)} in its threaded worker; use another release, "
            "or --worker-class gthread behind a proxy that buffers requests"
        )


check_library()


class Worker(ThreadWorker):  # type: ignore[misc]
    """A threaded worker whose threads see complete heads only.

    All methods but :meth:`handle_request` run in its main thread.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._deadlines: weakref.WeakKeyDictionary[Any, float] = weakref.WeakKeyDictionary()
        """Connection -> when its head must be complete."""
        self._waiting: dict[Any, float] = {}
        """Connection that waits for a thread -> when the body of its request must be complete."""
        self._bodies: dict[Any, float] = {}
        """Connection in a thread -> when the body of its request must be complete."""
        self._overdue: set[Any] = set()
        """Connections in a thread that read no further. Where their next request starts is unknown."""

    def enqueue_req(self, conn: Any) -> None:
        """Give the connection to a thread, or wait for the rest of its head."""
        if self.cfg.is_ssl:
            super().enqueue_req(conn)
            return
        deadline = self._deadlines.setdefault(conn, time.monotonic() + HEAD_SECONDS)
        buffered, waiting = _received(conn)
        head = buffered + (waiting or b"")
        if waiting is None:
            self._drop(conn, b"")
        elif b"\r\n\r\n" in head.lstrip(b"\r\n"):
            self._start(conn, head)
        elif len(head) >= MAX_HEAD_BYTES or time.monotonic() >= deadline:
            self._drop(conn, _TOO_LARGE if len(head) >= MAX_HEAD_BYTES else b"")
        else:
            self._wait(conn, len(waiting), deadline)

    def _start(self, conn: Any, head: bytes) -> None:
        del self._deadlines[conn]
        conn.data_ready = True
        _prepare_for_thread(conn.sock)
        if _may_have_body(head):
            self._waiting[conn] = time.monotonic() + BODY_SECONDS
        super().enqueue_req(conn)

    def _wait(self, conn: Any, waiting: int, deadline: float) -> None:
        """:param waiting: the bytes in the socket; those that gunicorn has read do not count for it."""
        conn.sock.setblocking(False)
        # The poller reports the socket only when further bytes arrive.
        conn.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, waiting + 1)
        conn.timeout = deadline
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self.on_pending_socket_readable, conn))

    def murder_pending(self) -> None:
        """Close the connections whose time is over. They are not in the order of their deadlines."""
        now = time.monotonic()
        for conn in [conn for conn in self.pending_conns if conn.timeout <= now]:
            self._forget(conn)
        for conn in [conn for conn, deadline in list(self._bodies.items()) if deadline <= now]:
            del self._bodies[conn]
            self._overdue.add(conn)  # before its thread can see the end
            with contextlib.suppress(OSError):  # the client has gone
                conn.sock.shutdown(socket.SHUT_RD)

    def handle_request(self, req: Any, conn: Any) -> bool:
        """Answer a request in a thread.

        :returns: whether the connection can serve another request. It cannot if a part of the body has not arrived:
            gunicorn would wait for it in this thread.
        """
        deadline = self._waiting.pop(conn, None)
        if deadline is not None:
            # A large body arrives only while a thread reads it.
            self._bodies[conn] = max(deadline, time.monotonic() + LINGER_SECONDS)
        keep: bool = super().handle_request(req, conn)
        if not keep or self.cfg.is_ssl:
            return keep
        conn.sock.setblocking(False)
        try:
            return bool(conn.parser.finish_body(max_bytes=MAX_HEAD_BYTES)) and conn not in self._overdue
        except OSError:  # the rest has not arrived
            return False
        finally:
            conn.sock.setblocking(True)

    def finish_request(self, conn: Any, fs: futures.Future[Any]) -> None:
        """Keep the connection for the next request, or close it when the client has read the answer."""
        overdue = conn in self._overdue
        self._overdue.discard(conn)
        self._waiting.pop(conn, None)
        self._bodies.pop(conn, None)
        served = not fs.cancelled() and fs.exception() is None
        if served and not self.cfg.is_ssl and (overdue or not fs.result()):
            self._linger(conn)
        else:
            super().finish_request(conn, fs)

    def _linger(self, conn: Any) -> None:
        """End the answer, and discard what the client still sends. gunicorn's own code blocks the main loop for it."""
        try:
            conn.sock.shutdown(socket.SHUT_WR)
            conn.sock.setblocking(False)
        except OSError:  # the client has gone
            self._drop(conn, b"")
            return
        conn.timeout = time.monotonic() + LINGER_SECONDS
        self.pending_conns.append(conn)
        self.poller.register(conn.sock, selectors.EVENT_READ, functools.partial(self._discard, conn))

    def _discard(self, conn: Any, sock: socket.socket) -> None:
        try:
            ended = not sock.recv(MAX_HEAD_BYTES)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            self._forget(conn)

    def _forget(self, conn: Any) -> None:
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


def _received(conn: Any) -> tuple[bytes, bytes | None]:
    """What the client has sent of the head: the part that gunicorn has read, and the part in the socket.

    The second one is not consumed. None: the client has closed the connection.
    """
    buffered: bytes = conn.parser.unreader.buf.getvalue() if conn.parser is not None else b""
    try:
        return buffered, conn.sock.recv(MAX_HEAD_BYTES, socket.MSG_PEEK | socket.MSG_DONTWAIT) or None
    except BlockingIOError:
        return buffered, b""
    except OSError:
        return buffered, None


def _may_have_body(head: bytes) -> bool:
    lowered = head.lower()
    return b"content-length" in lowered or b"transfer-encoding" in lowered


def _prepare_for_thread(sock: socket.socket) -> None:
    limit = struct.pack("ll", STALL_SECONDS, 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)


# gunicorn reads the names below.
bind = "127.0.0.1:8790"
workers = 2
worker_class = Worker
threads = 80
worker_connections = 1000
timeout = 60
graceful_timeout = 10
keepalive = 5
limit_request_line = 4094
limit_request_fields = 100
