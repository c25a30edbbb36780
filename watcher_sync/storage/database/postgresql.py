# SPDX-License-Identifier: Apache-2.0
"""Connections to PostgreSQL that close when the server does not answer in time.

libpq waits for an answer without a limit as long as the other end's kernel acknowledges its packets. Only a process
that uses PostgreSQL imports this module, because the driver takes 8 MB.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping, Sequence
from typing import Any

import psycopg


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives up when the server has sent nothing for :attr:`answer_seconds`."""

    answer_seconds = float("inf")

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for the end of an exchange with the server.

        :raises psycopg.OperationalError: the server does not answer; the connection is closed.
        """
        return super().wait(self._bounded(gen), *args, **kwargs)

    def _bounded(self, exchange: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The same exchange, with a limit. The driver resumes it at least ten times a second."""
        until = time.monotonic() + self.answer_seconds
        try:
            wanted = next(exchange)
            while True:
                ready = yield wanted
                if ready:
                    until = time.monotonic() + self.answer_seconds
                elif time.monotonic() >= until:
                    self.close()
                    raise psycopg.OperationalError(f"the server sent nothing for {self.answer_seconds:g} s")
                wanted = exchange.send(ready)
        except StopIteration as end:
            return end.value


def connect(seconds: float, args: Sequence[Any], kwargs: Mapping[str, Any]) -> BoundedConnection:
    """Connect.

    :param seconds: the longest silence of the server.
    :param args: of ``psycopg.connect``, as are the keyword arguments.
    """
    connection = BoundedConnection.connect(*args, **kwargs)
    connection.answer_seconds = seconds
    return connection
