# SPDX-License-Identifier: Apache-2.0
"""``/versions``, ``/v1`` and ``/openapi.json``."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Mapping
from typing import Any, Final, get_args

import msgspec
from microversion_parse import Version, parse_version_string

from watcher_sync.api.http.microversions import NEWEST, OLDEST, VERSIONS
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import EVERYBODY
from watcher_sync.api.http.schemas import STRING, Schema, reference_documents
from watcher_sync.model.kinds import Kind, Relation

LOGIN = "/v1/login"
"""The path of the login; the link ``login`` of a version names it, if the API offers one."""

_RULE = Rule("versions:show", EVERYBODY, reason="it describes the release, and nothing of the cloud")

_REFERENCE: Final[Schema] = {
    "type": "object",
    "required": ["kind", "relation", "lists_dependents"],
    "properties": {
        "kind": STRING | {"description": "The kind that the field refers to. It need not be installed."},
        "relation": {"enum": list(get_args(Relation))},
        "or_kinds": {
            "type": "array",
            "items": STRING,
            "description": "Other kinds, one of whose entities may have the id instead. Absent: there are none.",
        },
        "lists_dependents": {"type": "boolean", "description": "Whether the field names those that need the entity."},
    },
}

_VERSION: Schema = {
    "type": "object",
    "required": ["id", "status", "min_version", "max_version", "release", "links", "kinds", "names", "references"],
    "properties": {
        "id": STRING,
        "status": {"enum": ["CURRENT"]},
        "min_version": STRING | {"description": "The oldest microversion, and that of a request without one."},
        "max_version": STRING | {"description": "The newest microversion."},
        "release": STRING,
        "kinds": {"type": "object", "additionalProperties": STRING, "description": "kind -> path of its list"},
        "names": {
            "type": "object",
            "additionalProperties": STRING,
            "description": "kind -> the field that people call its entities by; a kind without one has its id only",
        },
        "references": {
            "type": "object",
            "additionalProperties": {"type": "object", "additionalProperties": _REFERENCE},
            "description": "kind -> field -> what its id, or each of its ids, refers to",
        },
        "links": {
            "type": "array",
            "items": {"type": "object", "required": ["rel", "href"], "properties": {"rel": STRING, "href": STRING}},
        },
    },
}

LIST: Final[Schema] = {
    "type": "object",
    "required": ["versions"],
    "properties": {"versions": {"type": "array", "items": _VERSION}},
}


def release() -> str:
    """The installed release of this package."""
    return importlib.metadata.version("watcher-sync")


def _version(kinds: Mapping[str, Kind], call: Call, *, has_login: bool) -> dict[str, Any]:
    links = {"self": "/v1", "describedby": "/openapi.json", **({"login": LOGIN} if has_login else {})}
    return {
        "id": "v1",
        "status": "CURRENT",
        "min_version": str(OLDEST),
        "max_version": str(NEWEST),
        "release": release(),
        "kinds": {name: call.link(f"/v1/{kind.plural}") for name, kind in kinds.items()},
        "names": {name: kind.title_field for name, kind in kinds.items() if kind.title_field is not None},
        "references": {name: reference_documents(kind) for name, kind in kinds.items() if kind.references},
        "links": [{"rel": name, "href": call.link(path)} for name, path in links.items()],
    }


class Versions:
    """``/versions``: all versions of the API."""

    def __init__(self, kinds: Mapping[str, Kind], *, has_login: bool = False) -> None:
        """:param kinds: the installed kinds.

        :param has_login: whether the API offers a login.
        """
        self._kinds = kinds
        self._has_login = has_login

    def answer(self, call: Call) -> None:
        """Answers with all versions."""
        call.answer({"versions": [_version(self._kinds, call, has_login=self._has_login)]})

    @operation(
        summary="List the versions of the API",
        rule=_RULE,
        responses={200: Answer(LIST)},
        tag="versions",
    )
    def on_get(self, call: Call) -> None:
        """Answers with all versions."""
        self.answer(call)


class Version1:
    """``/v1``: version 1 of the API, with the paths, names and references of the kinds."""

    def __init__(self, kinds: Mapping[str, Kind], *, has_login: bool = False) -> None:
        self._kinds = kinds
        self._has_login = has_login

    @operation(
        summary="Show version 1 of the API",
        rule=_RULE,
        responses={
            200: Answer({"type": "object", "required": ["version"], "properties": {"version": _VERSION}}),
        },
        tag="versions",
    )
    def on_get(self, call: Call) -> None:
        """Answers with this version."""
        call.answer({"version": _version(self._kinds, call, has_login=self._has_login)})


class OpenApi:
    """``/openapi.json``: the OpenAPI document."""

    def __init__(self) -> None:
        self._documents: dict[Version, dict[str, msgspec.Raw]] = {}

    def describe(self, document: Callable[[Version], dict[str, Any]]) -> None:
        """Makes the documents. The application calls it when all routes are known.

        :param document: makes that of a microversion.
        """
        for version in map(parse_version_string, VERSIONS):
            members = document(version)
            self._documents[version] = {name: msgspec.Raw(msgspec.json.encode(members[name])) for name in members}

    @operation(
        summary="Show this document",
        rule=_RULE,
        responses={200: Answer({"type": "object"})},
        tag="versions",
    )
    def on_get(self, call: Call) -> None:
        """Answers with the document of the request's version, which was generated at the start."""
        call.answer({**self._documents[call.version], "servers": [{"url": call.link("/") or "/"}]})
