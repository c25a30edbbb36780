# SPDX-License-Identifier: Apache-2.0
"""``/v1/topology``: the places of a cloud with the numbers of their members, and the numbers of all kinds.

A kind is a place if others declare to run on it, and if it runs on nothing itself: hosts, clusters, kinds of plugins.
Each kind of places, of members and of collections (aggregates) costs one query, the use of hosts one, all others one.
Entries with problems come first, at most ``limit`` of a kind.

This module defines the problems. A place is in error, forced down, disabled, or deleted while it has
instances. Members are in error (:mod:`watcher_sync.read.member_states`) or degraded.

It is for administrators and readers of the system. For other callers, the answer counts only
entities of their project.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import AS_OF, AS_OF_ANSWER, AS_OF_HEADER, PARAMETERS
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.model.allocations import RESOURCES, capacity_of_fields
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.read import host_usage
from watcher_sync.read.member_states import (
    DEGRADED,
    HEALTHS,
    Counts,
    Health,
    count_by_state,
    count_kinds,
    health_of,
    state_of,
)

MAX_ENTRIES = 500
"""The maximum number of entries of one kind in an answer."""


class TopologyGroup(msgspec.Struct, frozen=True):
    """A kind whose entities are places.

    :ivar members: kind of the member -> its field that names the place, or the places.
    """

    kind: str
    members: Mapping[str, str]


def groups_of(kinds: Mapping[str, Kind]) -> list[TopologyGroup]:
    """The kinds of places in the order of their declaration, ours first."""
    members: dict[str, dict[str, str]] = {}
    for kind in kinds.values():
        for each in kind.references:
            runs = each.relation == "runs_on" and not each.lists_dependents
            if runs and each.kind in kinds and each.kind != kind.name:
                members.setdefault(each.kind, {}).setdefault(kind.name, each.field)
    running = {name for found in members.values() for name in found}
    return [TopologyGroup(name, members[name]) for name in kinds if name in members and name not in running]


_COUNTS: schemas.Schema = {
    "type": "object",
    "description": "state -> number of members; an unknown state is the empty text.",
    "additionalProperties": {"type": "integer", "minimum": 1},
}
_MEMBERS: schemas.Schema = {"type": "object", "description": "kind -> its counts.", "additionalProperties": _COUNTS}
_TOTAL: schemas.Schema = {"type": "integer", "minimum": 0}

_HEALTH: schemas.Schema = {
    "type": "object",
    "description": "kind -> health -> number of members: error, warning, changing, off, unknown or ok.",
    "additionalProperties": {
        "type": "object",
        "propertyNames": {"enum": list(HEALTHS)},
        "additionalProperties": {"type": "integer", "minimum": 1},
    },
}

_CAPACITY: schemas.Schema = {
    "type": "object",
    "description": "vcpus, memory_mb, disk_gb of a host -> used and whole amount, as far as both are known.",
    "propertyNames": {"enum": list(RESOURCES)},
    "additionalProperties": {
        "type": "object",
        "required": ["used", "total"],
        "properties": {
            "used": {"type": "integer", "minimum": 0, "description": "What its instances use."},
            "total": {"type": "integer", "description": "(total - reserved) * ratio."},
        },
    },
}

_ENTRY: schemas.Schema = {
    "type": "object",
    "required": ["id", "name", "zone", "state", "level", "problems", "members", "health", "capacity", "listed_by"],
    "properties": {
        "id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "What people call it, if it has a name."},
        "zone": schemas.nullable(schemas.STRING) | {"description": "Its availability zone, if it has one."},
        "state": schemas.nullable(schemas.STRING) | {"description": "Its own state, such as up, down or connected."},
        "level": {"enum": ["error", "warning", "ok"], "description": "The severity of its worst problem."},
        "problems": {"type": "array", "items": schemas.STRING, "description": "Its problems, worst first."},
        "members": _MEMBERS,
        "health": _HEALTH,
        "capacity": _CAPACITY,
        "listed_by": {
            "type": "object",
            "description": "kind -> names of those that list it, such as the aggregates of a host.",
            "additionalProperties": {"type": "array", "items": schemas.STRING, "minItems": 1},
        },
    },
}

_ZONE: schemas.Schema = {
    "type": "object",
    "required": ["zone", "total", "down", "disabled"],
    "properties": {
        "zone": schemas.nullable(schemas.STRING) | {"description": "null: the entries without a zone."},
        "total": _TOTAL | {"description": "Number of its entries that match the search."},
        "down": _TOTAL | {"description": "Number of these entries that are down."},
        "disabled": _TOTAL | {"description": "Number of these entries that are disabled, but not down."},
    },
}

_GROUP: schemas.Schema = {
    "type": "object",
    "required": ["kind", "total", "troubled", "more", "zones", "entries", "members", "health", "unplaced"],
    "properties": {
        "kind": schemas.STRING,
        "total": _TOTAL | {"description": "Number of entries that match the search."},
        "troubled": _TOTAL | {"description": "Number of these entries with problems."},
        "more": _TOTAL | {"description": "Number of these entries that the answer omits."},
        "zones": {"type": "array", "items": _ZONE, "description": "By name; none where places have no zones."},
        "entries": {"type": "array", "items": _ENTRY, "description": "Entries with problems first, then by id."},
        "members": _MEMBERS | {"description": "All members, with and without a place."},
        "health": _HEALTH | {"description": "Health of all members, with and without a place."},
        "unplaced": _MEMBERS | {"description": "Members without a known place."},
    },
}

_TOPOLOGY: schemas.Schema = {
    "type": "object",
    "required": ["seq", "groups", "kinds"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
        "groups": {"type": "array", "items": _GROUP},
        "kinds": _MEMBERS | {"description": "kind -> the counts of all its entities, whatever the search."},
        AS_OF: AS_OF_ANSWER,
    },
}


class _TopologyEntry(msgspec.Struct):
    id: str
    name: str | None
    zone: str | None
    state: str | None
    level: str
    problems: list[str]
    members: dict[str, dict[str, int]]
    health: dict[str, dict[Health, int]]
    capacity: dict[str, dict[str, int]] = {}
    listed_by: dict[str, list[str]] = {}


class Topology:
    """``/v1/topology``: the places with their members, and the counts of all kinds."""

    def __init__(self, service: Service) -> None:
        most = min(MAX_ENTRIES, service.max_limit)
        query = {
            "limit": schemas.limit(most, "The maximum number of entries of each kind.", default=most),
            "search": schemas.SHORT_TEXT
            | {"description": "Only entries whose id or name contains this text, in upper or lower case."},
            **PARAMETERS,
        }  # fmt: skip
        self._service = service
        self._groups = groups_of(service.kinds)
        grouped = {name for group in self._groups for name in (group.kind, *group.members)}
        self._others = [kind for name, kind in service.kinds.items() if name not in grouped]
        self.on_get = operation(
            summary="Show hosts, clusters and other places with their members, problems first",
            rule=Rule("topology:show", ADMIN_OR_SYSTEM_READER),
            query=query,
            responses={200: Answer(_TOPOLOGY, headers=(AS_OF_HEADER,))},
            errors=(410,),
            tag="topology",
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with all groups at one seq, now or as they were."""
        service, search, limit = self._service, call.query.get("search", "").lower(), call.query["limit"]
        with service.source(call, sorted(service.kinds)) as source:
            reading = _Reading(service, source.connection, call.context)
            groups = [reading.group(group, search, limit) for group in self._groups]
            reading.count(self._others)
        kinds = {name: reading.kinds[name] for name in service.kinds}
        call.answer({"groups": groups, "kinds": kinds, **source.about()})


class _Reading:
    """What one request reads."""

    def __init__(self, service: Service, connection: sa.Connection, context: RequestContext) -> None:
        self._service = service
        self._connection = connection
        self._context = context
        self.kinds: dict[str, dict[str, int]] = {}
        """Kind -> state -> number of entities that the caller may see, of all kinds that were read."""

    def group(self, group: TopologyGroup, search: str, limit: int) -> dict[str, Any]:
        """The entries of a group with their members, and the sums."""
        kind = self._service.kinds[group.kind]
        rows = self._places(kind)
        self.kinds[kind.name] = dict(Counter(str(row["state"] or "") for row in rows))
        known = frozenset(row["id"] for row in rows)
        counts: dict[str, Counts] = {}
        unplaced: dict[str, dict[str, int]] = {}
        for name, field in group.members.items():
            counts[name], unplaced[name] = self._members(self._service.kinds[name], field, known)
        found = [row for row in rows if not search or any(search in (row[n] or "").lower() for n in ("id", "name"))]
        entries = [_entry(row, counts, self._service.kinds) for row in found]
        entries.sort(key=_sort_key)
        if kind.name == host_usage.KIND and "instance" in self._service.kinds and self._context.scope is None:
            self._add_capacity(entries[:limit], {row["id"]: row for row in found})
        self._add_collections(kind, entries[:limit])
        members = {name: self.kinds[name] for name in counts}
        return {
            "kind": kind.name,
            "total": len(entries),
            "troubled": sum(entry.level != "ok" for entry in entries),
            "more": max(len(entries) - limit, 0),
            "zones": _zones(found) if _ZONE_FIELD in kind.fields else [],
            "entries": entries[:limit],
            "members": members,
            "health": _sum_by_health(members),
            "unplaced": unplaced,
        }

    def _add_capacity(self, entries: Iterable[_TopologyEntry], rows: Mapping[str, Mapping[Any, Any]]) -> None:
        """Adds to the entries of an answer what their instances use of them, by one query."""
        used = host_usage.read_used(self._connection, self._service.tables, [entry.id for entry in entries])
        for entry in entries:
            whole, part = capacity_of_fields(rows[entry.id]), used[entry.id]
            amounts = {name: (getattr(part, name), getattr(whole, name)) for name in RESOURCES}
            known = {name: pair for name, pair in amounts.items() if None not in pair}
            entry.capacity = {name: {"used": one, "total": total} for name, (one, total) in known.items()}

    def _add_collections(self, kind: Kind, entries: Iterable[_TopologyEntry]) -> None:
        """Adds the names of the entities that list an entry, by one query for each kind of them."""
        by_id = {entry.id: entry for entry in entries}
        for other in self._service.kinds.values():
            fields = [each.field for each in other.references if each.lists_dependents and each.kind == kind.name]
            title, hidden = other.title_field or "id", self._context.hidden(other)
            if not fields or any(hidden.get(name) == () for name in (*fields, title)):
                continue
            table = self._service.tables.entities[other.name]
            chosen = (table.c[field] == value for field, value in self._scope(other).items())
            lists = sa.select(table.c.id, table.c[title], *(table.c[field] for field in fields)).where(*chosen)
            for its_id, name, *listed in self._connection.execute(lists):
                for entry in filter(None, (by_id.get(one) for ids in listed for one in ids or ())):
                    entry.listed_by.setdefault(other.name, []).append(name or its_id)
        for entry in by_id.values():
            for names in entry.listed_by.values():
                names.sort()

    def count(self, kinds: Iterable[Kind]) -> None:
        """Counts the entities of these kinds."""
        tables = self._service.tables.entities
        counted = {k.name: (tables[k.name], self._state(k), self._scope(k)) for k in kinds}
        self.kinds.update(count_kinds(self._connection, counted))

    def _places(self, kind: Kind) -> list[Mapping[Any, Any]]:
        table = self._service.tables.entities[kind.name]
        is_named = kind.title_field is not None and self._context.hidden(kind).get(kind.title_field) != ()
        name = table.c[kind.title_field] if kind.title_field is not None and is_named else sa.null()
        fields = (*_STATUS_FIELDS, *(host_usage.CAPACITY if kind.name == host_usage.KIND else ()))
        more = [table.c[field] for field in fields if field in table.c]
        query = sa.select(table.c.id, name.label("name"), self._state(kind).label("state"), *more)
        chosen = (table.c[field] == value for field, value in self._scope(kind).items())
        return [row._mapping for row in self._connection.execute(query.where(*chosen))]

    def _members(self, kind: Kind, field: str, known: frozenset[str]) -> tuple[Counts, dict[str, int]]:
        """The members by known place and state, and those without one by state.

        :param known: the places. None of them is one if the caller does not see the field.
        """
        table = self._service.tables.entities[kind.name]
        if self._context.hidden(kind).get(field) == ():
            known = frozenset()
        counts, self.kinds[kind.name], unplaced = count_by_state(
            self._connection, table, owner=field, state=self._state(kind), only=self._scope(kind), known=known
        )
        return counts, unplaced

    def _state(self, kind: Kind) -> sa.ColumnElement[Any]:
        state = state_of(kind, self._service.tables.entities[kind.name])
        return sa.literal("") if state is None else state

    def _scope(self, kind: Kind) -> dict[str, str]:
        """Column -> value of the entities of a kind that the caller may see."""
        scope = self._context.scope if kind.is_scoped else None
        return {} if scope is None else {PROJECT_FIELD: scope}


def _sum_by_health(members: Mapping[str, Mapping[str, int]]) -> dict[str, dict[Health, int]]:
    """Sums the numbers of members of one health: kind -> health -> number."""
    sums: dict[str, dict[Health, int]] = {kind: {} for kind in members}
    for kind, states in members.items():
        for state, number in states.items():
            health = health_of(state)
            sums[kind][health] = sums[kind].get(health, 0) + number
    return sums


_ZONE_FIELD = "availability_zone"
_STATUS_FIELDS = (_ZONE_FIELD, "status", "liveness_reason", "forced_down", "disabled_reason", "gone")


def _entry(row: Mapping[Any, Any], counts: Mapping[str, Counts], kinds: Mapping[str, Kind]) -> _TopologyEntry:
    members = {kind: owners.get(row["id"], {}) for kind, owners in counts.items()}
    errors = _errors(row, occupied=any(members.values()))
    warnings = _warnings(row)
    health = _sum_by_health(members)
    for kind, states in members.items():
        degraded = sum(number for state, number in states.items() if state.lower() == DEGRADED.lower())
        for number, condition in ((health[kind].get("error", 0), "in error"), (degraded, "degraded")):
            if number:
                word = kind if number == 1 else kinds[kind].plural
                warnings.append(f"{number} {word.replace('_', ' ')} {condition}")
    level = "error" if errors else "warning" if warnings else "ok"
    its = "down" if row.get("forced_down") else row["state"]
    state = None if its is None else str(its)
    return _TopologyEntry(
        row["id"], row["name"], row.get(_ZONE_FIELD), state, level, errors + warnings, members, health
    )


def _zones(rows: Iterable[Mapping[Any, Any]]) -> list[dict[str, Any]]:
    """How many places of each zone there are, are down, and are disabled."""
    zones: dict[str | None, Counter[str]] = {}
    for row in rows:
        is_down, is_disabled = int(bool(_failure(row))), int(bool(_warnings(row)))
        numbers = zones.setdefault(row[_ZONE_FIELD], Counter())
        numbers.update(total=1, down=is_down, disabled=is_disabled * (1 - is_down))
    names = sorted(zones, key=lambda zone: (zone is None, _natural_key(zone or "")))
    return [{"zone": zone, **zones[zone]} for zone in names]


def _errors(row: Mapping[Any, Any], *, occupied: bool) -> list[str]:
    """The problems of an entry that can run no members."""
    problems = [_failure(row), "deleted, but not empty" if row.get("gone") and occupied else ""]
    return list(filter(None, problems))


def _failure(row: Mapping[Any, Any]) -> str:
    """Why a place is down; empty: it is not."""
    if row.get("forced_down"):
        return "forced down"
    if health_of(str(row["state"] or "")) != "error":
        return ""
    reason = row.get("liveness_reason")
    return f"{row['state']}: {reason}" if reason else str(row["state"])


def _warnings(row: Mapping[Any, Any]) -> list[str]:
    """The problems of an entry that accepts no further members."""
    if row.get("status") != "disabled":
        return []
    reason = row.get("disabled_reason")
    return [f"disabled: {reason}"] if reason else ["disabled"]


def _sort_key(entry: _TopologyEntry) -> tuple[Any, ...]:
    """Sorts by severity, then by the number of members in error, then by id."""
    rank = ("error", "warning", "ok").index(entry.level)
    bad = sum(numbers.get("error", 0) for numbers in entry.health.values())
    return (rank, -bad, _natural_key(entry.id))


@functools.lru_cache(maxsize=16_384)
def _natural_key(text: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that sorts ``host-9`` before ``host-10``."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((part.isdecimal() and part.isascii(), int(part) if i % 2 else 0, part) for i, part in enumerate(parts))
