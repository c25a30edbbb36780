# SPDX-License-Identifier: Apache-2.0
"""What a watch event says, before it has a form.

:mod:`~watcher_sync.extensions.watch.wire.messages` writes it as a message or as JSON.
The structs are immutable. One description serves every topic, every stream and the REST twin.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Mapping

import msgspec


class ChangeType(enum.StrEnum):
    """The change of a resource."""

    CREATED = "created"
    UPDATED = "updated"
    DELETED = "deleted"
    SUBRESOURCE_UPDATED = "subresource-updated"
    """An update of one facet alone. A filter for ``updated`` includes it."""


class ScopeDescription(msgspec.Struct, frozen=True, kw_only=True):
    """The resource that contains another one."""

    id: str
    kind: str
    name: str
    self_link: str


class ReferenceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """Another resource that a resource refers to."""

    id: str
    kind: str
    name: str
    self_link: str
    scope_kind: str = ""
    scope_name: str = ""
    is_hard: bool = False
    """Whether the resource cannot exist without the other one."""


class ResourceDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One resource, and the values that a change shows of it."""

    group: str
    kind: str
    name: str
    id: str
    self_link: str
    scope: ScopeDescription | None = None
    references: tuple[ReferenceDescription, ...] = ()
    attributes: Mapping[str, str] = {}
    """Field -> value: texts as they are, other values as JSON. Null values are absent."""


class ChangeDescription(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a resource."""

    seq: int
    time: datetime.datetime
    type: ChangeType
    resource: ResourceDescription
    subresource: str = ""
    """The facet that an update of one facet touched; empty for every other change."""
    correlation_id: str = ""
    """The id of the event that caused the change, as its source gave it."""
    organization_id: str = ""
    """The project of the entity; empty: it has none."""
    versions: Mapping[str, str] = {}
    """Facet -> its version after the change."""
    unset: tuple[str, ...] = ()
    """The fields that the change set to null."""


class TopicRef(msgspec.Struct, frozen=True):
    """The topic that an event is sent on."""

    id: str
    self_link: str
