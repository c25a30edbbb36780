# SPDX-License-Identifier: Apache-2.0
"""The graph of relations around one entity, and the number of entities that need it.

An edge is the value of a declared :class:`~watcher_sync.model.kinds.Reference`. It leads from the dependent entity to
the one that it needs.

A walk goes level by level. Each kind of a level costs one query, however many entities the level before has. The
database chooses and sorts what an answer has room for, and counts the rest. Counting lists only entities on which
others may depend; it leaves the rest in the database.

Works on the tables and on copies of the past. For any thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec
import sqlalchemy as sa
from sqlalchemy.sql import visitors

from watcher_sync.model.kinds import PROJECT_FIELD, Kind, Reference
from watcher_sync.model.visibility import NOTHING_HIDDEN, Hidden
from watcher_sync.read.filters import Clause, FieldCondition, clause, is_among
from watcher_sync.read.member_states import HEALTHS, Health, health_of, health_rank, state_of
from watcher_sync.storage.schema.tables import Tables

MAX_DEPTH: Final = 5
"""The most edges between the root and another entity."""

Direction = Literal["needs", "dependents"]
"""Which way a walk goes: to what the root needs, or to what depends on it."""

_Key = tuple[str, str]
"""(kind, id)."""


class GraphNode(msgspec.Struct, frozen=True):
    """An entity of the graph."""

    kind: str
    id: str
    name: str | None
    state: str | None
    health: Health
    depth: int
    """The number of edges from the root, on the shortest way."""
    direction: Literal["root", "needs", "dependents"]
    """Which walk reached it first."""


class GraphEdge(msgspec.Struct, frozen=True, rename={"source": "from", "target": "to"}):
    """A relation between two nodes, each named ``KIND/ID``."""

    source: str
    """The dependent one."""
    target: str
    """The one that it needs."""
    relation: str
    field: str
    """The field that says so, of one of the two."""


class Graph(msgspec.Struct, frozen=True):
    """What a walk found."""

    nodes: list[GraphNode]
    edges: list[GraphEdge]
    more: dict[str, int]
    """Kind -> how many further entities at least the limit left out."""


class _Row(msgspec.Struct, frozen=True):
    """An entity as the walk needs it."""

    kind: str
    id: str
    name: str | None
    state: str | None
    values: Mapping[str, Any]
    """Of the fields that are references."""

    @property
    def key(self) -> _Key:
        """Kind and id."""
        return (self.kind, self.id)

    def ids(self, field: str) -> Sequence[str]:
        """The ids that a reference names."""
        value = self.values[field]
        if isinstance(value, str):
            return (value,)
        return [each for each in value or () if isinstance(each, str)]


_Frontier = Mapping[str, Sequence[_Row]]
"""Kind -> the entities that a level reached."""


class _Walk:
    """One direction of a walk."""

    def __init__(self, direction: Direction, root: _Row) -> None:
        self.direction: Direction = direction
        self.frontier: _Frontier = {root.kind: [root]}
        self.passed: dict[str, set[str]] = {root.kind: {root.id}}

    def advance(self, rows: Iterable[_Row]) -> None:
        """Makes these entities the frontier."""
        frontier: dict[str, list[_Row]] = {}
        for row in rows:
            frontier.setdefault(row.kind, []).append(row)
            self.passed.setdefault(row.kind, set()).add(row.id)
        self.frontier = frontier


class GraphReader:
    """Reads the part of the graph that one caller sees."""

    def __init__(
        self,
        connection: sa.Connection,
        tables: Tables,
        kinds: Mapping[str, Kind],
        *,
        scope: str | None = None,
        hidden: Mapping[str, Hidden] | None = None,
    ) -> None:
        """:param connection: with one consistent state.

        :param kinds: the kinds that the caller sees.
        :param scope: of kinds whose entities belong to projects, only those of this project; None: of all.
        :param hidden: kind -> what the caller does not see of an entity. A hidden field gives no edge.
        """
        self._connection = connection
        self._dialect = connection.dialect.name
        self._tables = tables
        self._kinds = kinds
        self._scope = scope
        self._hidden = hidden or {}
        self._references = {
            name: tuple(
                msgspec.structs.replace(reference, kind=needed)
                for reference in kind.references
                for needed in (reference.kind, *reference.or_kinds)
                if needed in kinds and self._is_visible(name, reference.field)
            )
            for name, kind in kinds.items()
        }

    def walk(
        self, root: _Key, *, depth: int, directions: Collection[Direction], kinds: Collection[str], limit: int
    ) -> Graph | None:
        """The entities around one, and the edges between them; None: it does not exist, or the caller does not see it.

        :param depth: the most edges between the root and another node.
        :param directions: each is a walk of its own from the root on.
        :param kinds: the nodes beside the root are of these kinds.
        :param limit: the most nodes. The nearest remain, of one level first what is needed, then the worst health.
        """
        start = self._root(root)
        if start is None:
            return None
        nodes: dict[_Key, GraphNode] = {root: _node(start, 0, "root")}
        rows = {root: start}
        more: dict[str, int] = {}
        walks = [_Walk(direction, start) for direction in directions]
        for distance in range(1, depth + 1):
            for walk in walks:
                found = self._level(walk, kinds, limit)
                reached = sorted((row for of_kind in found.values() for row in of_kind), key=_order)
                for row in reached:
                    if len(nodes) < limit:
                        nodes.setdefault(row.key, _node(row, distance, walk.direction))
                        rows[row.key] = row
                for kind, of_kind in found.items():
                    if left_out := self._left_out(walk, kind, of_kind, nodes, limit):
                        more[kind] = max(left_out, more.get(kind, 0))
                walk.advance(row for row in reached if row.key in nodes)
        shown = sorted(nodes.values(), key=lambda node: (node.depth, *_order(node)))
        return Graph(shown, self._edges(rows), more)

    def count_dependents(self, root: _Key) -> dict[str, dict[str, int]] | None:
        """How many entities depend on one, over at most :data:`MAX_DEPTH` edges: kind -> state ("": unknown) -> number.

        An entity counts once, however many ways lead to it. None: the root does not exist, or the caller does not see
        it.
        """
        start = self._root(root)
        if start is None:
            return None
        counts: dict[str, dict[str, int]] = {}
        ends: dict[str, list[Clause]] = {}
        walk = _Walk("dependents", start)
        for _ in range(MAX_DEPTH):
            found: list[_Row] = []
            for kind in self._kinds:
                reached = self._reached(kind, walk)
                if reached and self._is_end(kind):
                    ends.setdefault(kind, []).extend(reached)
                elif reached:
                    passed = walk.passed.get(kind, ())
                    found += (row for row in self._rows(kind, reached, self._forward(kind)) if row.id not in passed)
            for row in found:
                of_kind = counts.setdefault(row.kind, {})
                of_kind[row.state or ""] = of_kind.get(row.state or "", 0) + 1
            walk.advance(found)
        for kind, reached in ends.items():
            if of_kind := self._count_by_state(kind, reached):
                counts[kind] = of_kind
        return counts

    def _root(self, root: _Key) -> _Row | None:
        kind, entity_id = root
        found = self._rows(kind, [is_among(self._column(kind, "id"), self._dialect, [entity_id])])
        return next(iter(found), None)

    def _level(self, walk: _Walk, kinds: Collection[str], limit: int) -> dict[str, list[_Row]]:
        """What one step of a walk reaches: kind -> its first entities, one more than the limit."""
        found = {}
        for kind in kinds:
            if reached := self._reached(kind, walk):
                state = self._state(kind)
                order = [] if state is None else [health_rank(state)]
                without = walk.passed.get(kind, ())
                found[kind] = self._rows(kind, reached, without=without, order=order, limit=limit + 1)
        return found

    def _left_out(
        self, walk: _Walk, kind: str, rows: Sequence[_Row], nodes: Mapping[_Key, GraphNode], limit: int
    ) -> int:
        """How many entities of a level are no nodes.

        :param rows: those of the level, as far as they were read.
        """
        left_out = sum(row.key not in nodes for row in rows)
        if not left_out or len(rows) <= limit:
            return left_out
        known = {entity_id for of_kind, entity_id in nodes if of_kind == kind} | walk.passed.get(kind, set())
        query = self._select(kind, [sa.func.count()], self._reached(kind, walk), known)
        return int(self._connection.execute(query).scalar_one())

    def _reached(self, kind: str, walk: _Walk) -> list[Clause]:
        """The conditions on the entities of a kind of which one holds if a step of the walk reaches the entity."""
        reached: list[Clause] = []
        is_needed = walk.direction == "needs"
        for reference in self._references[kind]:
            if reference.lists_dependents == is_needed and (rows := walk.frontier.get(reference.kind)):
                reached.append(self._names(kind, reference, [row.id for row in rows]))
        named: dict[str, None] = {}
        for source, rows in walk.frontier.items():
            for reference in self._references[source]:
                if reference.kind == kind and reference.lists_dependents != is_needed:
                    named.update((entity_id, None) for row in rows for entity_id in row.ids(reference.field))
        if named:
            reached.append(is_among(self._column(kind, "id"), self._dialect, list(named)))
        return reached

    def _names(self, kind: str, reference: Reference, ids: list[str]) -> Clause:
        """Whether a reference names one of some entities."""
        if self._kinds[kind].fields[reference.field].python is list:
            named = FieldCondition(reference.field, "in", tuple(ids))
            return clause(self._kinds[kind], self._tables.entities[kind], self._dialect, named)
        return is_among(self._column(kind, reference.field), self._dialect, ids)

    def _is_end(self, kind: str) -> bool:
        """Whether no entity can depend on one of this kind."""
        others = (r for references in self._references.values() for r in references if r.kind == kind)
        return not self._forward(kind) and all(reference.lists_dependents for reference in others)

    def _forward(self, kind: str) -> tuple[Reference, ...]:
        """The references of a kind that name its dependents."""
        return tuple(reference for reference in self._references[kind] if reference.lists_dependents)

    def _rows(
        self,
        kind: str,
        reached: Sequence[Clause],
        references: Sequence[Reference] | None = None,
        *,
        without: Collection[str] = (),
        order: Sequence[sa.ColumnElement[Any]] = (),
        limit: int | None = None,
    ) -> list[_Row]:
        """The entities for which one of the conditions holds.

        :param references: those whose values are read; None: all.
        """
        name, state = self._kinds[kind].title_field, self._state(kind)
        fields = list(dict.fromkeys(r.field for r in (self._references[kind] if references is None else references)))
        columns = [
            self._column(kind, "id"),
            self._column(kind, name) if name is not None and self._is_visible(kind, name) else sa.null(),
            sa.null() if state is None else state,
            *(self._column(kind, field) for field in fields),
        ]
        query = self._select(kind, columns, reached, without).order_by(*order, columns[0]).limit(limit)
        return [
            _Row(
                kind, entity_id, called, None if its in (None, "") else str(its), dict(zip(fields, values, strict=True))
            )
            for entity_id, called, its, *values in self._connection.execute(query)
        ]

    def _count_by_state(self, kind: str, reached: Sequence[Clause]) -> dict[str, int]:
        state = self._state(kind)
        states = self._select(kind, [(sa.literal("") if state is None else state).label("state")], reached).subquery()
        query = sa.select(states.c.state, sa.func.count()).group_by(states.c.state)
        return {"" if state is None else str(state): number for state, number in self._connection.execute(query)}

    def _select(
        self, kind: str, columns: Sequence[Any], reached: Sequence[Clause], without: Collection[str] = ()
    ) -> sa.Select[*tuple[Any, ...]]:
        """Selects the visible entities for which one of the conditions holds."""
        table = self._tables.entities[kind]
        query = sa.select(*columns).select_from(table).where(sa.or_(*reached))
        if without:
            query = query.where(sa.not_(is_among(table.c.id, self._dialect, sorted(without))))
        if self._scope is not None and self._kinds[kind].is_scoped:
            own = FieldCondition(PROJECT_FIELD, "eq", (self._scope,))
            query = query.where(clause(self._kinds[kind], table, self._dialect, own))
        return query

    def _state(self, kind: str) -> sa.ColumnElement[Any] | None:
        """The expression for the state of a kind's entities; None: they have none, or the caller does not see it."""
        state = state_of(self._kinds[kind], self._tables.entities[kind])
        columns = [] if state is None else [e.name for e in visitors.iterate(state) if isinstance(e, sa.Column)]
        return state if all(self._is_visible(kind, name) for name in columns) else None

    def _is_visible(self, kind: str, field: str) -> bool:
        return self._hidden.get(kind, NOTHING_HIDDEN).get(field) != ()

    def _column(self, kind: str, field: str) -> sa.Column[Any]:
        return self._tables.entities[kind].c[field]

    def _edges(self, rows: Mapping[_Key, _Row]) -> list[GraphEdge]:
        return list(dict.fromkeys(edge for row in rows.values() for edge in self._edges_of(row, rows)))

    def _edges_of(self, row: _Row, rows: Mapping[_Key, _Row]) -> Iterator[GraphEdge]:
        here = f"{row.kind}/{row.id}"
        for reference in self._references[row.kind]:
            for entity_id in row.ids(reference.field):
                if (reference.kind, entity_id) in rows:
                    ends = here, f"{reference.kind}/{entity_id}"
                    yield GraphEdge(
                        *(ends[::-1] if reference.lists_dependents else ends), reference.relation, reference.field
                    )


def _node(row: _Row, depth: int, direction: Literal["root", "needs", "dependents"]) -> GraphNode:
    return GraphNode(row.kind, row.id, row.name, row.state, health_of(row.state or ""), depth, direction)


def _order(row: _Row | GraphNode) -> tuple[Any, ...]:
    """The worst first, then by name and id."""
    return (HEALTHS.index(health_of(row.state or "")), row.name or row.id, row.kind, row.id)
