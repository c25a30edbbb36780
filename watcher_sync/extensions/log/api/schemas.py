# SPDX-License-Identifier: Apache-2.0
"""``/v1/schemas``: the JSON Schemas of the messages that outlets publish, one for each kind and format.

They are public, as the OpenAPI document is: a consumer of the log needs no account here.
"""

from __future__ import annotations

from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.api.http.schemas import STRING, Schema
from watcher_sync.api.service import Service
from watcher_sync.extensions.log.formats import CONTENT_TYPES
from watcher_sync.extensions.log.schemas import DIALECT, FORMATS, address_of, message_schema
from watcher_sync.model.kinds import Kinds

_TAG = "schemas"
_REASON = "it describes messages of the release, and nothing of the cloud"
_ENTRIES: Schema = {
    "type": "object",
    "required": ["schemas"],
    "properties": {
        "schemas": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["format", "kind", "content_type", "href"],
                "properties": dict.fromkeys(("format", "kind", "content_type", "href"), STRING),
            },
        }
    },
}
_SCHEMA: Schema = {
    "type": "object",
    "required": ["$schema", "$id", "title"],
    "properties": {"$schema": {"const": DIALECT}, "$id": STRING, "title": STRING},
}


class SchemaList:
    """``/v1/schemas``."""

    def __init__(self, kinds: Kinds) -> None:
        self._schemas = [
            ({"format": name, "kind": kind.name, "content_type": CONTENT_TYPES[name]}, address_of(name, kind))
            for name in FORMATS
            for kind in kinds.values()
        ]

    @operation(
        summary="List the schemas of published messages",
        rule=Rule("schemas:list", EVERYBODY, reason=_REASON),
        responses={200: Answer(_ENTRIES, "The format, the kind and the path of each schema")},
        tag=_TAG,
    )
    def on_get(self, call: Call) -> None:
        """Answers with all schemas, by format and kind."""
        call.answer({"schemas": [{**entry, "href": call.link(path)} for entry, path in self._schemas]})


class SchemaItem:
    """``/v1/schemas/{format}/{kind}``."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds

    @operation(
        summary="Show the JSON Schema of the messages of a kind in a format",
        rule=Rule("schemas:show", EVERYBODY, reason=_REASON),
        responses={200: Answer(_SCHEMA, "The schema (draft 2020-12)")},
        errors=(404,),
        tag=_TAG,
    )
    def on_get(self, call: Call, format_name: str, kind_name: str) -> None:
        """Answers with one schema."""
        kind = self._kinds.get(kind_name)
        if kind is None or format_name not in FORMATS:
            raise not_found(f"schema {format_name}/{kind_name}")
        call.answer(message_schema(format_name, kind))


def routes(service: Service) -> list[Route]:
    """The schemas of all kinds of this process."""
    return [
        ("/v1/schemas", SchemaList(service.kinds)),
        ("/v1/schemas/{format_name}/{kind_name}", SchemaItem(service.kinds)),
    ]
