# SPDX-License-Identifier: Apache-2.0
"""``/v1/topology``: hosts and clusters with the numbers of their members, for a view of a whole cloud.

A host is one entry with the number of its instances in each state, and a cluster one with its workloads and pods. So a
cloud of 20,000 instances needs two queries and one answer. Entries with problems come first, at most ``limit`` of a
kind.

This module defines the problems. A host is forced down, down, disabled, or deleted while it has instances. Members
are in a state of error, see :data:`BAD_STATES`.

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

from watcher_sync.api.core import schemas
from watcher_sync.api.core.operation import Answer, Call, Rule, operation
from watcher_sync.api.core.request_context import RequestContext
from watcher_sync.api.core.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import PROJECT_FIELD, Kind
from watcher_sync.storage.counting import Counts, count_by_state
from watcher_sync.storage.journal import read_head

MAX_ENTRIES = 500
"""The maximum number of entries of one kind in an answer."""

BAD_STATES = frozenset({"error", "failed", "crashloopbackoff"})
"""The states of members that are problems, in lower case."""

_STATE_FIELDS = ("state", "status", "phase")


class Group(msgspec.Struct, frozen=True):
    """A kind whose entities have members.

    :ivar members: kind of the member -> its field that names the owner.
    """

    kind: str
    members: Mapping[str, str]


GROUPS = (
    Group("compute_node", {"instance": "host"}),
    Group("cluster", {"workload": "cluster", "pod": "cluster"}),
)
"""The groups in the order of the answer. It omits a group whose kind is not installed."""

_COUNTS: schemas.Schema = {
    "type": "object",
    "description": "state -> number of members; an unknown state is the empty text.",
    "additionalProperties": {"type": "integer", "minimum": 1},
}
_MEMBERS: schemas.Schema = {"type": "object", "description": "kind -> its counts.", "additionalProperties": _COUNTS}
_TOTAL: schemas.Schema = {"type": "integer", "minimum": 0}

_ENTRY: schemas.Schema = {
    "type": "object",
    "required": ["id", "zone", "level", "problems", "members"],
    "properties": {
        "id": schemas.STRING,
        "zone": schemas.nullable(schemas.STRING) | {"description": "Its availability zone, if it has one."},
        "level": {"enum": ["error", "warning", "ok"], "description": "The severity of its worst problem."},
        "problems": {"type": "array", "items": schemas.STRING, "description": "Its problems, worst first."},
        "members": _MEMBERS,
    },
}

_GROUP: schemas.Schema = {
    "type": "object",
    "required": ["kind", "total", "troubled", "more", "entries", "members", "unplaced"],
    "properties": {
        "kind": schemas.STRING,
        "total": _TOTAL | {"description": "Number of entries that match the search."},
        "troubled": _TOTAL | {"description": "Number of these entries with problems."},
        "more": _TOTAL | {"description": "Number of these entries that the answer omits."},
        "entries": {"type": "array", "items": _ENTRY, "description": "Entries with problems first, then by id."},
        "members": _MEMBERS | {"description": "All members, with and without an owner."},
        "unplaced": _MEMBERS | {"description": "Members without a known owner."},
    },
}

_TOPOLOGY: schemas.Schema = {
    "type": "object",
    "required": ["seq", "groups"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
        "groups": {"type": "array", "items": _GROUP},
    },
}


class _Entry(msgspec.Struct):
    id: str
    zone: str | None
    level: str
    problems: list[str]
    members: dict[str, dict[str, int]]


class Topology:
    """``/v1/topology``: hosts with their instances, clusters with their workloads and pods."""

    def __init__(self, service: Service) -> None:
        most = min(MAX_ENTRIES, service.max_limit)
        query = {
            "limit": {
                "type": "integer", "minimum": 1, "maximum": most, "default": most,
                "description": "The maximum number of entries of each kind.",
            },
            "search": schemas.SHORT_TEXT
            | {"description": "Only entries whose id contains this text, in upper or lower case."},
        }  # fmt: skip
        self._service = service
        self._groups = [group for group in GROUPS if group.kind in service.kinds]
        self.on_get = operation(
            summary="Show hosts and clusters with their members, problems first",
            rule=Rule("topology:show", ADMIN_OR_SYSTEM_READER),
            query=query,
            responses={200: Answer(_TOPOLOGY)},
            tag="topology",
        )(self.show)

    def show(self, call: Call) -> None:
        """Answers with all groups at one seq."""
        service, search, limit = self._service, call.query.get("search", "").lower(), call.query["limit"]
        with service.reading() as connection:
            seq = read_head(connection, service.tables)
            groups = [_group(service, connection, g, call.context, search, limit) for g in self._groups]
        call.response.set_header("Cache-Control", "no-store")
        call.answer({"seq": seq, "groups": groups})


def _group(
    service: Service, connection: sa.Connection, group: Group, context: RequestContext, search: str, limit: int
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
    return {
        "kind": kind.name,
        "total": len(entries),
        "troubled": sum(entry.level != "ok" for entry in entries),
        "more": max(len(entries) - limit, 0),
        "entries": entries[:limit],
        "members": _sum_by_state(counts, lambda _: True),
        "unplaced": _sum_by_state(counts, lambda owner: owner not in known),
    }


def _count_members(
    service: Service, connection: sa.Connection, kind: Kind, field: str, context: RequestContext
) -> Counts:
    """Counts the members of a kind that the caller may see, by owner and state."""
    state = next((name for name in _STATE_FIELDS if name in kind.fields), field)
    scope = context.scope if kind.is_scoped else None
    only = {} if scope is None else {PROJECT_FIELD: scope}
    return count_by_state(connection, service.tables.entities[kind.name], owner=field, state=state, only=only)


def _sum_by_state(counts: Mapping[str, Counts], chosen: Callable[[str], bool]) -> dict[str, dict[str, int]]:
    """Sums the counts of the chosen owners: kind -> state -> number."""
    sums: dict[str, dict[str, int]] = {kind: {} for kind in counts}
    for kind, owners in counts.items():
        for owner, states in owners.items():
            if chosen(owner):
                for state, number in states.items():
                    sums[kind][state] = sums[kind].get(state, 0) + number
    return sums


_STATUS_FIELDS = ("availability_zone", "status", "state", "liveness_reason", "forced_down", "disabled_reason", "gone")


def _entry(row: Mapping[Any, Any], counts: Mapping[str, Counts]) -> _Entry:
    members = {kind: owners.get(row["id"], {}) for kind, owners in counts.items()}
    errors = _errors(row, occupied=any(members.values()))
    warnings = _warnings(row)
    for kind, states in members.items():
        bad = sum(number for state, number in states.items() if state.lower() in BAD_STATES)
        if bad:
            warnings.append(f"{bad} {kind if bad == 1 else kind + 's'} in error")
    level = "error" if errors else "warning" if warnings else "ok"
    return _Entry(row["id"], row.get("availability_zone"), level, errors + warnings, members)


def _errors(row: Mapping[Any, Any], *, occupied: bool) -> list[str]:
    """The problems of an entry that can run no members."""
    problems = []
    if row.get("forced_down"):
        problems.append("forced down")
    elif str(row.get("state") or "").lower() in {"down", "unreachable", "disconnected", *BAD_STATES}:
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


def _sort_key(entry: _Entry) -> tuple[Any, ...]:
    """Sorts by severity, then by the number of members in error, then by id."""
    rank = ("error", "warning", "ok").index(entry.level)
    bad = sum(n for states in entry.members.values() for state, n in states.items() if state.lower() in BAD_STATES)
    return (rank, -bad, _natural_key(entry.id))


@functools.lru_cache(maxsize=16_384)
def _natural_key(text: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that sorts ``host-9`` before ``host-10``."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((part.isdecimal() and part.isascii(), int(part) if i % 2 else 0, part) for i, part in enumerate(parts))
