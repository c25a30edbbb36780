# SPDX-License-Identifier: Apache-2.0
"""``--filter``, ``--sort``, ``--limit`` and ``--marker`` of every list.

The API filters and sorts entities. The client does it for the other lists, which are short, with the same syntax. An
unknown value matches ``!=`` and ``not in`` only, and is last in an ascending order.
"""

from __future__ import annotations

import argparse
import csv
import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec

from watcher_sync.client.commands.arguments import WrongUsage
from watcher_sync.client.commands.cells import json_text
from watcher_sync.client.filters import Filters, parse_filters

D = TypeVar("D")

_OPERATORS: Final = ("eq", "neq", "gte", "gt", "lte", "lt", "prefix", "in", "nin")
_NEGATIVE: Final = ("neq", "nin")
_ORDER: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "gt": lambda value, operand: bool(value > operand),
    "gte": lambda value, operand: bool(value >= operand),
    "lt": lambda value, operand: bool(value < operand),
    "lte": lambda value, operand: bool(value <= operand),
}


class Choice:
    """What the options of a list choose of its documents."""

    def __init__(self, parsed_args: argparse.Namespace, fields: Sequence[str], key: str) -> None:
        """:param fields: the fields of a document.
        :param key: the field whose value ``--marker`` names.
        :raises WrongUsage: when an option names another field.
        """
        self._filters: Filters = parse_filters(parsed_args.filters)
        self._sort: str | None = parsed_args.sort
        self._limit: int | None = parsed_args.limit
        self._marker: str | None = parsed_args.marker
        self._key = key
        for name in (*self._filters, *([self._sort.lstrip("-")] if self._sort else [])):
            if name.partition("[")[0] not in fields:
                raise WrongUsage(f"there is no field {name!r}; the fields are {', '.join(fields)}")

    def of_all(self, documents: Iterable[D]) -> Iterator[D]:
        """The chosen ones of all documents.

        :raises WrongUsage: when no document has the marker, or a value has another type than its field.
        """
        found = self._filtered(documents)
        if self._sort is not None:
            found = iter(self._sorted(found, self._sort))
        if self._marker is not None:
            found = self._after(found, self._marker)
        return itertools.islice(found, self._limit)

    def of_pages(self, fetch: Callable[..., Iterable[D]]) -> Iterator[D]:
        """The chosen ones of a list that the API serves in pages.

        :param fetch: takes ``limit`` and ``marker``. It gets them if the client neither filters nor sorts.
        """
        if self._sort is not None:
            return self.of_all(fetch(limit=None, marker=None))
        limit = None if self._filters else self._limit
        return itertools.islice(self._filtered(fetch(limit=limit, marker=self._marker)), self._limit)

    def _filtered(self, documents: Iterable[D]) -> Iterator[D]:
        return (d for d in documents if all(_matches(d, name, values) for name, values in self._filters.items()))

    def _sorted(self, documents: Iterable[D], sort: str) -> list[D]:
        field, reverse = sort.removeprefix("-"), sort.startswith("-")

        def order(document: D) -> tuple[bool, Any]:
            found = _value(document, field)
            return (found is None, json_text(found) if isinstance(found, (list, dict)) else found)

        return sorted(documents, key=order, reverse=reverse)

    def _after(self, documents: Iterator[D], marker: str) -> Iterator[D]:
        for document in documents:
            if str(_value(document, self._key)) == marker:
                return documents
        raise WrongUsage(f"--marker: the list has no {self._key} {marker!r}")


def _value(document: Any, name: str) -> Any:
    field, bracket, member = name.partition("[")
    value = document.get(field) if isinstance(document, dict) else getattr(document, field)
    if bracket:
        value = value.get(member.rstrip("]")) if isinstance(value, dict) else None
    return msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value


def _matches(document: Any, name: str, conditions: Iterable[str]) -> bool:
    value = _value(document, name)
    return all(_holds(value, name, condition) for condition in conditions)


def _holds(value: Any, name: str, condition: str) -> bool:
    operator, colon, operand = condition.partition(":")
    if not colon or operator not in _OPERATORS:
        operator, operand = "eq", condition
    if value is None:
        return operator in _NEGATIVE
    if isinstance(value, list) and operator not in _NEGATIVE:
        return any(_holds(each, name, condition) for each in value)
    if isinstance(value, list):
        return all(_holds(each, name, condition) for each in value)
    if operator == "prefix":
        return _text(value).startswith(operand)
    if operator in ("in", "nin"):
        operands = next(csv.reader([operand], skipinitialspace=True), [])
        return any(_equal(value, name, each) for each in operands) is (operator == "in")
    if operator in _ORDER:
        return _ORDER[operator](value, _typed(value, name, operand))
    return _equal(value, name, operand) is (operator == "eq")


def _equal(value: Any, name: str, operand: str) -> bool:
    return bool(value == _typed(value, name, operand)) if not isinstance(value, dict) else _text(value) == operand


def _typed(value: Any, name: str, operand: str) -> Any:
    """The operand in the type of the value.

    :raises WrongUsage: when it has another type.
    """
    try:
        if isinstance(value, bool):
            return {"true": True, "false": False}[operand.lower()]
        if isinstance(value, (int, float)):
            return float(operand)
        if isinstance(value, datetime.datetime):
            return datetime.datetime.fromisoformat(operand).astimezone(datetime.UTC)
    except (KeyError, ValueError, OverflowError):
        raise WrongUsage(f"--filter: {name} has no value such as {operand!r}") from None
    return operand


def _text(value: Any) -> str:
    return json_text(value) if isinstance(value, dict) else str(value)
