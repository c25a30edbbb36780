# SPDX-License-Identifier: Apache-2.0
"""Reads the status of an answer from the bytes of its connection, beside the HTTP client that parses the answer.

The status line decides, and nothing after it. A receiver that sent one has the request, even if its headers are not
valid, its body is cut off or the connection is reset. The client decides only whether the connection is used again.

Guaranteed: a bounded part of an answer is read. Bytes that arrive after an answer close its connection, and the next
request does not take them for its own answer.

For the thread of one event loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import re
import select
from collections.abc import Callable
from typing import Any, Final, cast

import aiohttp
from aiohttp.connector import Connection

_MAX_PARTS: Final = 16
"""Parts that are read after the status line. Each wakes the event loop, however small it is."""

_EMPTY_LINES: Final = re.compile(rb"[\r\n]*")
_STATUS: Final = re.compile(rb"HTTP/\d(?:\.\d)?[ \t]{1,8}([1-9]\d\d)(?=[ \t\r\n])", re.IGNORECASE)
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_SWITCHING_PROTOCOLS: Final = 101

current_answer: contextvars.ContextVar[Answer] = contextvars.ContextVar("current_answer")
"""The answer to the request that this task is about to send."""


class Answer:
    """What is known of the answer to one request.

    :param max_bytes: after how many bytes nothing more is read.
    :param on_status: called once, when the status is known.
    """

    def __init__(self, max_bytes: int, on_status: Callable[[], None]) -> None:
        self.code = 0
        """The status; 0: it is not known."""
        self.ended = True
        """False: it is so long, or in so many parts, that its rest was not read."""
        self.transport: asyncio.Transport | None = None
        self._max_bytes = max_bytes
        self._on_status = on_status
        self._text = bytearray()
        self._begin = 0
        """Where the status line begins that is read next, and then where the known status ends."""
        self._parts = 0

    def header(self, name: bytes) -> str | None:
        """The first header of this name whose line was read to its end.

        :param name: in lower case.
        """
        for line in self._text[self._begin :].split(b"\n")[1:-1]:
            found, colon, value = line.partition(b":")
            if not line.strip():
                break
            if colon and found.strip().lower() == name:
                return value.strip().decode("latin-1")
        return None

    def take(self, data: bytes) -> None:
        """Take bytes that arrived."""
        self._text += data
        self._parts += bool(self.code)
        if not self.code:
            self._find_status()
        self.ended = len(self._text) <= self._max_bytes and self._parts < _MAX_PARTS

    def close_connection(self) -> None:
        """Close the connection, even if the client has it in its pool again."""
        if self.transport is not None:
            self.transport.abort()

    def _find_status(self) -> None:
        """Find the status line after all interim answers (RFC 9110, section 15.2)."""
        while empty := _EMPTY_LINES.match(self._text, self._begin):
            self._begin = empty.end()  # each byte is read once, in whatever parts it arrives
            found = _STATUS.match(self._text, self._begin)
            if found is None:
                return
            code = int(found[1])
            if code >= 200 or code == _SWITCHING_PROTOCOLS:
                self.code, self._begin = code, found.end()
                self._on_status()
                return
            end = _END_OF_HEAD.search(self._text, found.end())
            if end is None:
                return
            self._begin = end.end()


class _ReadAlong(asyncio.Protocol):
    """Between a transport and the protocol of the client, for one request."""

    def __init__(self, answer: Answer, connection: Connection, transport: asyncio.Transport) -> None:
        before = transport.get_protocol()
        self.client: asyncio.Protocol = (
            before.client if isinstance(before, _ReadAlong) else cast(asyncio.Protocol, before)
        )
        self._answer = answer
        self._connection = connection
        self._transport = answer.transport = transport

    def data_received(self, data: bytes) -> None:
        if self._connection.closed:  # the client has read the whole answer
            self._transport.abort()
            return
        self._answer.take(data)
        self.client.data_received(data)
        if not self._answer.ended:
            self._transport.abort()

    def eof_received(self) -> bool | None:
        return self.client.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self.client.connection_lost(exc)

    def pause_writing(self) -> None:
        self.client.pause_writing()

    def resume_writing(self) -> None:
        self.client.resume_writing()


class AnswerConnector(aiohttp.TCPConnector):
    """Connections whose bytes the :data:`current_answer` of the task takes, too."""

    async def connect(self, *arguments: Any, **options: Any) -> Connection:
        """A connection on which nothing has arrived since its last answer. See the base class."""
        while True:
            connection = await super().connect(*arguments, **options)
            transport = cast(asyncio.Transport, connection.transport)
            if isinstance(transport.get_protocol(), _ReadAlong) and _is_readable(transport):
                connection.close()
                continue
            transport.set_protocol(_ReadAlong(current_answer.get(), connection, transport))
            return connection


def _is_readable(transport: asyncio.Transport) -> bool:
    """Whether something arrived, or an end, that the event loop has not read."""
    poll = select.poll()
    poll.register(transport.get_extra_info("socket"), select.POLLIN)
    return bool(poll.poll(0))
