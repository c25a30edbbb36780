# SPDX-License-Identifier: Apache-2.0
"""Attribute filters and attribute selectors of ETSI GS NFV-SOL 013, sections 5.2 and 5.3.

A filter is ``(op,attribute,value...)``, several of them separated by semicolons; all have to match. An attribute is a
path of names, separated by slashes.

A list in the path represents all its entries. A negation (neq, nin, ncont) matches if no entry equals or contains a
value, any other operator if one entry matches. An absent attribute matches nothing.

A selector says which attributes of a document are shown. Pure functions, for any thread.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

Path = tuple[str, ...]

MAX_FILTER_CHARS: Final = 4096
MAX_EXPRESSIONS: Final = 50

_NAME: Final = r"[^,()'/]+"
_VALUE: Final = r"(?:'(?:[^']|'')*'|[^',)]*)"
_EXPRESSION: Final = re.compile(rf"\(([a-z]+),({_NAME}(?:/{_NAME})*)((?:,{_VALUE})+)\)")
_NEXT_VALUE: Final = re.compile(rf",({_VALUE})")
_ESCAPES: Final = {"~1": "/", "~a": ",", "~b": "@", "~0": "~"}

_ORDER: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": operator.gt,
    "gte": operator.ge,
    "lt": operator.lt,
    "lte": operator.le,
}
_ONE_VALUE: Final = frozenset({"eq", "neq", *_ORDER})
_OPERATORS: Final = (*("eq", "neq"), *_ORDER, *("in", "nin", "cont", "ncont"))
_NEGATIONS: Final = {"neq": "eq", "nin": "in", "ncont": "cont"}


class BadSelection(ValueError):
    """A filter or a selector that is none; the message says why."""


class Expression(msgspec.Struct, frozen=True):
    """One expression of a filter."""

    op: str
    path: Path
    values: tuple[str, ...]

    def matches(self, document: Mapping[str, Any]) -> bool:
        """Whether the document has the attribute, and it compares as the expression says."""
        found = list(_values_at(document, self.path))
        if not found:
            return False
        if (positive := _NEGATIONS.get(self.op)) is not None:
            return not any(_compares(positive, value, self.values) for value in found)
        return any(_compares(self.op, value, self.values) for value in found)


class AttributeSelection(msgspec.Struct, frozen=True, kw_only=True):
    """The attributes of an answer."""

    only: tuple[Path, ...] | None = None
    """These alone; None: all."""
    without: tuple[Path, ...] = ()
    """These not."""

    def of(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The chosen part of a document."""
        if self.only is not None:
            return _only(document, self.only)
        return _without(document, self.without) if self.without else dict(document)

    def shows(self, name: str) -> bool:
        """Whether the attribute of this name, or a part of it, is chosen."""
        if self.only is not None:
            return any(path[0] == name for path in self.only)
        return (name,) not in self.without


def parse_filter(text: str, names: Collection[str]) -> tuple[Expression, ...]:
    """Parse an attribute filter.

    :param names: of all attributes that a document may have.
    :raises BadSelection: the text is no filter, or names none of them.
    """
    found: list[Expression] = []
    at = 0
    while True:
        match = _EXPRESSION.match(text, at)
        if match is None:
            raise BadSelection(f"no expression (op,attribute,value) at character {at + 1}")
        op, (path,) = match[1], _paths([match[2]], names)
        values = tuple(_unquoted(each[1]) for each in _NEXT_VALUE.finditer(match[3]))
        if op not in _OPERATORS:
            raise BadSelection(f"{op[:32]!r} is no operator; there are {', '.join(_OPERATORS)}")
        if op in _ONE_VALUE and len(values) != 1:
            raise BadSelection(f"{op} compares with one value")
        found.append(Expression(op, path, values))
        at = match.end()
        if at == len(text):
            return tuple(found)
        if text[at] != ";" or len(found) == MAX_EXPRESSIONS:
            raise BadSelection(f"no semicolon and further expression at character {at + 1}")
        at += 1


def selection(
    query: Mapping[str, Any], *, names: Collection[str], excluded_by_default: Collection[str] = ()
) -> AttributeSelection:
    """The selection that query parameters ask for: ``fields``, ``exclude_fields``, ``all_fields``, ``exclude_default``.

    :param names: of all attributes that a document may have.
    :param excluded_by_default: attributes that are shown only when they are asked for.
    :raises BadSelection: a name is none, or two parameters contradict each other.
    """
    given = [name for name in ("all_fields", "fields", "exclude_fields", "exclude_default") if name in query]
    if len(given) > 1 and given != ["fields", "exclude_default"]:
        raise BadSelection(f"{given[0]} and {given[1]} contradict each other")
    fields, excluded = (_paths(query.get(name, ()), names) for name in ("fields", "exclude_fields"))
    if "exclude_default" in given or not given:
        chosen = {path[0] for path in fields}
        return AttributeSelection(without=tuple((name,) for name in excluded_by_default if name not in chosen))
    return AttributeSelection(only=fields if "fields" in given else None, without=excluded)


def _paths(texts: Sequence[str], names: Collection[str]) -> tuple[Path, ...]:
    paths = tuple(tuple(_unescaped(name) for name in text.split("/")) for text in texts)
    for path in paths:
        if path[0] not in names:
            raise BadSelection(f"{path[0][:64]!r} is no attribute; there are {', '.join(names)}")
    return paths


def _only(document: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        rests = [path[1:] for path in paths if path[0] == name]
        if not rests:
            continue
        if () in rests:
            found[name] = value
        elif isinstance(value, Mapping):
            found[name] = _only(value, rests)
        elif isinstance(value, list):
            found[name] = [_only(item, rests) for item in value if isinstance(item, Mapping)]
    return found


def _without(document: Mapping[str, Any], paths: Sequence[Path]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in document.items():
        rests = [path[1:] for path in paths if path[0] == name]
        if () in rests:
            continue
        if rests and isinstance(value, Mapping):
            value = _without(value, rests)
        elif rests and isinstance(value, list):
            value = [_without(item, rests) if isinstance(item, Mapping) else item for item in value]
        found[name] = value
    return found


def _values_at(value: Any, path: Path) -> Iterator[Any]:
    """The scalars at a path, over all entries of lists."""
    if isinstance(value, list):
        for item in value:
            yield from _values_at(item, path)
    elif path:
        if isinstance(value, Mapping) and path[0] in value:
            yield from _values_at(value[path[0]], path[1:])
    elif value is not None and not isinstance(value, Mapping):
        yield value


def _compares(op: str, value: Any, others: Sequence[str]) -> bool:
    if op == "cont":
        return any(other in _text(value) for other in others)
    if op in _ORDER:
        return _ordered(_ORDER[op], value, others[0])
    return any(_equal(value, other) for other in others)


def _equal(value: Any, other: str) -> bool:
    if isinstance(value, (bool, str)):
        return _text(value) == other
    number = _number(other)
    return number is not None and bool(value == number)


def _ordered(compare: Callable[[Any, Any], bool], value: Any, other: str) -> bool:
    if isinstance(value, str):
        return compare(value, other)
    number = _number(other)
    return number is not None and not isinstance(value, bool) and compare(value, number)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


def _unquoted(value: str) -> str:
    return value[1:-1].replace("''", "'") if value.startswith("'") else value


def _unescaped(name: str) -> str:
    return re.sub("~[1ab0]", lambda match: _ESCAPES[match[0]], name) if "~" in name else name
