# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas (draft 2020-12) of entities, journal rows and pages, and the schemas that several resources share."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from watcher_sync.model.kinds import Field, Kind

Schema = dict[str, Any]

SEQ: Schema = {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
TIME: Schema = {"type": "string", "format": "date-time"}
STRING: Schema = {"type": "string"}
SHORT_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\u0000]*$"}
"""A text that every database can store."""
ETAG: Schema = {"type": "string"}


def nullable(schema: Schema) -> Schema:
    """The schema of a value or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def field_schema(field: Field) -> Schema:
    """The schema of one declared field."""
    (schema,), definitions = msgspec.json.schema_components([field.type])
    if definitions:
        raise TypeError(f"{field.name}: a field's type refers to no other")
    if field.python is datetime.datetime:  # msgspec does not name the format
        schema = nullable(TIME) if field.nullable else TIME
    described = schema | {"description": field.doc} if field.doc else schema
    if field.admin_only is not None:
        what = ", ".join(field.admin_only.members) or "it"
        text = f"{field.doc} Only administrators and readers of the system see {what}."
        described = described | {"description": text.strip(), "x-admin-only": list(field.admin_only.members) or True}
    return described


@functools.cache
def _fields(kind: Kind) -> Mapping[str, Schema]:
    """The schemas of a kind's fields. All schemas of the kind share them, so they are never changed."""
    found = {name: field_schema(field) for name, field in kind.fields.items()}
    for name, named in reference_documents(kind).items():
        found[name] = {**found[name], "x-reference": named}
    return MappingProxyType(found)


def reference_documents(kind: Kind) -> dict[str, dict[str, Any]]:
    """Field -> what it refers to."""
    return {
        each.field: {"kind": each.kind, "relation": each.relation, "lists_dependents": each.lists_dependents}
        | ({"or_kinds": list(each.or_kinds)} if each.or_kinds else {})
        for each in kind.references
    }


def entity_schema(kind: Kind, more: Mapping[str, Schema] = MappingProxyType({})) -> Schema:
    """The schema of an entity with all its fields.

    :param more: fields of answers that are no part of the entity.
    """
    properties: Schema = {"id": {"type": "string", "description": "Id."}}
    properties |= _fields(kind)
    properties |= more
    properties["source_removed"] = {
        "const": True,
        "description": "The source of the entity was removed from the configuration, so nothing updates it. "
        "Absent for all other entities, with fields, versions or as_of, and in the answer of a write.",
    }
    properties["seq"] = nullable(SEQ) | {
        "description": "Journal seq of its last change; null: with as_of, if the journal no longer has this change."
    }
    return {"type": "object", "properties": properties, "additionalProperties": False}


ACTOR: Schema = nullable(
    {
        "type": "object",
        "required": ["id", "project_id", "request_id"],
        "properties": {name: nullable(STRING) for name in ("id", "project_id", "request_id")},
    }
) | {"description": "Who caused it; null: unknown, or of a project that the caller does not see."}

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
        "merged": {"type": "integer", "description": "How many events were merged into this change."},
        "actor": ACTOR,
        "project_id": {"anyOf": [STRING, {"type": "null"}], "description": "The project that the entity belongs to."},
    },
}


def collection(name: str, item: Schema, **more: Schema) -> Schema:
    """The schema of one page of a list: the entries, and the marker and the path of the next page."""
    return {
        "type": "object",
        "required": [name, "next_marker", "next"],
        "properties": {
            name: {"type": "array", "items": item},
            "next_marker": nullable(STRING) | {"description": "The marker of the next page; null on the last page."},
            "next": nullable(STRING) | {"description": "The path of the next page; null on the last page."},
            **more,
        },
    }


def all_projects(what: str) -> dict[str, Schema]:
    """The query parameter ``all_projects``.

    :param what: what the answer has, for the description.
    """
    return {
        "all_projects": {
            "type": "boolean",
            "description": f"true: {what} of all projects, or 403; false: those of the caller's project alone. By "
            "default the answer has everything that the caller may see.",
        }
    }


def limit(most: int, description: str, *, default: int = 100) -> Schema:
    """A query parameter that limits the entries of an answer."""
    return {
        "type": "integer",
        "minimum": 1,
        "maximum": most,
        "default": min(default, most),
        "description": description,
    }


def paging(max_limit: int) -> dict[str, Schema]:
    """The query parameters of every list."""
    return {
        "limit": limit(max_limit, "The maximum number of entries on a page."),
        "marker": {
            "type": "string",
            "minLength": 1,
            "maxLength": 2100,
            "description": "The next_marker of the previous page.",
        },
    }
