# SPDX-License-Identifier: Apache-2.0
"""The documents of watch topics and of their events: JSON Schemas, and the decoding of YAML.

The names of the members are those of the Axway dialect.
"""

from __future__ import annotations

from typing import Any, Final

import yaml

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import JSON, Call
from watcher_sync.api.http.problems import bad_request
from watcher_sync.extensions.watch.model import topics
from watcher_sync.extensions.watch.wire.messages import REST_TYPES
from watcher_sync.extensions.watch.wire.topic_links import GROUP, VERSIONS

YAML: Final = ("application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "application/vnd.yaml")
"""The media types of YAML (RFC 9512 and the older names)."""
MAX_YAML_BYTES: Final = 16_384
"""The worst YAML costs the square of its size."""
MAX_YAML_DEPTH: Final = 16
"""Lists and objects in each other. Beyond some hundred, the parsers of YAML need a second, or end the process."""
_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""The one of libyaml is ten times as fast. It is in each wheel of PyYAML."""
_UNREADABLE: Final = (
    yaml.YAMLError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What PyYAML raises. Its constructors raise the builtin ones, such as ``KeyError`` for ``!!bool foo``."""

_PATTERN: schemas.Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": 600,
    "pattern": r"^(?:\*|[^*\u0000]+)$",
    "description": "An exact value, or * for any.",
}
_FILTER: schemas.Schema = {
    "type": "object",
    "required": ["group", "kind"],
    "additionalProperties": False,
    "properties": {
        "group": _PATTERN,
        "kind": _PATTERN,
        "name": _PATTERN | {"default": topics.ANY},
        "scope": {
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {"kind": _PATTERN | {"default": topics.ANY}, "name": _PATTERN | {"default": topics.ANY}},
        },
        "type": {
            "type": "array",
            "minItems": 1,
            "items": {"enum": list(topics.TYPES)},
            "description": "updated includes updates of sub-resources. By default all.",
        },
    },
}
_SPEC: schemas.Schema = {
    "type": "object",
    "required": ["filters"],
    "additionalProperties": False,
    "properties": {
        "description": {"type": "string", "maxLength": topics.MAX_DESCRIPTION_LENGTH, "pattern": r"^[^\u0000]*$"},
        "filters": {
            "type": "array",
            "minItems": 1,
            "maxItems": topics.MAX_FILTERS,
            "items": _FILTER,
            "description": "A change passes when any of them lets it pass.",
        },
    },
}
_NAME: schemas.Schema = {
    "type": "string",
    "minLength": 1,
    "maxLength": topics.MAX_NAME_LENGTH,
    "pattern": r"^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?$",
    "description": "Its name, unique in its project; the last segment of its path.",
}
_TITLE: schemas.Schema = {"type": "string", "maxLength": topics.MAX_NAME_LENGTH, "pattern": r"^[^\u0000]*$"}

REQUEST: schemas.Schema = {
    "type": "object",
    "required": ["name", "spec"],
    "additionalProperties": False,
    "properties": {
        "group": {"const": GROUP},
        "apiVersion": {"enum": list(VERSIONS)},
        "kind": {"const": topics.KIND},
        "name": _NAME,
        "title": _TITLE,
        "spec": _SPEC,
        **{name: {"description": "Ignored."} for name in ("metadata", "attributes", "tags", "finalizers", "owner")},
    },
}


def _strings(*names: str) -> dict[str, schemas.Schema]:
    return dict.fromkeys(names, schemas.STRING)


_TEXTS: schemas.Schema = {"type": "object", "additionalProperties": schemas.STRING}
_METADATA: schemas.Schema = {
    "type": "object",
    "required": ["id", "scope", "selfLink", "references"],
    "properties": {
        **_strings("id", "selfLink"),
        "scope": {"type": "object", "properties": _strings("id", "kind", "name", "selfLink")},
        "references": {"type": "array", "items": {"type": "object"}},
        "audit": {
            "type": "object",
            "properties": {"createTimestamp": schemas.TIME, "modifyTimestamp": schemas.TIME},
            "description": "The times that are known. Events have none.",
        },
    },
}
RESOURCE: schemas.Schema = {
    "type": "object",
    "properties": {
        **_strings("group", "apiVersion", "kind", "name", "title"),
        "metadata": _METADATA,
        "attributes": _TEXTS,
        "tags": {"type": "array", "items": schemas.STRING},
        "spec": {"type": "object"},
    },
}
"""A resource, or the members of it that the request names."""
TOPIC: schemas.Schema = RESOURCE | {"properties": RESOURCE["properties"] | {"spec": _SPEC}}
FIELDS: dict[str, schemas.Schema] = {
    "fields": {
        "type": "array",
        "items": schemas.STRING,
        "minItems": 1,
        "description": "The members of the answer, separated by commas; all by default.",
    }
}
"""The query parameter of the members of a resource."""

EVENT: schemas.Schema = {
    "type": "object",
    "required": ["id", "time", "version", "product", "correlationId", "organization", "type", "payload", "metadata"],
    "properties": {
        **_strings("id", "version", "product", "correlationId"),
        "time": schemas.TIME,
        "organization": {"type": "object", "required": ["id"], "properties": _strings("id")},
        "type": {"enum": list(REST_TYPES.values())},
        "payload": {
            "type": "object",
            "required": ["group", "kind", "name", "metadata", "attributes"],
            "properties": {
                **_strings("group", "kind", "name"),
                "metadata": _METADATA,
                "attributes": _TEXTS,
            },
        },
        "metadata": {
            "type": "object",
            "required": ["watchTopicID", "watchTopicSelfLink", "sequenceID", "subresource"],
            "properties": {
                **_strings("watchTopicID", "watchTopicSelfLink", "subresource"),
                "sequenceID": schemas.SEQ,
                "versions": _TEXTS,
                "unset": {"type": "array", "items": schemas.STRING},
            },
        },
    },
}


def picked(resource: dict[str, Any], call: Call) -> dict[str, Any]:
    """The members of a resource that the request names, in their order; one that it does not have is left out."""
    names = call.query.get("fields")
    return resource if names is None else {name: value for name, value in resource.items() if name in names}


def decoded(call: Call) -> Any:
    """The document of a request, which is JSON or YAML.

    :raises Problem: 400 when the YAML cannot be read.
    """
    if not isinstance(call.body, bytes):
        return call.body
    if len(call.body) > MAX_YAML_BYTES:
        raise bad_request("body", "", f"YAML may have {MAX_YAML_BYTES} bytes; send a larger document as {JSON}")
    try:
        refusal = _refusal_of(call.body)
        document = yaml.load(call.body, _Loader) if not refusal else None  # noqa: S506 - a safe loader
    except _UNREADABLE as exc:
        mark = getattr(exc, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark is not None else ""
        raise bad_request("body", "", f"The body is not YAML{where}") from None
    if refusal:
        raise bad_request("body", "", refusal)
    return document


def _refusal_of(content: bytes) -> str:
    """Why YAML is not composed; empty: it may be. The parser stops there.

    Chained aliases and merges grow tenfold a level, in the composer already. It calls itself for each level.

    :raises yaml.YAMLError: the content is not YAML.
    """
    depth = 0
    for event in yaml.parse(content, Loader=_Loader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            return f"YAML with aliases is refused, in line {line}"
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_YAML_DEPTH:
            return f"YAML may be nested {MAX_YAML_DEPTH} levels deep, and is deeper in line {line}"
    return ""
