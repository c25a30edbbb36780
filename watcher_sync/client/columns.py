# SPDX-License-Identifier: Apache-2.0
"""The columns of a list in a file, from the schema that the API's document has of its entries."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final, Literal

import msgspec

Type = Literal["integer", "number", "boolean", "time", "text", "json"]


class Column(msgspec.Struct, frozen=True):
    """One field of the entries."""

    name: str
    type: Type
    """``json``: a list or an object."""


def columns_of(document: Mapping[str, Any], path: str) -> list[Column]:
    """The fields of a list's entries.

    :param document: the API's OpenAPI document.
    :param path: of the list; the last part names the member of the answer.
    :raises KeyError: the document has no such list.
    """
    answer = document["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]["schema"]
    entry = answer["properties"][path.rpartition("/")[2]]["items"]
    return [Column(name, _type(schema)) for name, schema in entry["properties"].items() if name != "versions"]


_TYPES: Final[Mapping[Any, Type]] = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "text"}


def _type(schema: Mapping[str, Any]) -> Type:
    choices = [each for each in schema.get("anyOf", [schema]) if each.get("type") != "null"]
    if len(choices) != 1:
        return "json"
    schema = choices[0]
    kind = schema.get("type")
    if kind is None and all(isinstance(each, (str, NoneType)) for each in schema.get("enum", [0])):
        kind = "string"
    if kind == "string" and schema.get("format") == "date-time":
        return "time"
    return "json" if isinstance(kind, list) else _TYPES.get(kind, "json")
