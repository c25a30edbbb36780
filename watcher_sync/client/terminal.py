# SPDX-License-Identifier: Apache-2.0
"""Text that others chose, for people: no control character and no bidirectional override reaches a terminal.

:func:`guarded` guards the output of a whole command. A file or a pipe gets the output unchanged, because a program
reads it. :func:`plain` and :func:`delta_text` are for what a program draws.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from watcher_sync.escaping import UNSAFE


def delta_text(delta: Mapping[str, Sequence[Any]]) -> str:
    """``field: old -> new`` for every field, separated by commas."""
    return ", ".join(f"{field}: {_brief(old)} -> {_brief(new)}" for field, (old, new) in delta.items())


def plain(text: str) -> str:
    """Replaces each character that is not printable by U+FFFD, so that a name has no escape sequence."""
    return "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)


def _brief(value: Any) -> str:
    if value is None:
        return "-"
    return json.dumps(value, ensure_ascii=False) if isinstance(value, (list, dict)) else str(value)


_UNSAFE: Final = re.compile(f"(?![\n\t])(?!\r\n)[{UNSAFE}]")


def escaped(text: str) -> str:
    """The text with its line feeds; other control characters are escaped as in JSON, so JSON text stays valid."""
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class GuardedStream:
    """A stream of text that escapes what it writes."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Writes the escaped text; returns the length of the given one."""
        self._stream.write(escaped(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Writes each of the texts."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def guarded(app: Any) -> Iterator[None]:
    """Guards stdout, stderr and the application's stdout for the length of the block, if they are terminals."""
    before = getattr(app, "stdout", None)
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.redirect_stdout(_guard(sys.stdout)))
        stack.enter_context(contextlib.redirect_stderr(_guard(sys.stderr)))
        if before is not None:
            stack.callback(setattr, app, "stdout", before)
            app.stdout = _guard(before)
        yield


def _guard(stream: Any) -> Any:
    return GuardedStream(stream) if stream.isatty() else stream
