# SPDX-License-Identifier: Apache-2.0
"""The input of a WSGI request that has a body: what the application leaves unread is discarded before the answer.

An answer before the end of the body would leave bytes on the connection. A server that closes it then sends a reset,
which the client may see instead of the answer. A server that reuses it would say *keep-alive* without being able to.

A body that does not come must not hold the answer back. The limit of time needs the socket, of gunicorn or of our
server. Without one nothing is discarded.

Whatever fails while a body is read is the fault of the client. Servers have exceptions of their own for it.
"""

from __future__ import annotations

import contextlib
import io
import re
import socket
import threading
from collections.abc import Callable
from typing import Any, Final

MAX_DISCARDED_BYTES: Final = 16 * 1024 * 1024
"""Of one body. A larger remainder stays unread, and the connection ends."""
DISCARD_SECONDS: Final = 2.0
"""For one body. What has not come by then stays unread, and the connection ends."""
_STEP_BYTES: Final = 65_536

TERMINATED: Final = "wsgi.input_terminated"
"""In the environment: the server decodes chunks, and ends the input behind the body."""
SOCKET: Final = "watcher_sync.socket"
"""In the environment: the socket of the connection, if the client sends its body without further notice."""
_LENGTH: Final = re.compile("[0-9]{1,18}")
"""``int()`` refuses some thousand digits. Who reads a body with another length is refused by falcon."""
_GUNICORN_SOCKET: Final = "gunicorn.socket"


class BodyUnreadable(OSError):
    """The body cannot be read: it is malformed, or the client has gone."""


class RequestInput(io.RawIOBase):
    """``wsgi.input`` of a request with a body."""

    def __init__(self, environ: dict[str, Any]) -> None:
        length = environ.get("CONTENT_LENGTH", "")
        self._input = environ["wsgi.input"]
        self._socket: socket.socket | None = environ.get(SOCKET) or environ.get(_GUNICORN_SOCKET)
        self._is_chunked = not length and bool(environ.get(TERMINATED))
        if self._is_chunked:
            self._left = MAX_DISCARDED_BYTES
        else:
            self._left = int(length) if _LENGTH.fullmatch(length) else 0

    def readable(self) -> bool:
        """Whether it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer; 0: the end.

        :raises BodyUnreadable: the body is malformed, or the client has gone.
        """
        data = self._read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _read(self, size: int) -> bytes:
        if not self._is_chunked:
            size = min(size, self._left)
        try:
            data: bytes = self._input.read(size) if size else b""
        except Exception as exc:  # noqa: BLE001 - each server has exceptions of its own
            self._left = 0
            raise BodyUnreadable(str(exc) or type(exc).__name__) from None
        self._left = max(0, self._left - len(data)) if data else 0
        return data

    def discard(self) -> None:
        """Read the rest, up to :data:`MAX_DISCARDED_BYTES` and for :data:`DISCARD_SECONDS`."""
        if self._socket is None or not self._left:
            return
        end = max(0, self._left - MAX_DISCARDED_BYTES)
        # The server reads until it has a whole step, so a timeout of the socket would limit no slow client.
        overdue = threading.Timer(DISCARD_SECONDS, _end_input, (self._socket,))
        overdue.daemon = True
        overdue.start()
        with contextlib.suppress(BodyUnreadable):
            while self._left > end:
                self._read(min(_STEP_BYTES, self._left - end))
        overdue.cancel()


def _end_input(connection: socket.socket) -> None:
    """Have the server read the end of the connection, which it then closes after the answer."""
    with contextlib.suppress(OSError):
        # Not the method of a TLS socket: it would also end the encryption of the answer.
        socket.socket.shutdown(connection, socket.SHUT_RD)


def discarding(environ: dict[str, Any], start_response: Callable[..., Any]) -> Callable[..., Any]:
    """Replace ``wsgi.input``. :returns: a ``start_response`` that discards the unread rest of the body first."""
    received = environ["wsgi.input"] = RequestInput(environ)

    def start(status: str, headers: list[tuple[str, str]], *more: Any) -> Any:
        received.discard()
        return start_response(status, headers, *more)

    return start
