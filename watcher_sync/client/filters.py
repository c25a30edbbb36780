# SPDX-License-Identifier: Apache-2.0
"""The filters of a list, as people write them, in the form of the API's query.

::

    state=error              state!=active            name~web          (it begins with web)
    vcpus>4                  vcpus>=4  vcpus<4        vcpus<=4
    host in compute-1,compute-2                       host not in compute-1,compute-2
    labels[app]=web

What follows ``=`` may also be in the API's own form: ``state=neq:active``. The page has the same filters.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from watcher_sync.client.errors import ClientError

Filters = dict[str, list[str]]
"""Parameter -> its values, all of which have to match."""

_FORMS: Final = "FIELD=VALUE, or with !=, <, <=, >, >=, ~ (begins with), in or not in"
_EXPRESSION: Final = re.compile(
    r"\s*(?P<field>[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]+\])?)"
    r"(?:\s*(?P<sign>!=|>=|<=|=|>|<|~)|\s+(?P<word>not\s+in|in)\s)\s*(?P<value>.+)",
    re.DOTALL,
)
_OPERATORS: Final = {"=": "", "!=": "neq:", ">": "gt:", ">=": "gte:", "<": "lt:", "<=": "lte:", "~": "prefix:"}


class BadFilter(ClientError):
    """The text is no filter."""


def parse_filter(text: str) -> tuple[str, str]:
    """The parameter and the value of a filter.

    :raises BadFilter: the text is none.
    """
    match = _EXPRESSION.fullmatch(text)
    if match is None:
        raise BadFilter(f"must be {_FORMS}; not {text!r}")
    value: str = match["value"].rstrip()
    if match["sign"] is not None:
        return match["field"], _OPERATORS[match["sign"]] + value
    operator = "in:" if match["word"] == "in" else "nin:"
    if '"' not in value:  # else a comma may be part of a value
        value = ",".join(part.strip() for part in value.split(","))
    return match["field"], operator + value


def parse_filters(texts: Iterable[str]) -> Filters:
    """The parameters of several filters, for ``Client.entities``.

    :raises BadFilter: a text is no filter.
    """
    found: Filters = {}
    for text in texts:
        name, value = parse_filter(text)
        found.setdefault(name, []).append(value)
    return found
