# SPDX-License-Identifier: Apache-2.0
"""JSON Schemas (draft 2020-12) of published messages: one for each kind and format, from the kind's declaration.

The entity has the fields that the kind declares, and no other. The rest of a message may get further members.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from watcher_sync.api.http import schemas
from watcher_sync.api.http.schemas import Schema
from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log import base, formats
from watcher_sync.model.kinds import Kind

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

_NULL: Final[Schema] = {"type": "null"}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": schemas.STRING}
_EPOCH: Final[Schema] = schemas.STRING | {"minLength": 1, "description": "Sequences of two epochs do not compare."}
_PREVIOUS: Final[Schema] = schemas.nullable(schemas.SEQ) | {
    "description": "The seq of the change of this entity before; null: there was none, or it is unknown."
}
_CAUSE: Final[Schema] = schemas.nullable(
    {
        "type": "object",
        "required": ["event_id", "event_type", "source", "merged"],
        "properties": {
            **dict.fromkeys(("event_id", "event_type", "source"), schemas.STRING),
            "merged": {"type": "integer", "minimum": 1, "description": "How many events the change sums up."},
        },
    }
)
_OMITTED: Final[Schema] = {
    "type": "array",
    "items": {"enum": ["old", "new", "entity"]},
    "description": "What is missing because the log takes no message of its size. Absent: nothing is.",
}
_ACTOR: Final[Schema] = schemas.ACTOR | {"description": "Who caused it; null: unknown."}


def address_of(format_name: str, kind: Kind) -> str:
    """The path of a schema in the REST API, which messages name in ``dataschema``."""
    return f"/v1/schemas/{format_name}/{kind.name}"


def message_schema(format_name: str, kind: Kind) -> Schema:
    """The schema of a message of a kind. It is not to be changed.

    :raises ConfigError: there is no such format.
    """
    if format_name not in _MAKERS:
        raise ConfigError(f"format {format_name!r} is none of {', '.join(_MAKERS)}")
    return _made(format_name, kind)


@functools.cache
def _made(format_name: str, kind: Kind) -> Schema:
    return {
        "$schema": DIALECT,
        "$id": address_of(format_name, kind),
        "title": f"A change of the kind {kind.name}, in the format {format_name}",
        **_MAKERS[format_name](kind),
    }


def _fields(kind: Kind) -> dict[str, Schema]:
    """The schemas of the public fields. A log has them whole, so nothing of them is for administrators only."""
    declared = schemas.entity_schema(kind)["properties"]
    found: dict[str, Schema] = {"id": declared["id"]}
    for name, field in kind.fields.items():
        schema = {key: value for key, value in declared[name].items() if key not in ("x-admin-only", "description")}
        found[name] = schema | {"description": field.doc} if field.doc else schema
    return found


def _entity(kind: Kind) -> Schema:
    return {"type": "object", "required": ["id"], "properties": _fields(kind), "additionalProperties": False}


def _values(kind: Kind) -> Schema:
    """Some fields. A value may be null where the entity did not exist."""
    properties = {name: schemas.nullable(schema) for name, schema in _fields(kind).items() if name != "id"}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _object(**properties: Schema) -> Schema:
    return {"type": "object", "required": list(properties), "properties": properties}


def _when(name: str, values: list[str], **properties: Schema) -> Schema:
    """What members are if another one has one of these values."""
    return {"if": {"properties": {name: {"enum": values}}}, "then": {"properties": properties}}


def _whole(kind: Kind, member: str, part: str, *, holder: str = "") -> Schema:
    """A member with an entity has all its fields, unless this part is omitted.

    :param holder: the member with the object that has ``omitted``; empty: it is beside the entity.
    """
    omits: Schema = {"required": ["omitted"], "properties": {"omitted": {"contains": {"const": part}}}}
    whole = [name for name in _fields(kind) if name != kind.last_seen_field]
    return {
        "if": {"properties": {holder: omits}} if holder else omits,
        "else": {"properties": {member: {"required": whole}}},
    }


def _cloud_event(kind: Kind) -> Schema:
    changes = [base.CREATED, base.UPDATED, base.DELETED, base.SNAPSHOT]
    entity = _entity(kind)
    data = _object(
        partition=schemas.STRING,
        epoch=_EPOCH,
        seq=schemas.SEQ,
        change={"enum": changes},
        kind={"const": kind.name},
        id=schemas.STRING,
        previous_seq=_PREVIOUS,
        old=_values(kind),
        new=_values(kind),
        entity=schemas.nullable(entity),
        versions=_TEXTS | {"description": "Facet -> version, after the change."},
        cause=_CAUSE,
        actor=_ACTOR,
        project_id=schemas.nullable(schemas.STRING),
    )
    data["allOf"] = [
        _when("change", [base.DELETED], entity=_NULL),
        _when("change", [change for change in changes if change != base.DELETED], entity={"type": "object"}),
        _whole(kind, "entity", "entity"),
    ]
    data["properties"]["omitted"] = _OMITTED
    return _object(
        specversion={"const": "1.0"},
        id=schemas.STRING | {"minLength": 1},
        source=schemas.STRING | {"minLength": 1},
        type={"enum": [f"{formats.TYPE_PREFIX}.{kind.name}.{change}" for change in changes]},
        time=schemas.TIME,
        subject=schemas.STRING,
        dataschema={"const": address_of(formats.CLOUDEVENTS, kind)},
        datacontenttype={"const": "application/json"},
        data=data,
    )


def _debezium(kind: Kind) -> Schema:
    entity = schemas.nullable(_entity(kind))
    source = _object(
        connector={"const": formats.TYPE_PREFIX},
        name=schemas.STRING | {"description": "The partition."},
        table={"const": kind.name},
        epoch=_EPOCH,
        seq=schemas.SEQ,
        previous_seq=_PREVIOUS,
        ts_ms={"type": "integer"},
        snapshot={"enum": ["true", "false"]},
        versions=_TEXTS,
        cause=_CAUSE,
        actor=_ACTOR,
    )
    source["properties"]["omitted"] = _OMITTED
    document = _object(
        op={"enum": ["c", "u", "d", "r"]}, before=entity, after=entity, source=source, ts_ms={"type": "integer"}
    )
    document["allOf"] = [
        _when("op", ["c", "r"], before=_NULL, after={"type": "object"}),
        _when("op", ["u"], before={"type": "object"}, after={"type": "object"}),
        _when("op", ["d"], before={"type": "object"}, after=_NULL),
        _whole(kind, "before", "old", holder="source"),
        _whole(kind, "after", "entity", holder="source"),
    ]
    return document


_MAKERS: Final[dict[str, Callable[[Kind], dict[str, Any]]]] = {
    formats.CLOUDEVENTS: _cloud_event,
    formats.DEBEZIUM: _debezium,
}
FORMATS: Final = tuple(_MAKERS)
