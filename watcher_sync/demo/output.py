# SPDX-License-Identifier: Apache-2.0
"""Where the demo prints, whatever its terminal does.

Ctrl-C also ends a ``tee`` behind the demo, and a closed terminal refuses all output. What was to be printed then goes
to stderr, and to a file if stderr is gone, too.
"""

from __future__ import annotations

import contextlib
import io
import os
import pathlib
import re
import sys
import time
from collections.abc import Iterator
from typing import Final, TextIO

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


class DemoOutput(io.TextIOBase):
    """Text for stdout, or for the next stream that accepts it. For one thread."""

    def __init__(self, last: pathlib.Path | None) -> None:
        """:param last: the file for the text that neither stdout nor stderr accepts; None: stdout or nothing."""
        self._last = last
        self._streams: list[TextIO] = [sys.stdout] if last is None else [sys.stdout, sys.stderr]
        self._first = sys.stdout

    @property
    def is_lost(self) -> bool:
        """Whether stdout and stderr refused a text, so that the file has it."""
        return not self._streams

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Of stdout."""
        return self._first.encoding

    def isatty(self) -> bool:
        """Whether stdout is a terminal."""
        return self._first.isatty()

    @contextlib.contextmanager
    def step(self, what: str) -> Iterator[None]:
        """A line that says what the block starts, and how long it took."""
        began = time.monotonic()
        self.write(f"start: {what} ... ")
        try:
            yield
        finally:
            self.write(f"{time.monotonic() - began:.0f} s\n")

    def write(self, text: str) -> int:
        """Write and flush."""
        while self._streams:
            try:
                self._streams[0].write(text)
                self._streams[0].flush()
            except OSError:
                stream = self._streams.pop(0)
                if self._last is not None:
                    _discard(stream)
            else:
                return len(text)
        if self._last is not None:
            with self._last.open("a", encoding="utf-8") as file:
                file.write(_STYLE.sub("", text))
        return len(text)


def _discard(stream: TextIO) -> None:
    """Discard what is in the buffer of a stream, which the end of the process would write once more."""
    with open(os.devnull, "w", encoding="utf-8") as nowhere:
        os.dup2(nowhere.fileno(), stream.fileno())
