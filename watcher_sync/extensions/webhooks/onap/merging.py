# SPDX-License-Identifier: Apache-2.0
"""Merges the changes of one subscription between two deliveries into ``resource-changes``. Pure.

The merge stores what each resource was before the first change. The delivery compares that with the present state of
the view. So what cancels out is not delivered, and a delivery always has the newest state. A receiver that applies all
deliveries has the documents of exactly the resources that its filter admits.

The view has to be at the seq up to which rows were added. If it were ahead, the next delivery would start from another
state than the receiver has.

Deltas of journal rows are shared between subscriptions and never changed.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec

from watcher_sync.extensions.webhooks.onap.documents import document_fields, resource_document, shown
from watcher_sync.model.kinds import Entity, Kind, Kinds, project_of
from watcher_sync.model.model import differ
from watcher_sync.model.view import View
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden, hidden_of, seen, whole

Delta = Mapping[str, tuple[Any, Any]]
"""Field -> (old, new), as JSON gave them."""

Cache = dict[Any, tuple[object, dict[str, Any]]]
"""Documents that several subscriptions share, for deliveries of one view; each with the object that its key needs."""

_NOTHING: Final[Delta] = MappingProxyType({})


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which changes one subscription receives, and in which form."""

    kinds: frozenset[str] | None = None
    """Kinds of resources; None: all."""
    ids: frozenset[str] | None = None
    """Ids of resources; None: all."""
    fields: frozenset[str] | None = None
    """A modification is delivered only if it touches one of these fields; None: any field of the document."""
    labels: Mapping[str, str] = {}
    """A resource is admitted only while it has all these labels."""
    project_id: str | None = None
    """Only entities of this project, and of none, are admitted; None: all."""
    full: bool = False
    """Whether documents have the whole object instead of its status part."""
    hidden: Mapping[str, Hidden] = {}
    """Kind -> what the receiver does not see of it."""
    unowned: Mapping[str, Hidden] = {}
    """Kind -> what it does not see of an entity that is not of its project."""

    def hidden_of(self, kind: str, entity: Entity) -> Hidden:
        """What the receiver does not see of a resource."""
        if self.project_id is None:
            return self.hidden.get(kind, NOTHING_HIDDEN)
        return hidden_of(kind, project_of(entity), self.project_id, self.hidden, self.unowned)

    def selects(self, kind: str, entity_id: str) -> bool:
        """Whether resources of this kind and id may be delivered at all."""
        return (self.kinds is None or kind in self.kinds) and (self.ids is None or entity_id in self.ids)

    def admits(self, kind: str, entity: Entity) -> bool:
        """Whether a resource in this state is of no other project, and the receiver sees that it has the labels."""
        if self.project_id is not None and project_of(entity) not in (None, self.project_id):
            return False
        if not self.labels:
            return True
        if "labels" in self.hidden_of(kind, entity):
            return False
        labels = getattr(entity, "labels", None) or {}
        return all(labels.get(name) == value for name, value in self.labels.items())


class ResourceChanges(msgspec.Struct):
    """What one delivery has, in the order of the last changes. Its documents are shared: they are not to be changed."""

    created: list[dict[str, Any]] = msgspec.field(default_factory=list)
    deleted: list[dict[str, Any]] = msgspec.field(default_factory=list)
    modified: list[dict[str, Any]] = msgspec.field(default_factory=list)

    def is_empty(self) -> bool:
        """Whether there is nothing to deliver."""
        return not (self.created or self.deleted or self.modified)

    def document(self) -> dict[str, Any]:
        """Return the member ``resource-changes`` of a delivery; its arrays are never null."""
        return {"created": self.created, "deleted": self.deleted, "modified": self.modified}


class _Merged(msgspec.Struct):
    """The changes of one resource."""

    existed: bool
    """Whether it existed before the first change."""
    first: Delta
    """The first old value of each changed field, as the first of the pair. Empty for one that did not exist."""
    is_own: bool
    """Whether ``first`` was made here and is not the delta of a row."""
    deletion: Delta | None
    """The delta of the last deletion. If it existed, ``first`` is complete with it: other fields were null."""
    seq: int
    """Of the last change."""

    def add(self, delta: Delta) -> None:
        """Merge a later delta into ``first``."""
        if self.existed and not delta.keys() <= self.first.keys():
            self.first = {**delta, **self.first}
            self.is_own = True

    def before(self, kind: Kind, entity_id: str, now: Entity | None) -> Entity | None:
        """Return the entity as it was before the first change, as far as it is known; None: it did not exist."""
        if not self.existed:
            return None
        if self.deletion is None and now is not None:
            old = kind.from_json({name: pair[0] for name, pair in self.first.items()})
            return msgspec.structs.replace(now, **old)
        return _deleted_entity(kind, entity_id, self.first)


class Changes:
    """The merged changes of one subscription. For one thread."""

    def __init__(self) -> None:
        self.first_seq = 0
        """Of the first change; 0: there was none."""
        self.last_seq = 0
        self._merged: dict[tuple[str, str], _Merged] = {}

    def is_empty(self) -> bool:
        """Whether no resource changed."""
        return not self._merged

    def add(self, kind: Kind, entity_id: str, change: str, delta: Delta, seq: int) -> None:
        """Append one journal row. O(fields of the delta), O(1) for the first change of a resource.

        :param change: created, updated or deleted.
        :param delta: shared with the caller and not changed by either.
        :param seq: of the row; greater than that of the last one.
        """
        if not self.first_seq:
            self.first_seq = seq
        self.last_seq = seq
        key = (kind.name, entity_id)
        merged = self._merged.get(key)
        deletion = delta if change == "deleted" else None
        if merged is None:
            if delta or change != "updated":
                existed = change != "created"
                self._merged[key] = _Merged(existed, delta if existed else _NOTHING, False, deletion, seq)
            return
        if change != "created" and merged.deletion is None:
            merged.add(delta)
        if deletion is not None:
            merged.deletion = deletion
        merged.seq = seq

    def extend(self, later: Changes) -> None:
        """Append what another one merged after the last change of this one; the other one stays usable."""
        if not later.last_seq:
            return
        self.first_seq = self.first_seq or later.first_seq
        self.last_seq = later.last_seq
        for key, new in later._merged.items():
            merged = self._merged.get(key)
            if merged is None:
                self._merged[key] = copy.copy(new)  # ``first`` is replaced, never written
                continue
            if new.existed and merged.deletion is None:
                merged.add(new.first)
            if new.deletion is not None:
                merged.deletion = new.deletion
            merged.seq = new.seq

    def documents(self, view: View, kinds: Kinds, filter: Filter, cache: Cache | None = None) -> ResourceChanges:
        """Compare the resources before the changes with their present state.

        :param view: at the seq up to which rows were added.
        :param kinds: a kind that is not among them is left out.
        :param cache: gets and gives the documents of this view, for subscriptions of equal ``full`` and ``hidden``.
        """
        found = ResourceChanges()
        for (kind_name, entity_id), merged in sorted(self._merged.items(), key=lambda item: item[1].seq):
            kind = kinds.get(kind_name)
            if kind is not None and filter.selects(kind_name, entity_id):
                _compare(found, kind, entity_id, merged, view.get(kind_name, entity_id), filter, cache)
        return found


def _compare(
    found: ResourceChanges,
    kind: Kind,
    entity_id: str,
    merged: _Merged,
    now: Entity | None,
    filter: Filter,
    cache: Cache | None,
) -> None:
    """Add what one resource's changes are for a receiver."""
    is_shown = now is not None and filter.admits(kind.name, now)
    if is_shown and merged.existed and merged.deletion is None and not filter.labels and filter.project_id is None:
        before = None
        was_shown = True
    else:
        before = merged.before(kind, entity_id, now)
        was_shown = before is not None and filter.admits(kind.name, before)
    if is_shown and now is not None:
        hidden = filter.hidden_of(kind.name, now)
        if not was_shown:
            found.created.append(_document(kind, now, now, filter.full, hidden, cache))
        elif before is not None and (was_hidden := filter.hidden_of(kind.name, before)) is not hidden:
            # The project changed, so the receiver sees another part than before.
            document = _document(kind, now, now, filter.full, hidden, cache)
            if resource_document(kind, before, full=filter.full, hidden=was_hidden) != document:
                found.modified.append(document)
        elif _differs(kind, merged, now, filter, hidden):
            found.modified.append(_document(kind, now, now, filter.full, hidden, cache))
    elif was_shown and before is not None:
        entity, source = before, merged.first
        if now is None and merged.deletion is not None and merged.deletion is not merged.first:
            last = _deleted_entity(kind, entity_id, merged.deletion)
            if filter.admits(kind.name, last):  # else the last state belongs to others
                entity, source = last, merged.deletion
        is_shared = now is None and not (merged.is_own and source is merged.first)
        hidden = filter.hidden_of(kind.name, entity)
        found.deleted.append(_document(kind, entity, source, filter.full, hidden, cache if is_shared else None))


def _differs(kind: Kind, merged: _Merged, now: Entity, filter: Filter, hidden: Hidden) -> bool:
    """Whether a resource that existed before and exists now changed in a field that is delivered.

    Beside the status, that is its name and its place: the document shows them.
    """
    fields = _interests(kind, filter.full, tuple(whole(hidden)) if hidden else ())
    if filter.fields is not None:
        fields &= filter.fields
    if merged.deletion is None:
        fields = fields.intersection(merged.first)
    old = kind.from_json({name: merged.first[name][0] for name in fields if name in merged.first})
    for name in fields:
        if name == "id":
            continue
        was, is_now = old.get(name), getattr(now, name)
        if differ(was, is_now) and differ(*(_visible(kind, name, value, hidden) for value in (was, is_now))):
            return True
    return False


def _visible(kind: Kind, field: str, value: Any, hidden: Hidden) -> Any:
    """The value as the document has it."""
    if not isinstance(value, (dict, list)):
        return value
    return seen({field: shown(kind, field, value)}, hidden).get(field)


def _deleted_entity(kind: Kind, entity_id: str, old: Delta) -> Entity:
    """The entity that had these old values; the fields that are not there were null."""
    values = kind.from_json({name: pair[0] for name, pair in old.items() if pair[0] is not None})
    return kind.cls(id=entity_id, **values)


def _document(
    kind: Kind, entity: Entity, source: object, full: bool, hidden: Hidden, cache: Cache | None
) -> dict[str, Any]:
    """The document of a resource, made once for all receivers of equal documents.

    :param source: what the entity follows from; shared by all receivers, as the entity itself need not be.
    """
    if cache is None:
        return resource_document(kind, entity, full=full, hidden=hidden)
    key = (kind.name, entity.id, id(source), full, tuple(sorted(hidden.items())) if hidden else ())
    known = cache.get(key)
    if known is None:
        known = cache[key] = (source, resource_document(kind, entity, full=full, hidden=hidden))
    return known[1]


@functools.cache
def _interests(kind: Kind, full: bool, hidden: tuple[str, ...]) -> frozenset[str]:
    return document_fields(kind, full).difference(hidden)
