# SPDX-License-Identifier: Apache-2.0
"""The OpenAPI document of each microversion as it is stored in ``tests/unit/api/documents``.

``python -m tests.api_documents`` stores them. A stored document has no prose and no release. What appears twice is
there once: its other places have ``{"as": <JSON Pointer of the first>}``. Parameters are members, by place and name.

A change of the document of a released version breaks its clients. It belongs into a new version
(:mod:`watcher_sync.api.http.microversions`). Only a field that a kind gets is stored in all versions: kinds are data.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from microversion_parse import parse_version_string

from watcher_sync.api.http import openapi
from watcher_sync.api.http.microversions import VERSIONS
from watcher_sync.assembly.api import installed_routes

FOLDER = Path(__file__).parent / "unit" / "api" / "documents"

_PROSE = ("description", "summary", "title", "x-form")
_NAMED = ("paths", "properties", "schemas")
"""Members whose own members have names of ours, which may be those of prose."""

_WIDTH = 118
_SHARED_CHARS = 80
"""What has more characters is stored once."""


def stored(version: str) -> str:
    """The stored document of a version."""
    return (FOLDER / f"{version}.json").read_text()


def current() -> dict[str, str]:
    """Version -> its document as it has to be stored."""
    routes = installed_routes()
    return {
        version: condensed(openapi.document(routes, "", parse_version_string(version), tokens=True))
        for version in VERSIONS
    }


def condensed(document: dict[str, Any]) -> str:
    """An OpenAPI document as text in the form of this module."""
    return _text(_once(_keyed(_bare(document)), "", {})) + "\n"


def _bare(part: Any, *, is_named: bool = False) -> Any:
    if isinstance(part, list):
        return [_bare(each) for each in part]
    if not isinstance(part, dict):
        return part
    return {
        name: _bare(each, is_named=name in _NAMED)
        for name, each in part.items()
        if is_named or name not in _PROSE or not isinstance(each, str)
    }


def _keyed(part: Any) -> Any:
    if isinstance(part, dict):
        return {name: _keyed(each) for name, each in part.items()}
    if not isinstance(part, list):
        return part
    if part and all(isinstance(each, dict) and each.keys() >= {"in", "name"} for each in part):
        return {f"{each.pop('in')} {each.pop('name')}": _keyed(each) for each in part}
    return [_keyed(each) for each in part]


def _once(part: Any, pointer: str, seen: dict[str, str]) -> Any:
    if isinstance(part, list):
        return [_once(each, f"{pointer}/{at}", seen) for at, each in enumerate(part)]
    if not isinstance(part, dict):
        return part
    text = json.dumps(part, sort_keys=True)
    if len(text) > _SHARED_CHARS and (first := seen.setdefault(text, pointer)) != pointer:
        return {"as": first}
    return {
        name: _once(each, f"{pointer}/{name.replace('~', '~0').replace('/', '~1')}", seen)
        for name, each in sorted(part.items())
    }


def _text(part: Any, indent: int = 0) -> str:
    """JSON with what fits on one line."""
    text = json.dumps(part)
    if len(text) + indent <= _WIDTH or not isinstance(part, (dict, list)):
        return text
    inner = " " * (indent + 1)
    if isinstance(part, list):
        lines, begin, end = [_text(each, indent + 1) for each in part], "[", "]"
    else:
        lines = [f"{json.dumps(name)}: {_text(each, indent + 1)}" for name, each in part.items()]
        begin, end = "{", "}"
    return f"{begin}\n{inner}" + f",\n{inner}".join(lines) + f"\n{' ' * indent}{end}"


if __name__ == "__main__":
    for name, text in current().items():
        (FOLDER / f"{name}.json").write_text(text)
