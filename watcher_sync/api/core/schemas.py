# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas (draft 2020-12) of entities, derived from their declarations, and those that many share."""

from __future__ import annotations

from typing import Any

import msgspec

from watcher_sync.model.kinds import Field, Kind

Schema = dict[str, Any]

SEQ: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
TIME: Schema = {"type": "string", "format": "date-time"}
STRING: Schema = {"type": "string"}
PLAIN: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\u0000]*$"}
"""A text that every database takes."""
ETAG: Schema = {"type": "string"}


def nullable(schema: Schema) -> Schema:
    """The same, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def field_schema(field: Field) -> Schema:
    """The schema of one declared field."""
    (schema,), definitions = msgspec.json.schema_components([field.type])
    if definitions:
        raise TypeError(f"{field.name}: a field's type refers to no other")
    return schema | {"description": field.doc} if field.doc else schema


def entity_schema(kind: Kind) -> Schema:
    """An entity as lists and items show it, all fields asked for."""
    properties: Schema = {"id": {"type": "string", "description": "Id."}}
    properties |= {name: field_schema(field) for name, field in kind.fields.items()}
    properties["seq"] = SEQ | {"description": "Journal seq of the change that wrote it last."}
    return {"type": "object", "properties": properties, "additionalProperties": False}


JOURNAL_ROW: Schema = {
    "type": "object",
    "required": ["seq", "time", "kind", "id", "change", "delta", "event_id", "event_type", "source", "merged"],
    "properties": {
        "seq": SEQ,
        "time": TIME,
        "kind": STRING,
        "id": STRING,
        "change": {"enum": ["created", "updated", "deleted"]},
        "delta": {
            "type": "object",
            "description": "field -> [old, new]",
            "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2},
        },
        "event_id": STRING,
        "event_type": STRING,
        "source": STRING,
        "merged": {"type": "integer", "description": "How many events this change sums up."},
    },
}


def collection(name: str, item: Schema, **more: Schema) -> Schema:
    """A page of a list: the entries, and how to get the next page where there is one."""
    return {
        "type": "object",
        "required": [name, "next_marker", "next"],
        "properties": {
            name: {"type": "array", "items": item},
            "next_marker": nullable(STRING) | {"description": "The marker of the next page; null on the last."},
            "next": nullable(STRING) | {"description": "The path of the next page; null on the last."},
            **more,
        },
    }


def paging(max_limit: int) -> dict[str, Schema]:
    """The parameters of every list."""
    return {
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": max_limit,
            "default": min(100, max_limit),
            "description": "Entries on a page.",
        },
        "marker": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2000,
            "description": "Where the page before ended: its next_marker.",
        },
    }
