# SPDX-License-Identifier: Apache-2.0
"""An answer that the API makes piece by piece, and what must be released when it ends."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator


class ResponseStream:
    """The chunks of one answer, made in the thread that sends them.

    The end of the answer, or of its client's connection, releases what it holds.
    """

    def __init__(self, chunks: Generator[bytes, None, None], release: Callable[[], None]) -> None:
        """:param release: called once or more often when the answer ends."""
        self._chunks = chunks
        self._release = release

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Ends the answer. The WSGI server calls this when the client has disconnected."""
        self._chunks.close()
        self._release()
