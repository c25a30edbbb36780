# SPDX-License-Identifier: Apache-2.0
"""The entries of the option ``kinds``: which kind of a cluster becomes custom objects, and the paths of their values.

An entry is ``group/Kind`` or ``group/version/Kind``, and any number of ``name=path``. A path is a subset of JSONPath.
It has members (``.status.phase``, ``["a key"]``), indexes (``[0]``) and filters (``[?type=="Ready"]``). A filter takes
the first object of a list whose member is that text. It may be written as in the printer columns of Kubernetes
(``[?(@.type=="Ready")]``).

Guaranteed: reading a path raises nothing, whatever the document is. A value that is missing, too large or nested too
deeply is None. Pure; for any thread.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from watcher_sync.decoding import UNDECODABLE
from watcher_sync.wire import json
from watcher_sync.wire.fields import title_of
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES

_MAX_CHARS: Final = 255
"""Of a text, as :data:`~watcher_sync.wire.limits.Text`."""
_MAX_NAME_CHARS: Final = 190
"""Of a kind with its group, so that the types of its events and the full names of its objects are not too long."""
_MAX_PROPERTIES: Final = 64
_MAX_NAME_BYTES: Final = 72
"""Of a property's name in JSON, with its quotes, colon and comma."""
_NAMED: Final = re.compile(
    r"(?=.*/)(?:(?P<group>(?!v[0-9][a-z0-9]*/)[a-z0-9.-]+)/)?(?:(?P<version>v[0-9][a-z0-9]*)/)?(?P<kind>[A-Z][A-Za-z0-9]*)"
)
_STEP: Final = re.compile(
    r"""\.(?P<member>[A-Za-z_][\w-]*)|\[(?P<index>[0-9]{1,6})\]|\[(?:"(?P<key>[^"]+)"|'(?P<quoted>[^']+)')\]"""
    r"""|\[\?(?P<opened>\(@\.)?(?P<tested>[A-Za-z_][\w-]*)\s*==\s*(?:"(?P<text>[^"]*)"|'(?P<single>[^']*)')(?(opened)\))\]"""
)
_BEGIN: Final = re.compile(r"\s+(?P<name>[a-zA-Z][a-zA-Z0-9_]{0,62})=")
_NOT_IN_MODEL: Final = frozenset({"annotations", "finalizers", "generation", "managedFields", "resourceVersion"})
"""Fields of the metadata whose change alone is no change of a custom object."""
_encode: Final = msgspec.json.Encoder().encode
_encode_sorted: Final = msgspec.json.Encoder(order="sorted").encode


class Where(msgspec.Struct, frozen=True):
    """A step of a path: the first object of a list whose member has this text."""

    member: str
    text: str


class ObjectPath(msgspec.Struct, frozen=True):
    """A parsed path."""

    steps: tuple[str | int | Where, ...]

    def read(self, document: Any) -> Any:
        """The value; None where there is none."""
        value = document
        for step in self.steps:
            if isinstance(step, str):
                value = value.get(step) if isinstance(value, dict) else None
            elif not isinstance(value, list):
                return None
            elif isinstance(step, int):
                value = value[step] if step < len(value) else None
            else:
                found = (each for each in value if isinstance(each, dict) and each.get(step.member) == step.text)
                value = next(found, None)
        return value

    def read_text(self, document: Any) -> str | None:
        """The value as a text: a number or a truth value as JSON. None for all else, or more than 255 characters."""
        value = self.read(document)
        if isinstance(value, (bool, int, float)):
            value = _encode(value).decode()
        if not isinstance(value, str) or len(value) > _MAX_CHARS or "\0" in value:  # no database takes a NUL
            return None
        return value

    def read_document(self, document: Any, max_bytes: int) -> Any:
        """The value; None where it has more bytes as JSON, or is nested too deeply for a reader."""
        value = self.read(document)
        if value is None or isinstance(value, bool):
            return value
        try:
            return json.decode(_encode(value), max_size=max_bytes)
        except (json.BadJson, RecursionError, ValueError):
            return None


class NamedKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind that an option names."""

    group: str
    """Empty for the core group."""
    version: str
    """Empty: one that the server has."""
    kind: str

    @property
    def title(self) -> str:
        """Its kind with its group; see :func:`~watcher_sync.wire.fields.title_of`."""
        return title_of(self.group, self.kind)


class CustomKind(NamedKind, frozen=True, kw_only=True):
    """One entry: a kind whose objects become custom objects."""

    state: ObjectPath | None = None
    owner: ObjectPath | None = None
    """To the uid of the owner; None: the owner that controls it."""
    scope: ObjectPath | None = None
    """To the namespace whose project it belongs to; None: its own namespace."""
    properties: dict[str, ObjectPath] = {}

    def digest(self, document: bytes) -> str:
        """Digest of what the model has of an object, but for its resourceVersion; empty where it cannot be read.

        :param document: the object as JSON; its metadata is an object.
        """
        paths = (self.state, self.owner, self.scope, *self.properties.values())
        try:
            found = msgspec.json.decode(document)
            metadata = {name: value for name, value in found["metadata"].items() if name not in _NOT_IN_MODEL}
            values = _encode_sorted([metadata, *(path.read(found) for path in paths if path is not None)])
        except (*UNDECODABLE, ArithmeticError, ValueError):
            return ""
        return hashlib.blake2b(values, digest_size=16).hexdigest()

    def read_properties(self, document: Any) -> dict[str, Any] | None:
        """Name -> value, None where there is none; None without properties.

        Each value may have an equal part of the bytes of a document, so that all together fit.
        """
        if not self.properties:
            return None
        most = MAX_DOCUMENT_BYTES // len(self.properties) - _MAX_NAME_BYTES
        return {name: path.read_document(document, most) for name, path in self.properties.items()}


def split_name(name: str) -> tuple[str, str, str] | None:
    """Group, version and kind of ``group/version/Kind``, ``group/Kind`` or ``version/Kind``; None for all else.

    A first part such as ``v1`` is a version of the core group.
    """
    match = _NAMED.fullmatch(name) if len(name) <= _MAX_NAME_CHARS else None
    return None if match is None else (match["group"] or "", match["version"] or "", match["kind"])


def parse_entry(entry: str) -> CustomKind:
    """:raises ValueError: the entry cannot work; says why."""
    name = (entry.split() or [""])[0]
    named = split_name(name)
    if named is None:
        raise ValueError(f"{name!r} is neither group/Kind nor group/version/Kind")
    entry = entry.strip()
    paths: dict[str, ObjectPath] = {}
    place = len(name)
    while place < len(entry):
        begin = _BEGIN.match(entry, place)
        steps, end = _read_steps(entry, begin.end()) if begin is not None else ((), place)
        if begin is None or not steps or not (end == len(entry) or entry[end].isspace()):
            example = '.status.conditions[?type=="Ready"].status'
            raise ValueError(f"{name}: {entry[place:].split()[0]!r} is not name=path with a path such as {example}")
        if begin["name"] in paths:
            raise ValueError(f"{name}: {begin['name']} is given twice")
        paths[begin["name"]], place = ObjectPath(steps), end
    own = {role: paths.pop(role, None) for role in ("state", "owner", "scope")}
    if len(paths) > _MAX_PROPERTIES:
        raise ValueError(f"{name}: has more than {_MAX_PROPERTIES} properties")
    group, version, kind = named
    return CustomKind(group=group, version=version, kind=kind, **own, properties=paths)


def _read_steps(text: str, place: int) -> tuple[tuple[str | int | Where, ...], int]:
    """The steps of the path that begins there, and where it ends."""
    steps: list[str | int | Where] = []
    while (step := _STEP.match(text, place)) is not None:
        place = step.end()
        if step["index"] is not None:
            steps.append(int(step["index"]))
        elif step["tested"] is not None:
            steps.append(Where(step["tested"], step["single"] if step["text"] is None else step["text"]))
        else:
            steps.append(step["member"] or step["key"] or step["quoted"])
    return tuple(steps), place


def parse_entries(entries: Iterable[str]) -> list[CustomKind]:
    """:raises ValueError: an entry cannot work, or two name the same kind; says which, and why."""
    found: dict[str, CustomKind] = {}
    for entry in entries:
        custom = parse_entry(entry)
        if found.setdefault(custom.title.lower(), custom) is not custom:
            raise ValueError(f"{custom.title} is given twice")
    return list(found.values())
