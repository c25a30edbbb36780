# SPDX-License-Identifier: Apache-2.0
"""The state of an entity as one text, and the health that it means; how many entities of each state another one has.

The database computes the states and counts them.

A pod in the phase Running may crash again and again, so its state follows from its phase, readiness and containers. A
workload has no state, so it follows from its ready and wanted replicas.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import sqlalchemy as sa

from watcher_sync.model.kinds import Kind

Health = Literal["error", "warning", "changing", "off", "unknown", "ok"]

HEALTHS: Final[tuple[Health, ...]] = ("error", "warning", "changing", "off", "unknown", "ok")
"""Worst first; what is no problem is in the last four."""

CRASH_LOOP: Final = "CrashLoopBackOff"
NOT_READY: Final = "NotReady"
TERMINATING: Final = "Terminating"
UNAVAILABLE: Final = "Unavailable"
DEGRADED: Final = "Degraded"
PROGRESSING: Final = "Progressing"
SCALED_TO_ZERO: Final = "ScaledToZero"
READY: Final = "Ready"

Counts = dict[str, dict[str, int]]
"""Owner -> state ("" where it is unknown) -> how many."""

_STATE_FIELDS = ("state", "status", "phase")

_HEALTH_OF_STATE: Final[dict[str, Health]] = {
    **dict.fromkeys(
        ("error", "failed", "down", "unreachable", "disconnected", "crashloopbackoff", "unavailable", "out_of_range"),
        "error",
    ),
    **dict.fromkeys(("notready", "degraded", "drifted", "unresolved"), "warning"),
    **dict.fromkeys(
        ("building", "resized", "rescued", "pending", "provisioning", "progressing", "terminating", "settling"),
        "changing",
    ),
    **dict.fromkeys(("", "unknown"), "unknown"),
    **dict.fromkeys(
        ("active", "running", "ready", "succeeded", "available", "up", "connected", "synced", "in-use"), "ok"
    ),
}  # fmt: skip

_ERROR, _FAILED, _ONGOING = "error", "failed", "ing"
"""How other states begin (``error_deleting``) and end (``clean failed``) that are errors, and end that are at work."""


def health_of(state: str) -> Health:
    """The health that a state means; what is no problem and not at work is off.

    :param state: as :func:`state_of` computes it, in upper or lower case; empty: unknown.
    """
    word = state.lower()
    if word in _HEALTH_OF_STATE:
        return _HEALTH_OF_STATE[word]
    if word.startswith(_ERROR) or word.endswith(_FAILED):
        return "error"
    return "changing" if word.endswith(_ONGOING) else "off"


def health_rank(state: sa.ColumnElement[Any]) -> sa.ColumnElement[int]:
    """The expression for the position in :data:`HEALTHS` of the health of a state, to sort by."""
    text = sa.func.lower(
        sa.func.coalesce(state if isinstance(state.type, sa.String) else sa.cast(state, sa.Text()), "")
    )
    states = {health: [s for s, means in _HEALTH_OF_STATE.items() if means == health] for health in HEALTHS}
    known = [(text.in_(texts), HEALTHS.index(health)) for health, texts in states.items() if texts]
    others: list[tuple[sa.ColumnElement[bool], int]] = [
        (text.startswith(_ERROR) | text.endswith(_FAILED), HEALTHS.index("error")),
        (text.endswith(_ONGOING), HEALTHS.index("changing")),
    ]
    return sa.case(*known, *others, else_=HEALTHS.index("off"))


def state_of(kind: Kind, table: sa.Table) -> sa.ColumnElement[Any] | None:
    """The expression for the state of a kind's entities; None for a kind without a state."""
    columns = table.c
    if {"phase", "ready", "crash_looping", "deleted_at"} <= kind.fields.keys():
        return sa.case(
            (columns.deleted_at.is_not(None), TERMINATING),
            (columns.crash_looping.is_(sa.true()), CRASH_LOOP),
            (sa.and_(columns.phase == "Running", columns.ready.is_(sa.false())), NOT_READY),
            else_=columns.phase,
        )
    if {"replicas", "ready_replicas", "updated_replicas"} <= kind.fields.keys():
        replicas, ready = columns.replicas, columns.ready_replicas
        return sa.case(
            (sa.or_(replicas.is_(None), ready.is_(None)), ""),
            (columns.observed_generation < columns.generation, PROGRESSING),
            (sa.and_(replicas == 0, ready == 0), SCALED_TO_ZERO),
            (columns.updated_replicas < replicas, PROGRESSING),
            (ready >= replicas, READY),
            (ready == 0, UNAVAILABLE),
            else_=DEGRADED,
        )
    name = next((name for name in _STATE_FIELDS if name in kind.fields), None)
    return table.c[name] if name is not None else None


def count_by_state(
    connection: sa.Connection,
    table: sa.Table,
    *,
    owner: str,
    state: sa.ColumnElement[Any],
    only: Mapping[str, str],
    known: frozenset[str],
) -> tuple[Counts, dict[str, int], dict[str, int]]:
    """The rows of a table, counted by known owner and state, by state alone, and by state without a known owner.

    It costs one pass over the table's rows and answers as many rows as there are pairs.

    :param owner: the column that says whom a row belongs to. A row with a list belongs to each of them.
    :param state: the column or expression to count by.
    :param only: column -> value; other rows are not counted.
    :param known: the ids of the owners.
    """
    by, chosen = table.c[owner], (table.c[name] == value for name, value in only.items())
    rows = sa.select(by.label("owner"), state.label("state")).where(*chosen).subquery()
    # The state first: with the owner first, SQLite takes the owner's index and reads each row at another place.
    query = sa.select(rows.c.owner, rows.c.state, sa.func.count()).group_by(rows.c.state, rows.c.owner)
    counts: Counts = {}
    totals: dict[str, int] = {}
    without: dict[str, int] = {}
    for owners, value, number in connection.execute(query):
        text = "" if value is None else str(value)
        totals[text] = totals.get(text, 0) + number
        its = known.intersection(owners if isinstance(owners, list) else [owners])
        for states in [counts.setdefault(owner_id, {}) for owner_id in its] or [without]:
            states[text] = states.get(text, 0) + number
    return counts, totals, without


def count_kinds(
    connection: sa.Connection, counted: Mapping[str, tuple[sa.Table, sa.ColumnElement[Any], Mapping[str, str]]]
) -> Counts:
    """The rows of several tables by state, in one query: kind -> state -> how many.

    :param counted: kind -> table, state and ``only`` as in :func:`count_by_state`.
    """
    queries = []
    is_mysql = connection.dialect.name in ("mysql", "mariadb")
    for kind, (table, state, only) in counted.items():
        chosen = (table.c[name] == value for name, value in only.items())
        text: sa.ColumnElement[str] = sa.cast(state, sa.String(255))
        if is_mysql:  # a cast has the collation of the connection, which may ignore case and accents
            text = text.collate("utf8mb4_bin")
        rows = sa.select(text.label("state")).select_from(table).where(*chosen).subquery()
        named = sa.literal(kind, sa.String(255)).label("kind")
        queries.append(sa.select(named, rows.c.state, sa.func.count()).group_by(rows.c.state))
    counts: Counts = {kind: {} for kind in counted}
    for kind, value, number in connection.execute(sa.union_all(*queries)) if queries else ():
        counts[kind][value or ""] = counts[kind].get(value or "", 0) + number
    return counts
