# SPDX-License-Identifier: Apache-2.0
"""The iterator over a log: the current model, and then each change once, in order and without a gap.

A program stores the position of an entry with what it made of it, and reads on from there after a restart. If the
stream no longer has the position, the reader begins with the current model again, and the entry ``snapshot_begin`` has
the reason. It reconnects without limit.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any, Self

from watcher_sync.client.log.entries import LogEntry, LogPlaces, LogReading
from watcher_sync.client.log.follower import LogFollower
from watcher_sync.client.log.messages import UnknownMessage
from watcher_sync.client.log.servers import connector


class LogReader:
    """Reads the log of one partition. One thread reads; any thread may close."""

    def __init__(
        self, servers: Sequence[str], stream: str = "watcher-sync", *, domain: str = "", **options: Any
    ) -> None:
        """:param servers: URLs of NATS servers, such as ``nats://127.0.0.1:4222``.

        :param stream: the stream of the changes. That of the model has the same name and ``-model``.
        :param domain: JetStream domain of the streams, if it is not that of the servers.
        :param options: of nats-py's ``connect``: ``tls``, ``user``, ``password``, ``token``, ``user_credentials``.
        :raises ValueError: no server is given, or a text in place of a list.
        """
        if not servers or isinstance(servers, str):
            raise ValueError("servers: a list of at least one URL is needed")
        self._servers = servers
        self._stream = stream
        self._prefix = f"$JS.{domain}.API" if domain else "$JS.API"
        self._options = options
        self._follower: LogFollower | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def read(self, position: LogPlaces | None = None, *, timeout: float | None = None) -> Iterator[LogEntry]:
        """The entries after a position. It ends when the reader is closed. One iteration runs at a time.

        :param position: of an entry of this stream, also as JSON returns it; None or empty: with the current model.
        :param timeout: seconds without an entry after which the iteration ends; None: never.
        :raises UnknownMessage: by the iterator: a message of the stream is no change. The next call of ``next`` goes on
            behind the message.
        :raises ValueError: the position is not that of an entry.
        """
        return _Entries(self._read(position, timeout))

    def _read(self, position: LogPlaces | None, timeout: float | None) -> Generator[LogEntry | UnknownMessage]:
        reading = LogReading(position)
        follower = LogFollower(
            connector(self._servers, self._options),
            self._stream,
            list(reading.position.values()),
            prefix=self._prefix,
        )
        follower.start()
        self._follower = follower
        try:
            while not self._is_closed and (received := follower.take(timeout)) is not None:
                for each in received:
                    try:
                        entry: LogEntry | UnknownMessage | None = reading.entry(each)
                    except UnknownMessage as exc:
                        entry = exc
                    if entry is not None:
                        yield entry
        finally:
            follower.close()

    def close(self) -> None:
        """Ends the iteration, after the entries that have arrived. A reader is closed once and for all."""
        self._is_closed = True
        if self._follower is not None:
            self._follower.close()


class _Entries(Iterator[LogEntry]):
    """An iterator that goes on after an error, as a generator cannot."""

    def __init__(self, found: Generator[LogEntry | UnknownMessage]) -> None:
        self._found = found

    def __next__(self) -> LogEntry:
        found = next(self._found)
        if isinstance(found, UnknownMessage):
            raise found
        return found

    def close(self) -> None:
        """End the iteration, as a generator's does."""
        self._found.close()
