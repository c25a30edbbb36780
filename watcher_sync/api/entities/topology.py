# SPDX-License-Identifier: Apache-2.0
"""``/v1/topology``: hosts and clusters with the numbers of their members, for a view of a whole cloud.

A host is one entry with the number of its instances in each state, a cluster one with its workloads and pods. So a
large cloud needs two queries and one answer. Entries with problems come first, at most ``limit`` of a
kind.

This module defines the problems. A host is forced down, down, disabled, or deleted while it has instances. Members
have a state of error (:mod:`watcher_sync.read.member_states`), or a workload has less than its wanted replicas.

It is for administrators and readers of the system. For a caller who does not see every project, the answer counts only
members of its own.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import AS_OF, AS_OF_ANSWER, AS_OF_HEADER, PARAMETERS
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.read.member_states import HEALTHS, Counts, Health, count_by_state, health_of, state_of

MAX_ENTRIES = 500
"""The maximum number of entries of one kind in an answer."""


class TopologyGroup(msgspec.Struct, frozen=True):
    """A kind whose entities have members.

    :ivar members: kind of the member -> its field that names the owner.
    """

    kind: str
    members: Mapping[str, str]


GROUPS = (
    TopologyGroup("compute_node", {"instance": "host"}),
    TopologyGroup("cluster", {"workload": "cluster", "pod": "cluster"}),
)
"""The groups in the order of the answer. It omits a group whose kind is not installed."""

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

_ENTRY: schemas.Schema = {
    "type": "object",
    "required": ["id", "zone", "state", "level", "problems", "members", "health"],
    "properties": {
        "id": schemas.STRING,
        "zone": schemas.nullable(schemas.STRING) | {"description": "Its availability zone, if it has one."},
        "state": schemas.nullable(schemas.STRING) | {"description": "Its own state, such as up, down or connected."},
        "level": {"enum": ["error", "warning", "ok"], "description": "The severity of its worst problem."},
        "problems": {"type": "array", "items": schemas.STRING, "description": "Its problems, worst first."},
        "members": _MEMBERS,
        "health": _HEALTH,
    },
}

_GROUP: schemas.Schema = {
    "type": "object",
    "required": ["kind", "total", "troubled", "more", "entries", "members", "health", "unplaced"],
    "properties": {
        "kind": schemas.STRING,
        "total": _TOTAL | {"description": "Number of entries that match the search."},
        "troubled": _TOTAL | {"description": "Number of these entries with problems."},
        "more": _TOTAL | {"description": "Number of these entries that the answer omits."},
        "entries": {"type": "array", "items": _ENTRY, "description": "Entries with problems first, then by id."},
        "members": _MEMBERS | {"description": "All members, with and without an owner."},
        "health": _HEALTH | {"description": "Health of all members, with and without an owner."},
        "unplaced": _MEMBERS | {"description": "Members without a known owner."},
    },
}

_TOPOLOGY: schemas.Schema = {
    "type": "object",
    "required": ["seq", "groups"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
        "groups": {"type": "array", "items": _GROUP},
        AS_OF: AS_OF_ANSWER,
    },
}


class _TopologyEntry(msgspec.Struct):
    id: str
    zone: str | None
    state: str | None
    level: str
    problems: list[str]
    members: dict[str, dict[str, int]]
    health: dict[str, dict[Health, int]]


class Topology:
    """``/v1/topology``: hosts with their instances, clusters with their workloads and pods."""

    def __init__(self, service: Service) -> None:
        most = min(MAX_ENTRIES, service.max_limit)
        query = {
            "limit": schemas.limit(most, "The maximum number of entries of each kind.", default=most),
            "search": schemas.SHORT_TEXT
            | {"description": "Only entries whose id contains this text, in upper or lower case."},
            **PARAMETERS,
        }  # fmt: skip
        self._service = service
        self._groups = [group for group in GROUPS if group.kind in service.kinds]
        read = {name for group in self._groups for name in (group.kind, *group.members)}
        self._kinds_read = sorted(read & service.kinds.keys())
        self.on_get = operation(
            summary="Show hosts and clusters with their members, problems first",
            rule=Rule("topology:show", ADMIN_OR_SYSTEM_READER),
            query=query,
            responses={200: Answer(_TOPOLOGY, headers=(AS_OF_HEADER,))},
            errors=(410,),
            tag="topology",
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with all groups at one seq, now or as they were."""
        service, search, limit = self._service, call.query.get("search", "").lower(), call.query["limit"]
        with service.source(call, self._kinds_read) as source:
            groups = [_group(service, source.connection, g, call.context, search, limit) for g in self._groups]
        call.answer({"groups": groups, **source.about()})


def _group(
    service: Service, connection: sa.Connection, group: TopologyGroup, context: RequestContext, search: str, limit: int
) -> dict[str, Any]:
    counts = {
        name: _count_members(service, connection, service.kinds[name], field, context)
        for name, field in group.members.items()
        if name in service.kinds and field in service.kinds[name].fields
    }
    kind = service.kinds[group.kind]
    table = service.tables.entities[group.kind]
    shown = [table.c[name] for name in ("id", *_STATUS_FIELDS) if name in table.c]
    rows = [row._mapping for row in connection.execute(sa.select(*shown))]
    known = {row["id"] for row in rows}
    entries = [_entry(row, counts) for row in rows if not search or search in row["id"].lower()]
    entries.sort(key=_sort_key)
    members = _sum_by_state(counts, lambda _: True)
    return {
        "kind": kind.name,
        "total": len(entries),
        "troubled": sum(entry.level != "ok" for entry in entries),
        "more": max(len(entries) - limit, 0),
        "entries": entries[:limit],
        "members": members,
        "health": _sum_by_health(members),
        "unplaced": _sum_by_state(counts, lambda owner: owner not in known),
    }


def _count_members(
    service: Service, connection: sa.Connection, kind: Kind, field: str, context: RequestContext
) -> Counts:
    """Counts the members of a kind that the caller may see, by owner and state."""
    table = service.tables.entities[kind.name]
    state = state_of(kind, table)
    scope = context.scope if kind.is_scoped else None
    only = {} if scope is None else {PROJECT_FIELD: scope}
    return count_by_state(connection, table, owner=field, state=sa.literal("") if state is None else state, only=only)


def _sum_by_state(counts: Mapping[str, Counts], chosen: Callable[[str], bool]) -> dict[str, dict[str, int]]:
    """Sums the counts of the chosen owners: kind -> state -> number."""
    sums: dict[str, dict[str, int]] = {kind: {} for kind in counts}
    for kind, owners in counts.items():
        for owner, states in owners.items():
            if chosen(owner):
                for state, number in states.items():
                    sums[kind][state] = sums[kind].get(state, 0) + number
    return sums


def _sum_by_health(members: Mapping[str, Mapping[str, int]]) -> dict[str, dict[Health, int]]:
    """Sums the numbers of members of one health: kind -> health -> number."""
    sums: dict[str, dict[Health, int]] = {kind: {} for kind in members}
    for kind, states in members.items():
        for state, number in states.items():
            health = health_of(state)
            sums[kind][health] = sums[kind].get(health, 0) + number
    return sums


_STATUS_FIELDS = ("availability_zone", "status", "state", "liveness_reason", "forced_down", "disabled_reason", "gone")


def _entry(row: Mapping[Any, Any], counts: Mapping[str, Counts]) -> _TopologyEntry:
    members = {kind: owners.get(row["id"], {}) for kind, owners in counts.items()}
    errors = _errors(row, occupied=any(members.values()))
    warnings = _warnings(row)
    health = _sum_by_health(members)
    for kind, numbers in health.items():
        if bad := numbers.get("error", 0):
            warnings.append(f"{bad} {kind if bad == 1 else kind + 's'} in error")
    if degraded := health.get("workload", {}).get("warning", 0):
        warnings.append(f"{degraded} {'workload' if degraded == 1 else 'workloads'} degraded")
    level = "error" if errors else "warning" if warnings else "ok"
    state = "down" if row.get("forced_down") else row.get("state")
    return _TopologyEntry(row["id"], row.get("availability_zone"), state, level, errors + warnings, members, health)


def _errors(row: Mapping[Any, Any], *, occupied: bool) -> list[str]:
    """The problems of an entry that can run no members."""
    problems = []
    if row.get("forced_down"):
        problems.append("forced down")
    elif str(row.get("state") or "").lower() in {"down", "unreachable", "disconnected", "error", "failed"}:
        reason = row.get("liveness_reason")
        problems.append(f"{row['state']}: {reason}" if reason else str(row["state"]))
    if row.get("gone") and occupied:
        problems.append("deleted, but not empty")
    return problems


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
