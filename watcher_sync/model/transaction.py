# SPDX-License-Identifier: Apache-2.0
"""The changes of one batch of events, before they are committed.

A transaction is an overlay over the model (:mod:`watcher_sync.model.entity_overlay`). Handlers read through it and
stage their changes in it; then it is published or discarded. The *ordering guard* is here: of two changes of one facet
the newer wins, in any order of arrival. So any permutation and repetition of a history ends in the same model.

Derived fields and placeholders are computed after every event, so a view inside a batch is consistent.

An event that fails changes nothing: the transaction undoes its changes.

A transaction may be based on another one that is not yet committed. It is valid only after that one is published.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec

from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, NotYet
from watcher_sync.model.changes import ABSENT, Change, Delete, Doubtful, Outcome, Seen, Upsert, Version, check_key
from watcher_sync.model.clock import NO_LIMIT, ClockLimit
from watcher_sync.model.declared_values import declare_values
from watcher_sync.model.entity_overlay import EntityOverlay, flag
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.model import NESTED, Key, differ
from watcher_sync.model.scopes import NO_SITES, require_own
from watcher_sync.model.view import ModelReader
from watcher_sync.wire.limits import MAX_DOCUMENT_BYTES


class Transaction(EntityOverlay):
    """The staged changes of one batch. It implements :class:`~watcher_sync.model.view.View`.

    Belongs to the model's writer thread.
    """

    def __init__(
        self,
        model: ModelReader,
        *,
        on: Transaction | None = None,
        now: Callable[[], datetime.datetime] | None = None,
        sites: Mapping[str, frozenset[str]] = NO_SITES,
    ) -> None:
        """:param on: a finished transaction that is not published yet; its changes count as published.

        :param sites: site -> the sources that follow it, which alone write its entities.
        """
        super().__init__(model, on=on, now=(now or _utcnow)())
        self._sites = sites
        self.seen: dict[str, dict[str, datetime.datetime]] = {}
        self.seen_by: dict[str, dict[str, str]] = {}
        """kind -> id -> the source that brought the last sign of life."""
        self.doubtful: dict[Key, None] = {}
        """The entities that events marked as doubtful, in the order of the first mark."""
        self.clock_limit: ClockLimit = NO_LIMIT
        """The latest time of a sign of life."""

    def apply(self, event: Event, changes: Iterable[Change]) -> Outcome:
        """Stage everything that one event does, or nothing of it.

        :param event: what is recorded as the cause.
        :param changes: what the handler yields; consumed here, so its exceptions come out here.
        :raises InvalidEvent: a change names an unknown kind, field or a value of a wrong type.
        :raises FollowedEntity: a change is about an entity of a site that the event's source does not follow.
        :raises NotYet: a change writes facets of an entity that was never declared.
        """
        seen: list[Seen] = []
        doubtful: list[Doubtful] = []
        outcome: Outcome | None = None
        self._undo.clear()
        self._outdated.clear()
        try:
            for change in changes:
                if self._sites:
                    require_own(self._sites, event.source, change.kind, change.id)
                if isinstance(change, Upsert):
                    if change.actor is not None and event.actor is None:
                        event = msgspec.structs.replace(event, actor=change.actor)
                    result = self._upsert(event, change)
                elif isinstance(change, Delete):
                    result = self._delete(event, change)
                elif isinstance(change, Seen):
                    self._check_seen(change)
                    seen.append(change)
                    continue
                else:
                    self._kind(change.kind)
                    doubtful.append(change)
                    continue
                if outcome is None or _RANK[result] < _RANK[outcome]:
                    outcome = result
            if self._outdated:
                self._derive_outdated(event)
        except BaseException:
            self._roll_back()
            raise
        for sign in seen:
            known = self.seen.setdefault(sign.kind, {})
            if sign.id not in known or known[sign.id] < sign.time:
                known[sign.id] = sign.time
                self.seen_by.setdefault(sign.kind, {})[sign.id] = event.source
        for mark in doubtful:
            self.doubtful[mark.kind, mark.id] = None
        return outcome if outcome is not None else Outcome.IGNORED

    def repair(
        self,
        event: Event,
        kind_name: str,
        entity_id: str,
        values: Mapping[str, Any] | None,
        versions: tuple[Version, ...],
    ) -> Outcome:
        """Stage what an administrator wants, whatever the ordering guard says.

        :param event: what is recorded as the cause.
        :param values: fields of the kind's declared types; None: the entity stays deleted.
        :param versions: of all facets.
        """
        self._undo.clear()
        self._outdated.clear()
        kind = self._kind(kind_name)
        entity, tombstone = self._current((kind_name, entity_id))
        if values is None:
            self._add_tombstone(event, kind, entity_id, entity, versions)
        else:
            self._write(event, kind, entity_id, entity, values, versions, revives=tombstone is not None)
        self._derive_outdated(event)
        return Outcome.APPLIED

    def _derive_outdated(self, event: Event) -> None:
        while self._outdated:
            key, fields = self._outdated.popitem()
            self._derive_from_others(event, *key, fields=fields)

    # The ordering guard

    def _upsert(self, event: Event, change: Upsert) -> Outcome:
        kind = self._kinds.get(change.kind) or self._kind(change.kind)
        check_key(change)
        entity, tombstone = self._current((kind.name, change.id))
        if entity is not None:
            versions = entity.versions
        elif tombstone is None:
            versions = kind.no_versions
        else:
            if not kind.ids_reused and tombstone.ends(change.version):
                is_same = tombstone.is_of(change.version, kind.anchor_position)
                return Outcome.DUPLICATE if is_same else Outcome.STALE
            versions = tombstone.versions
        values: dict[str, Any] = {}
        fresh: list[Version] = []
        older = False
        version, others, plan = change.version, change.versions, kind.plan
        for facet, facet_values in change.facets.items():
            position, names = plan.get(facet) or kind.unknown_facet(facet)
            if facet_values and not names.issuperset(facet_values):
                kind.unknown_field(facet, facet_values)
            if others:
                version = others.get(facet, change.version)
            known = versions[position]
            if version > known:
                if not fresh:
                    fresh = list(versions)
                fresh[position] = version
                if facet_values:
                    values.update(facet_values)
            elif version < known:
                older = True
            elif change.completes and entity is not None:
                values.update(_missing(kind, entity, facet_values))
        if not fresh:
            if not values:
                return Outcome.STALE if older else Outcome.DUPLICATE
            fresh = list(versions)
        declares = fresh[kind.anchor_position] is not versions[kind.anchor_position]
        if entity is None and not declares:
            if kind.anchor not in change.facets and tombstone is None:
                raise NotYet(kind.name, change.id)
            return Outcome.STALE
        if not (0 < event.size <= _SMALL_EVENT_BYTES or kind.limited.isdisjoint(values)):
            kind.check_bytes(values)
        if entity is not None:
            values = {
                n: v
                for n, v in values.items()
                if (old := getattr(entity, n)) is not v
                and (old != v or ((old.__class__ is not v.__class__ or v.__class__ in NESTED) and differ(old, v)))
            }
        declare_values(values, kind.types, kind.name)
        if entity is None and tombstone is None and kind.is_standalone and kind.name not in self.kinds.followers:
            self._create(event, kind, change.id, values, fresh)
            return Outcome.APPLIED
        if values:
            kind.check_values(values)
        if declares and kind.is_placeholder and (entity is None or flag(entity, "discovered") or flag(entity, "gone")):
            values["discovered"] = values["gone"] = False
        # The string that the tables and indexes have already: a change of an index must not retain another one.
        entity_id = entity.id if entity is not None else change.id
        self._write(event, kind, entity_id, entity, values, tuple(fresh), revives=tombstone is not None)
        return Outcome.APPLIED

    def _delete(self, event: Event, change: Delete) -> Outcome:
        kind = self._kind(change.kind)
        check_key(change)
        entity, tombstone = self._current((kind.name, change.id))
        anchor = kind.anchor_position
        if tombstone is not None and not kind.ids_reused and tombstone.ends(change.version):
            return Outcome.DUPLICATE if tombstone.is_of(change.version, anchor) else Outcome.STALE
        if entity is not None:
            versions = entity.versions
        elif tombstone is not None:
            versions = tombstone.versions
        else:
            versions = kind.no_versions
        if kind.ids_reused or change.version.endswith(ABSENT):
            if change.version == versions[anchor]:
                return Outcome.DUPLICATE
            if change.version < versions[anchor]:
                return Outcome.STALE
        # The other facets lose their versions, too: an id that is used again starts without them.
        new_versions = (*kind.no_versions[:anchor], change.version, *kind.no_versions[anchor + 1 :])
        if kind.is_placeholder and entity is not None:
            blank = {name: kind.defaults[name] for names in kind.facet_fields.values() for name in names}
            self._write(event, kind, change.id, entity, {**blank, "discovered": False, "gone": True}, new_versions)
        else:
            self._add_tombstone(event, kind, change.id, entity, new_versions)
        return Outcome.APPLIED

    def _check_seen(self, sign: Seen) -> None:
        self._kind(sign.kind)
        if sign.time.tzinfo is None:
            raise InvalidEvent(f"{sign.kind} {sign.id}: a sign of life needs a time with a zone")
        if sign.time > self.clock_limit.latest:
            self.clock_limit.refuse(f"{sign.kind} {sign.id}: the time of a sign of life", sign.time)


def _missing(kind: Kind, entity: Entity, values: Mapping[str, Any]) -> dict[str, Any]:
    """The values of fields that are at their defaults in an entity."""
    defaults = kind.defaults
    return {n: v for n, v in values.items() if v != defaults[n] and getattr(entity, n) == defaults[n]}


_SMALL_EVENT_BYTES = MAX_DOCUMENT_BYTES // 8
"""No field of a smaller event can be too large: encoded again, a number of five characters has at most twenty."""

_RANK = {Outcome.APPLIED: 0, Outcome.STALE: 1, Outcome.DUPLICATE: 2}


def _utcnow() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)
