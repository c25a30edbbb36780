# SPDX-License-Identifier: Apache-2.0
"""Makes log lines unforgeable: no control character of others reaches a log, and no line feed inside a message.

Every log record of the process escapes its message and the texts of its exception, whichever logger, handler and format
it has. A formatter around each handler's own escapes what else is in a line. The lines of a traceback begin with
oslo.log's prefix, or with four spaces.
"""

from __future__ import annotations

import itertools
import logging
import re
from typing import Any, cast

from oslo_log import formatters, handlers

from watcher_sync.escaping import escaped, escaped_lines

_COLOUR = re.compile("(\x1b\\[[0-9;]*m)")


class _Record(logging.LogRecord):
    """A record whose message is one line, as is the text of each of its exceptions."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.exc_info and self.exc_info[1] is not None and _has_unsafe_text(self.exc_info[1]):
            safe = _safe(self.exc_info[1], {})
            self.exc_info = type(safe), safe, self.exc_info[2]

    def getMessage(self) -> str:  # noqa: N802 - the name of the library
        return escaped(super().getMessage())


class _Formatter(logging.Formatter):
    """Escapes what another formatter returns."""

    def __init__(self, inner: logging.Formatter, *, has_colours: bool) -> None:
        super().__init__()
        self._inner = inner
        self._has_colours = has_colours
        self._has_prefix = isinstance(inner, formatters.ContextFormatter)

    def format(self, record: logging.LogRecord) -> str:
        text: Any = self._inner.format(record)
        if not isinstance(text, str):  # a formatter for a protocol, not for lines
            return cast("str", text)
        text = _without_repetition(text, record)
        if self._has_colours:
            parts = _COLOUR.split(text)
            text = "".join(part if i % 2 else escaped_lines(part) for i, part in enumerate(parts))
        else:
            text = escaped_lines(text)
        assert isinstance(text, str)
        return text if self._has_prefix else text.replace("\n", "\n    ")


def install() -> None:
    """Escape the log records of this process. Call it after each change of the handlers; a repetition is harmless."""
    logging.setLogRecordFactory(_Record)
    known = [logger for logger in logging.root.manager.loggerDict.values() if isinstance(logger, logging.Logger)]
    for handler in itertools.chain.from_iterable(logger.handlers for logger in (logging.root, *known)):
        inner = handler.formatter
        if not isinstance(inner, _Formatter):
            has_colours = isinstance(handler, handlers.ColorHandler)
            handler.setFormatter(_Formatter(inner or logging.Formatter(), has_colours=has_colours))


def _without_repetition(text: str, record: logging.LogRecord) -> str:
    """A line without the exception in hand, which oslo.log adds to warnings, if the message is ours or has its text."""
    summary = getattr(record, "error_summary", "")
    message, cause = record.getMessage(), escaped(summary.partition(": ")[2])
    is_in_message = cause in message if cause else False
    if summary and (is_in_message or (not record.exc_info and record.name.startswith("watcher_sync."))):
        return text.replace(f"{message}: {summary}", message, 1)
    return text


def _has_unsafe_text(exc: BaseException) -> bool:
    """Whether the text of an exception, or of one that it names as its cause, is not one safe line."""
    found: BaseException | None = exc
    known: set[int] = set()
    while found is not None and id(found) not in known:
        known.add(id(found))
        text = _text(found)
        if escaped(text) != text or isinstance(found, BaseExceptionGroup | SyntaxError):
            return True
        found = found.__cause__ or found.__context__
    return False


def _safe(exc: BaseException, made: dict[int, BaseException]) -> BaseException:
    """A stand-in with the type's name, the traceback and the escaped text of an exception.

    :param made: id of an exception -> its stand-in, because exceptions may name each other.
    """
    if id(exc) in made:
        return made[id(exc)]
    kind, text = type(exc), escaped(_text(exc))
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__str__": lambda _self: text}
    safe: BaseException = type(kind.__name__, (Exception,), names)()
    made[id(exc)] = safe
    safe.__traceback__ = exc.__traceback__
    if exc.__context__ is not None:
        safe.__context__ = _safe(exc.__context__, made)
    if exc.__cause__ is not None:
        safe.__cause__ = _safe(exc.__cause__, made)
    safe.__suppress_context__ = exc.__suppress_context__
    return safe


def _text(exc: BaseException) -> str:
    try:
        return str(exc)
    except Exception:  # noqa: BLE001 - the text of an exception of others; logging must not fail
        return "its text cannot be formatted"
