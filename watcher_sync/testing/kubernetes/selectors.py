# SPDX-License-Identifier: Apache-2.0
"""Label and field selectors: parsed from a query to a predicate on items.

The grammar is that of the API: ``a=b``, ``a==b``, ``a!=b``, ``a in (b,c)``, ``a notin (b,c)``, ``a``, ``!a``, joined by
commas. All terms must match. Field selectors use the fields that an item stores outside its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from watcher_sync.testing.kubernetes.errors import bad_request

if TYPE_CHECKING:
    from watcher_sync.testing.kubernetes.store import Item

Test = Callable[["Item"], bool]

_SET = re.compile(r"^(\S+)\s+(in|notin)\s+\(([^)]*)\)$")
_EQUALS = re.compile(r"^([^=!\s]+)\s*(==|=|!=)\s*([\w./:-]*)$")
_EXISTS = re.compile(r"^(!?)\s*([^=!\s]+)$")

FIELDS: dict[str, Callable[[Item], str]] = {
    "metadata.name": lambda item: item.name,
    "metadata.namespace": lambda item: item.namespace,
    "spec.nodeName": lambda item: item.node,
    "status.phase": lambda item: item.phase,
}


def selector(labels: str, fields: str) -> Test | None:
    """A test for both selectors; None when both are empty and everything is selected.

    :raises ApiError: 400 for what is not a selector.
    """
    tests = [_label(part.strip()) for part in _terms(labels) if part.strip()]
    tests += [_field(part.strip()) for part in fields.split(",") if part.strip()]
    if not tests:
        return None
    return lambda item: all(test(item) for test in tests)


def _terms(text: str) -> Iterator[str]:
    """The parts between the commas that are not in parentheses."""
    begin = depth = 0
    for position, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth <= 0:
            yield text[begin:position]
            begin = position + 1
    yield text[begin:]


def _label(text: str) -> Test:
    if found := _SET.match(text):
        key, values = found[1], frozenset(value.strip() for value in found[3].split(","))
        if found[2] == "in":
            return lambda item: item.labels.get(key) in values
        return lambda item: item.labels.get(key) not in values
    if found := _EQUALS.match(text):
        key, value = found[1], found[3]
        if found[2] == "!=":
            return lambda item: item.labels.get(key) != value
        return lambda item: item.labels.get(key) == value
    if found := _EXISTS.match(text):
        key, wanted = found[2], not found[1]
        return lambda item: (key in item.labels) is wanted
    raise bad_request(f"unable to parse requirement: {text!r}")


def _field(text: str) -> Test:
    found = _EQUALS.match(text)
    if not found or found[1] not in FIELDS:
        raise bad_request(f'Unable to find field selector that matches "{text}": field label not supported')
    field, value = FIELDS[found[1]], found[3]
    if found[2] == "!=":
        return lambda item: field(item) != value
    return lambda item: field(item) == value
