# SPDX-License-Identifier: Apache-2.0
"""Watch topics: which changes of which resources a watcher receives.

The JSON form is that of the Axway dialect (agent-sdk, resource WatchTopic of the group management). Members that its
clients send and that mean nothing here are ignored; every other unknown member is an error.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.extensions.watch.wire.descriptions import ResourceDescription, TopicRef
from watcher_sync.extensions.watch.wire.messages import resource_document
from watcher_sync.extensions.watch.wire.topic_links import GROUP, VERSIONS, self_link

ANY: Final = "*"
"""What matches every value."""
KIND: Final = "WatchTopic"
TYPES: Final = ("created", "updated", "deleted")
MAX_FILTERS: Final = 256
"""Filters of one topic."""
MAX_NAME_LENGTH: Final = 255
MAX_DESCRIPTION_LENGTH: Final = 4_096

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?")
_IGNORED: Final = frozenset({"metadata", "attributes", "tags", "finalizers", "owner"})


class InvalidTopic(WatcherSyncError):
    """The document is no watch topic.

    :ivar pointer: the JSON Pointer (RFC 6901) of what is wrong.
    :ivar reason: what is wrong with it.
    """

    def __init__(self, pointer: str, reason: str) -> None:
        super().__init__(f"{pointer or 'the document'}: {reason}")
        self.pointer = pointer
        self.reason = reason


class TopicScope(msgspec.Struct, frozen=True):
    """The scope that a filter asks for: exact values or :data:`ANY`."""

    kind: str = ANY
    name: str = ANY


class TopicFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes pass. Group, kind, name and scope are exact values or :data:`ANY`."""

    group: str
    kind: str
    name: str = ANY
    scope: TopicScope = TopicScope()
    types: frozenset[str] = frozenset(TYPES)
    """Of :data:`TYPES`; ``updated`` includes updates of sub-resources."""

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "group": self.group,
            "kind": self.kind,
            "name": self.name,
            "scope": {"kind": self.scope.kind, "name": self.scope.name},
            "type": [each for each in TYPES if each in self.types],
        }


class WatchTopic(msgspec.Struct, frozen=True, kw_only=True):
    """A stored set of filters under a name. An event passes when any filter lets it pass."""

    id: str
    name: str
    filters: tuple[TopicFilter, ...]
    title: str = ""
    description: str = ""
    project_id: str | None = None
    """The project that owns it; None: none."""
    created_at: datetime.datetime | None = None
    version: str = VERSIONS[0]
    """The version of the dialect in which it was asked for. It is not stored: a topic is the same in each."""

    @property
    def self_link(self) -> str:
        """The path at which the topic can be read."""
        return self_link(self.name, self.version)

    @property
    def ref(self) -> TopicRef:
        """What the events on the topic say of it."""
        return TopicRef(self.id, self.self_link)

    def spec(self) -> dict[str, Any]:
        """The member ``spec`` of the JSON form."""
        return {"description": self.description, "filters": [each.document() for each in self.filters]}

    def document(self) -> dict[str, Any]:
        """The JSON form."""
        resource = ResourceDescription(group=GROUP, kind=KIND, name=self.name, id=self.id, self_link=self.self_link)
        created = self.created_at  # a topic never changes
        return resource_document(resource, self.spec(), created, created, version=self.version, title=self.title)


def is_name(text: str) -> bool:
    """Whether a topic may have this name."""
    return len(text) <= MAX_NAME_LENGTH and _NAME.fullmatch(text) is not None


def parse(document: Any, topic_id: str, **owner: Any) -> WatchTopic:
    """Read the JSON form of a topic.

    :param topic_id: the id of the new topic.
    :param owner: project_id, created_at and version of the topic; by default the version is that of the document.
    :raises InvalidTopic: naming the path of what is wrong.
    """
    members = _object(
        document, "", {"group", "apiVersion", "kind", "name", "title", "spec"} | _IGNORED, ("name", "spec")
    )
    for member, allowed in (("group", (GROUP,)), ("apiVersion", VERSIONS), ("kind", (KIND,))):
        if members.get(member, allowed[0]) not in allowed:
            raise InvalidTopic(f"/{member}", f"it has to be {' or '.join(map(repr, allowed))}")
    name = _text(members["name"], "/name")
    if not is_name(name):
        raise InvalidTopic(
            "/name", f"1 to {MAX_NAME_LENGTH} letters, digits, '.', '_' and '-'; a letter or digit first and last"
        )
    description, filters = parse_spec(members["spec"], "/spec")
    return WatchTopic(
        id=topic_id,
        name=name,
        title=_text(members.get("title", ""), "/title", MAX_NAME_LENGTH),
        description=description,
        filters=filters,
        **{"version": members.get("apiVersion", VERSIONS[0]), **owner},
    )


def parse_spec(document: Any, at: str = "") -> tuple[str, tuple[TopicFilter, ...]]:
    """Read the member ``spec``.

    :param at: the JSON Pointer of the member.
    :returns: the description, and the filters without repetitions.
    :raises InvalidTopic: naming the path of what is wrong.
    """
    members = _object(document, at, {"description", "filters"}, ("filters",))
    description = _text(members.get("description", ""), f"{at}/description", MAX_DESCRIPTION_LENGTH)
    filters = members["filters"]
    if not isinstance(filters, list):
        raise InvalidTopic(f"{at}/filters", "it has to be a list")
    if not 1 <= len(filters) <= MAX_FILTERS:
        raise InvalidTopic(f"{at}/filters", f"it has {len(filters)} filters; 1 to {MAX_FILTERS} are allowed")
    parsed = [_filter(each, f"{at}/filters/{i}") for i, each in enumerate(filters)]
    return description, tuple(dict.fromkeys(parsed))


def _filter(document: Any, at: str) -> TopicFilter:
    members = _object(document, at, {"group", "kind", "name", "scope", "type"}, ("group", "kind"))
    scope = members.get("scope")
    return TopicFilter(
        group=_pattern(members["group"], f"{at}/group"),
        kind=_pattern(members["kind"], f"{at}/kind"),
        name=_pattern(members.get("name", ANY), f"{at}/name"),
        scope=TopicScope() if scope is None else _scope(scope, f"{at}/scope"),
        types=_types(members["type"], f"{at}/type") if "type" in members else frozenset(TYPES),
    )


def _scope(document: Any, at: str) -> TopicScope:
    members = _object(document, at, {"kind", "name"}, ())
    return TopicScope(
        _pattern(members.get("kind", ANY), f"{at}/kind"),
        _pattern(members.get("name", ANY), f"{at}/name"),
    )


def _types(value: Any, at: str) -> frozenset[str]:
    if not isinstance(value, list) or not value:
        raise InvalidTopic(at, f"it has to be a list of at least one of {', '.join(TYPES)}")
    for i, each in enumerate(value):
        if each not in TYPES:
            raise InvalidTopic(f"{at}/{i}", f"it has to be one of {', '.join(TYPES)}")
    return frozenset(value)


def _pattern(value: Any, at: str) -> str:
    text = _text(value, at, 600)
    if not text:
        raise InvalidTopic(at, "it is empty; it has to be an exact value or '*'")
    if ANY in text and text != ANY:
        raise InvalidTopic(at, "'*' matches only on its own; other patterns are not supported")
    return text


def _text(value: Any, at: str, max_length: int = MAX_NAME_LENGTH) -> str:
    if not isinstance(value, str):
        raise InvalidTopic(at, "it has to be a text")
    if len(value) > max_length:
        raise InvalidTopic(at, f"it has {len(value)} characters; {max_length} are allowed")
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidTopic(at, "it has a null character or a lone surrogate, which no database can store")
    return value


def _object(value: Any, at: str, known: set[str], required: tuple[str, ...]) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidTopic(at, "it has to be an object")
    for member in value:
        if member not in known:
            raise InvalidTopic(f"{at}/{_escaped(member)}", f"it is unknown; there are {', '.join(sorted(known))}")
    for member in required:
        if member not in value:
            raise InvalidTopic(f"{at}/{member}", "it is missing")
    return value


def _escaped(member: Any) -> str:
    if not isinstance(member, str):  # YAML has numbers and times as names, too
        return type(member).__name__
    return member[:80].replace("~", "~0").replace("/", "~1")
