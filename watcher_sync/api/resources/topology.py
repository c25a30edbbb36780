# SPDX-License-Identifier: Apache-2.0
"""``/v1/topology``: what stands on what, summed up: for a reader who wants to see a whole cloud at once.

A host is one entry with the number of its instances in each state, and a cluster one with its workloads and
pods, so a cloud of 20,000 instances is two queries and one answer. Those with problems come first, and
the answer ends after ``limit`` entries of a kind and says how many more there are.

What counts as a problem is said here, once, in words for people: a host that was declared dead, is down, was deleted
while instances are still on it, or is disabled; and members in a state that says *error* or *failed*. A caller who may
not see every project finds only its own project's instances counted.
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
from watcher_sync.api.core.request_context import ALL_PROJECTS, READER, RequestContext
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import Kind
from watcher_sync.storage.counting import Counts, count_by_state
from watcher_sync.storage.journal import read_head

MAX_ENTRIES = 500
"""Entries of one kind that an answer has at most."""

BAD_STATES = frozenset({"error", "failed", "crashloopbackoff"})
"""States of members that are problems, in lower case."""

_STATE_FIELDS = ("state", "status", "phase")


class Group(msgspec.Struct, frozen=True):
    """A kind that others stand on.

    :ivar members: kind -> its field that names the entity it stands on.
    """

    kind: str
    members: Mapping[str, str]


GROUPS = (
    Group("compute_node", {"instance": "host"}),
    Group("cluster", {"workload": "cluster", "pod": "cluster"}),
)
"""In the order of the answer. Those whose kinds this installation does not have are left out."""

_COUNTS: schemas.Schema = {
    "type": "object",
    "description": "state -> how many; an unknown state is the empty text.",
    "additionalProperties": {"type": "integer", "minimum": 1},
}
_MEMBERS: schemas.Schema = {"type": "object", "description": "kind -> counts.", "additionalProperties": _COUNTS}
_TOTAL: schemas.Schema = {"type": "integer", "minimum": 0}

_ENTRY: schemas.Schema = {
    "type": "object",
    "required": ["id", "zone", "level", "problems", "members"],
    "properties": {
        "id": schemas.STRING,
        "zone": schemas.nullable(schemas.STRING) | {"description": "Its availability zone, where it has one."},
        "level": {"enum": ["error", "warning", "ok"], "description": "How bad the worst of its problems is."},
        "problems": {"type": "array", "items": schemas.STRING, "description": "What is wrong, worst first."},
        "members": _MEMBERS,
    },
}

_GROUP: schemas.Schema = {
    "type": "object",
    "required": ["kind", "total", "troubled", "more", "entries", "members", "unplaced"],
    "properties": {
        "kind": schemas.STRING,
        "total": _TOTAL | {"description": "Entries that there are, as far as they match the search."},
        "troubled": _TOTAL | {"description": "Those of them that have problems."},
        "more": _TOTAL | {"description": "Those of them that the answer leaves out."},
        "entries": {"type": "array", "items": _ENTRY, "description": "Problems first, then by id."},
        "members": _MEMBERS | {"description": "All members, wherever they stand."},
        "unplaced": _MEMBERS | {"description": "Members that stand on nothing that is known."},
    },
}

_TOPOLOGY: schemas.Schema = {
    "type": "object",
    "required": ["seq", "groups"],
    "properties": {
        "seq": schemas.SEQ | {"description": "The journal's seq that the answer belongs to."},
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
                "description": "Entries of each kind.",
            },
            "search": schemas.PLAIN | {"description": "Only those whose id contains this, in upper or lower case."},
        }  # fmt: skip
        self._service = service
        self._groups = [group for group in GROUPS if group.kind in service.kinds]
        self.on_get = operation(
            summary="Show hosts and clusters with their members, problems first",
            rule=Rule("topology:show", READER),
            query=query,
            responses={200: Answer(_TOPOLOGY)},
            tag="topology",
        )(self.show)

    def show(self, call: Call) -> None:
        """All groups at one seq."""
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
        name: _counted(service, connection, service.kinds[name], field, context)
        for name, field in group.members.items()
        if name in service.kinds and field in service.kinds[name].fields
    }
    kind = service.kinds[group.kind]
    table = service.tables.entities[group.kind]
    shown = [table.c[name] for name in ("id", *_TOLD) if name in table.c]
    rows = [row._mapping for row in connection.execute(sa.select(*shown))]
    known = {row["id"] for row in rows}
    entries = [_entry(row, counts) for row in rows if not search or search in row["id"].lower()]
    entries.sort(key=_place)
    return {
        "kind": kind.name,
        "total": len(entries),
        "troubled": sum(entry.level != "ok" for entry in entries),
        "more": max(len(entries) - limit, 0),
        "entries": entries[:limit],
        "members": _summed(counts, lambda _: True),
        "unplaced": _summed(counts, lambda owner: owner not in known),
    }


def _counted(service: Service, connection: sa.Connection, kind: Kind, field: str, context: RequestContext) -> Counts:
    state = next((name for name in _STATE_FIELDS if name in kind.fields), field)
    only = {}
    if "project_id" in kind.fields and not context.may(ALL_PROJECTS, ""):
        only["project_id"] = context.project_id or ""
    return count_by_state(connection, service.tables.entities[kind.name], owner=field, state=state, only=only)


def _summed(counts: Mapping[str, Counts], chosen: Callable[[str], bool]) -> dict[str, dict[str, int]]:
    """kind -> state -> how many, over the chosen owners."""
    sums: dict[str, dict[str, int]] = {kind: {} for kind in counts}
    for kind, owners in counts.items():
        for owner, states in owners.items():
            if chosen(owner):
                for state, number in states.items():
                    sums[kind][state] = sums[kind].get(state, 0) + number
    return sums


_TOLD = ("availability_zone", "status", "state", "forced_down", "disabled_reason", "gone")


def _entry(row: Mapping[Any, Any], counts: Mapping[str, Counts]) -> _Entry:
    members = {kind: owners.get(row["id"], {}) for kind, owners in counts.items()}
    worst = list(_dead(row, occupied=any(members.values())))
    lesser = list(_ailing(row))
    for kind, states in members.items():
        bad = sum(number for state, number in states.items() if state.lower() in BAD_STATES)
        if bad:
            lesser.append(f"{bad} {kind if bad == 1 else kind + 's'} in error")
    level = "error" if worst else "warning" if lesser else "ok"
    return _Entry(row["id"], row.get("availability_zone"), level, worst + lesser, members)


def _dead(row: Mapping[Any, Any], *, occupied: bool) -> list[str]:
    problems = []
    if row.get("forced_down"):
        problems.append("forced down")
    if str(row.get("state") or "").lower() in {"down", "unreachable", "disconnected", *BAD_STATES}:
        problems.append(str(row["state"]))
    if row.get("gone") and occupied:
        problems.append("deleted, but not empty")
    return problems


def _ailing(row: Mapping[Any, Any]) -> list[str]:
    if row.get("status") != "disabled":
        return []
    reason = row.get("disabled_reason")
    return [f"disabled: {reason}"] if reason else ["disabled"]


def _place(entry: _Entry) -> tuple[Any, ...]:
    rank = ("error", "warning", "ok").index(entry.level)
    bad = sum(n for states in entry.members.values() for state, n in states.items() if state.lower() in BAD_STATES)
    return (rank, -bad, _natural(entry.id))


@functools.lru_cache(maxsize=16_384)
def _natural(text: str) -> tuple[tuple[bool, int, str], ...]:
    """A key that sorts ``host-9`` before ``host-10``."""
    parts = re.split(r"([0-9]{1,18})", text)
    return tuple((part.isdecimal() and part.isascii(), int(part) if i % 2 else 0, part) for i, part in enumerate(parts))
