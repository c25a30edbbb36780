# SPDX-License-Identifier: Apache-2.0
"""A journal row as the change of a resource: group, kind, name, scope, attributes.

A row has the changed fields only. The name, the scope and the references of the entity at that row come from
``values``, which :mod:`watcher_sync.read.row_entities` reads.

A kind of a plugin has the group ``plugin``. Its kind is the name in camel case, so ``floating_ip`` is ``FloatingIp``.
Its name is the text of a field ``name``, else the id. It has no scope. Each kind refers to what it declares as a
reference, but for its scope.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote

import msgspec

from watcher_sync.extensions.watch.wire.descriptions import (
    ChangeDescription,
    ChangeType,
    ReferenceDescription,
    ResourceDescription,
    ScopeDescription,
)
from watcher_sync.model.kinds import Kind
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden, seen_delta, whole

PLUGIN_GROUP: Final = "plugin"
"""The group of all kinds of plugins."""

_encode = msgspec.json.Encoder().encode


class ResourceRow(Protocol):
    """What is read of a journal row."""

    @property
    def seq(self) -> int:
        """Its position."""

    @property
    def time(self) -> datetime.datetime:
        """When it was committed."""

    @property
    def kind(self) -> str:
        """The entity's kind."""

    @property
    def entity_id(self) -> str:
        """The entity's id."""

    @property
    def change(self) -> str:
        """created, updated or deleted."""

    @property
    def delta(self) -> dict[str, tuple[Any, Any]]:
        """field -> (old, new), as JSON gave them."""

    @property
    def versions(self) -> dict[str, str]:
        """facet -> the version after the change."""

    @property
    def event_id(self) -> str:
        """The event that caused it."""

    @property
    def project_id(self) -> str | None:
        """The project of the entity."""


class Reader(msgspec.Struct, frozen=True):
    """What one reader sees."""

    project_id: str | None = None
    """The only project whose entities it sees; None: all."""
    hidden: Mapping[str, Hidden] = {}
    """Kind -> what it does not see of an entity."""

    def sees(self, row: ResourceRow) -> bool:
        """Whether it sees the entity of a row at all."""
        return self.project_id is None or row.project_id == self.project_id


class Link(msgspec.Struct, frozen=True):
    """A field with the id of another entity, or with a list of ids."""

    field: str
    kind: str
    """The kind of the other entity."""


class ResourceKind(msgspec.Struct, frozen=True):
    """How the entities of a kind are shown as resources."""

    group: str
    kind: str
    name_field: str | None = None
    """The field with the name; None, or a null value: the id is the name."""
    scope: Link | None = None
    references: tuple[Link, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields from which name, scope and references follow."""
        found = [] if self.name_field is None else [self.name_field]
        found += [] if self.scope is None else [self.scope.field]
        return tuple(dict.fromkeys([*found, *(link.field for link in self.references)]))


_IN_CLUSTER: Final = Link("cluster", "cluster")

BUILTIN: Final[Mapping[str, ResourceKind]] = {
    "aggregate": ResourceKind("compute", "Aggregate", "name"),
    "compute_node": ResourceKind("compute", "ComputeNode"),
    "instance": ResourceKind("compute", "Instance", "name", Link("host", "compute_node")),
    "provider": ResourceKind("dcm", "Provider", "name"),
    "provider_binding": ResourceKind("dcm", "ProviderBinding"),
    "service_type_instance": ResourceKind("dcm", "ServiceTypeInstance", "instance_name"),
    "cluster": ResourceKind("kubernetes", "Cluster"),
    "workload": ResourceKind("kubernetes", "Workload", "name", _IN_CLUSTER),
    "pod": ResourceKind("kubernetes", "Pod", "name", _IN_CLUSTER),
    "custom_object": ResourceKind("kubernetes", "CustomObject", "name", _IN_CLUSTER),
    "vnf_instance": ResourceKind("vnf", "VnfInstance", "name"),
}
"""Our kind -> the resource, without its references."""


def resource_kind(kind: Kind) -> ResourceKind:
    """How the entities of a kind are shown, also of a plugin's kind."""
    name = kind.fields.get("name")
    has_name = name is not None and name.python is str
    plain = ResourceKind(PLUGIN_GROUP, _camel_case(kind.name), "name" if has_name else None)
    shown = BUILTIN.get(kind.name, plain)
    links = [Link(each.field, each.kind) for each in kind.references]
    return msgspec.structs.replace(shown, references=tuple(link for link in links if link != shown.scope))


class Describer:
    """Describes journal rows as changes of resources.

    :param kinds: the kinds of this process.
    """

    def __init__(self, kinds: Mapping[str, Kind]) -> None:
        self._kinds = kinds
        self.shown: Mapping[str, ResourceKind] = {name: resource_kind(kind) for name, kind in kinds.items()}
        """Kind -> how its entities are shown."""
        self.fields: Mapping[str, tuple[str, ...]] = {name: shown.fields for name, shown in self.shown.items()}
        """Kind -> the fields whose values at a row :meth:`change` needs."""

    def change(
        self, row: ResourceRow, values: Mapping[str, Any], reader: Reader | None = None
    ) -> ChangeDescription | None:
        """The change that a reader sees in a row.

        :param values: the values of :attr:`fields` after the row; before it, if the row is a deletion.
        :param reader: None: one that sees everything.
        :returns: None if the row is no change of what the reader sees, or of a kind that this process does not know.
        """
        reader = reader or Reader()
        kind = self._kinds.get(row.kind)
        if kind is None or not reader.sees(row) or not (row.delta or row.change != "updated"):
            return None
        hidden = reader.hidden.get(row.kind, NOTHING_HIDDEN)
        delta = seen_delta(row.delta, hidden) if hidden else row.delta
        if not delta and row.change == "updated":
            return None
        subresource = subresource_of(kind, delta) if row.change == "updated" else ""
        which = 0 if row.change == "deleted" else 1
        attributes = {n: text(pair[which]) for n, pair in delta.items() if pair[which] is not None}
        return ChangeDescription(
            seq=row.seq,
            time=row.time,
            type=ChangeType.SUBRESOURCE_UPDATED if subresource else ChangeType(row.change),
            resource=self.resource(kind, row.entity_id, _visible(values, hidden), attributes),
            subresource=subresource,
            correlation_id=row.event_id,
            organization_id=row.project_id or "",
            versions=row.versions,
            unset=tuple(n for n, (_, new) in delta.items() if new is None) if row.change == "updated" else (),
        )

    def resource(
        self, kind: Kind, entity_id: str, values: Mapping[str, Any], attributes: Mapping[str, str]
    ) -> ResourceDescription:
        """An entity as a resource.

        :param values: the values of :attr:`fields` that the reader sees.
        """
        shown = self.shown[kind.name]
        name = values.get(shown.name_field) if shown.name_field is not None else None
        return ResourceDescription(
            group=shown.group,
            kind=shown.kind,
            name=name or entity_id,
            id=entity_id,
            self_link=_self_link(kind, entity_id),
            scope=self._scope(shown.scope, values),
            references=tuple(dict.fromkeys(self._references(shown.references, values))),
            attributes=attributes,
        )

    def _scope(self, link: Link | None, values: Mapping[str, Any]) -> ScopeDescription | None:
        """Scopes are of kinds whose id is their name."""
        entity_id = None if link is None else values.get(link.field)
        if link is None or not entity_id:
            return None
        kind, shown = self._kinds[link.kind], self.shown[link.kind]
        return ScopeDescription(id=entity_id, kind=shown.kind, name=entity_id, self_link=_self_link(kind, entity_id))

    def _references(self, links: tuple[Link, ...], values: Mapping[str, Any]) -> Iterator[ReferenceDescription]:
        for link in links:
            kind, value = self._kinds.get(link.kind), values.get(link.field)
            if kind is None or not value:
                continue
            shown = self.shown[link.kind]
            for entity_id in value if isinstance(value, list) else [value]:
                name = entity_id if shown.name_field is None else ""
                yield ReferenceDescription(
                    id=entity_id, kind=shown.kind, name=name, self_link=_self_link(kind, entity_id)
                )


def subresource_of(kind: Kind, delta: Mapping[str, Any]) -> str:
    """The only facet that an update touched; empty: it touched several, or the one that carries the existence.

    The latter is the resource itself, so its update is no update of a sub-resource. Derived fields follow from others,
    so they do not count.
    """
    if len(kind.facets) < 2:
        return ""
    derived = {each.field for each in kind.derived}
    facets = {kind.fields[name].facet if name in kind.fields else None for name in delta if name not in derived}
    only = facets.pop() if len(facets) == 1 else None
    return only if only is not None and only != kind.anchor else ""


def text(value: Any) -> str:
    """A value as an attribute: a text as it is, a time as RFC 3339, every other value as JSON."""
    if isinstance(value, str):
        return value
    encoded = _encode(value).decode()
    return encoded[1:-1] if isinstance(value, datetime.datetime) else encoded


def _visible(values: Mapping[str, Any], hidden: Hidden) -> Mapping[str, Any]:
    unseen = whole(hidden)
    return values if not unseen else {name: value for name, value in values.items() if name not in unseen}


def _self_link(kind: Kind, entity_id: str) -> str:
    """The path at which the REST API shows the entity."""
    return f"/v1/{kind.plural}/{quote(entity_id, safe='')}"


def _camel_case(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))
