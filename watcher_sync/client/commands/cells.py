# SPDX-License-Identifier: Apache-2.0
"""Titles of columns, and values as each output format shows them.

Titles are those of OpenStackClient: ``last_event_age`` is ``Last Event Age``. A time is ISO 8601 in UTC and ends in
``Z``, in every format. The formats csv, value and shell print an unknown value as nothing, and a list or an object as
JSON; csv has no formula. The formats json and yaml get the values themselves.
"""

from __future__ import annotations

import datetime
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import msgspec
from cliff import columns

from watcher_sync.client.export_formats import without_formula
from watcher_sync.client.terminal import delta_text, plain

_ACRONYMS: Final = {
    word.lower(): word
    for word in (
        "API", "CPU", "DCM", "ETag", "GB", "HTTP", "ID", "IDs", "IP", "JSON", "MAC", "MB", "NUMA", "OS", "PID", "RAM",
        "TLS", "UID", "URL", "UUID", "VCPU", "VCPUs", "VDU", "VDUs", "VIM", "VM", "VNF", "VNFC", "VNFD", "VNFM",
    )
}  # fmt: skip
_WORD: Final = re.compile(r"[A-Z]?[a-z0-9]+|[A-Z0-9]+(?![a-z])|\d+")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)")
_NEVER_TIMES: Final = frozenset({"id", "name", "instance_name"})
"""Fields whose text belongs to the users of a cloud."""

_MAX_DELTA_LENGTH: Final = 80

TEXT_FORMATS: Final = frozenset({"csv", "shell", "value"})
"""Formats without types of values."""


class Json(columns.FormattableColumn[Any]):
    """A list or an object: machine formats get the value, people get one line of JSON."""

    def human_readable(self) -> str:
        """Returns one line."""
        return plain(json_text(self._value))


class Delta(columns.FormattableColumn[Any]):
    """The delta of a change: machine formats get the value, people get ``field: old -> new`` in lines.

    A line that is too long for a table says only that the field changed.
    """

    def human_readable(self) -> str:
        """Returns the lines."""
        lines = ((field, delta_text({field: pair})) for field, pair in self._value.items())
        return "\n".join(plain(text if len(text) <= _MAX_DELTA_LENGTH else f"{field} changed") for field, text in lines)


def delta(value: Any) -> Delta:
    """The cell of a delta, whose values may be structs."""
    return Delta(msgspec.to_builtins(value))


class PlainText(columns.FormattableColumn[str]):
    """A text of others: machine formats get the value, people get it without control characters."""

    def human_readable(self) -> str:
        """Returns the lines of the text."""
        return "\n".join(plain(line) for line in self._value.split("\n"))


def title(name: str) -> str:
    """The title of the column of a field: ``vnfd_id`` -> ``VNFD ID``."""
    words = _WORD.findall(name) or [name]
    return " ".join(_ACRONYMS.get(word.lower(), word[:1].upper() + word[1:]) for word in words)


def time_text(value: datetime.datetime) -> str:
    """The only form of a time in the output: ``2026-01-31T12:00:00.250000Z``."""
    return value.astimezone(datetime.UTC).isoformat().removesuffix("+00:00") + "Z"


def json_text(value: Any) -> str:
    """A list or an object in one line."""
    return json.dumps(value, ensure_ascii=False)


def cell(value: Any, name: str = "") -> Any:
    """Converts a value for the formatters of cliff.

    :param name: the field of the value. Text of a field that users write is never a time.
    """
    if isinstance(value, datetime.datetime):
        return time_text(value)
    if isinstance(value, str):
        if name not in _NEVER_TIMES and _TIME.fullmatch(value):
            return _normalized(value)
        return value if value.isprintable() else PlainText(value)
    if isinstance(value, (list, dict, tuple)):
        return Json(value)
    return value


def row(
    document: msgspec.Struct | dict[str, Any], names: Iterable[str], cells: Mapping[str, Callable[[Any], Any]]
) -> tuple[Any, ...]:
    """Returns the values of these members for the formatters of cliff.

    :param cells: member -> what makes its cell, if :func:`cell` does not.
    """
    member = document.get if isinstance(document, dict) else functools.partial(getattr, document)
    return tuple(
        cells[name](value) if name in cells and value is not None else cell(value, name)
        for name in names
        for value in (member(name),)
    )


def shown(value: Any, formatter: str) -> Any:
    """A cell as a format prints it, so that no format prints a value as Python writes it."""
    if value is None:
        return None if formatter in ("json", "yaml") else ""
    if formatter not in TEXT_FORMATS:
        return value
    if isinstance(value, columns.FormattableColumn):
        value = value.machine_readable()
    if isinstance(value, (list, dict, tuple)):
        return json_text(value)
    return without_formula(value) if formatter == "csv" else value


def _normalized(text: str) -> str:
    try:
        return time_text(datetime.datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        return text
