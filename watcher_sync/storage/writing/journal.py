# SPDX-License-Identifier: Apache-2.0
"""The journal: an append-only log of applied changes with a gapless, commit-ordered ``seq``.

A row holds what changed (``delta``) and the versions after the change. A replica that reads the rows in order becomes
equal to the writer, including its ordering guard. An update with an empty delta moved only versions: replicas need it,
outlets skip it. Such an update of an entity that does not exist moves those of its tombstone. So a deletion is always
that of an entity that existed.
"""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import DatabaseUnavailable, JournalPurged
from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind
from watcher_sync.model.model import Key, Model, Written
from watcher_sync.model.tombstones import Tombstone
from watcher_sync.model.visibility import decoded
from watcher_sync.storage.database import types
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES, RowPage, bounded_page
from watcher_sync.storage.database.types import (
    DeltaDocument,
    JsonDocument,
    UtcDateTime,
    VersionsDocument,
    undecoded_delta_of_text,
)
from watcher_sync.storage.epochs import new_mark
from watcher_sync.storage.schema.tables import Tables

FORGETS_LAST_SEEN: Final = "manage.entity.reset"
"""The event type of a row that also resets the time when the entity was last seen, which the journal does not have."""
FORGETS_TOMBSTONE: Final = "manage.source.forget"
"""The event type of a deletion that leaves no tombstone: the entity appears again if its source comes back."""
MAX_READ_BYTES: Final = 16_777_216
"""Bytes of deltas that are read at once."""


class JournalRow(msgspec.Struct, frozen=True):
    """One applied change."""

    seq: int
    time: datetime.datetime
    kind: str
    entity_id: str
    change: str
    """created, updated or deleted."""
    delta: dict[str, tuple[Any, Any]]
    """field -> (old, new); empty where only versions moved."""
    versions: dict[str, str]
    """facet -> the version after the change; empty in a remark."""
    event_id: str
    event_type: str
    source: str
    merged: int
    """How many events of one batch this change sums up."""
    actor: dict[str, Any] | None = None
    """Who caused it (:class:`~watcher_sync.events.Actor`); of several merged events, the last one's. None: unknown."""
    project_id: str | None = None
    """The project of the entity after the change, or before its deletion. None: it has none, or the row is older
    than the column."""
    mark: int | None = None
    """The mark of the commit, if this is its last row."""

    @property
    def is_remark(self) -> bool:
        """Whether the row only records an event: it has no versions, and changes nothing of the entity."""
        return self.change == "updated" and not self.versions and not self.delta

    def size(self) -> int:
        """The bytes of its delta as JSON."""
        return len(msgspec.json.encode(self.delta))

    def document(self) -> dict[str, Any]:
        """As shown to users: the words of the design."""
        return {
            "seq": self.seq,
            "time": self.time,
            "kind": self.kind,
            "id": self.entity_id,
            "change": self.change,
            "delta": self.delta,
            "event_id": self.event_id,
            "event_type": self.event_type,
            "source": self.source,
            "merged": self.merged,
            "actor": self.actor,
            "project_id": self.project_id,
        }


class UndecodedRow(JournalRow, frozen=True):
    """A change whose values in ``delta`` are still JSON: a ``msgspec.Raw``, or None."""

    def decoded(self) -> JournalRow:
        """The change with decoded values."""
        members = {name: getattr(self, name) for name in JournalRow.__struct_fields__}
        delta = {name: (decoded(old), decoded(new)) for name, (old, new) in self.delta.items()}
        return JournalRow(**members | {"delta": delta})


class StoredRow(msgspec.Struct, eq=False):
    """One row as the driver gave it. A reader that needs few rows decodes only those."""

    seq: int
    kind: str
    entity_id: str
    size: int
    """The bytes of its delta as stored."""
    content: tuple[Any, ...] | JournalRow
    """The columns, until the row is decoded."""
    dialect: sa.Dialect

    def decoded(self) -> JournalRow:
        """The row; the same object for all readers. Any thread may call it."""
        content = self.content
        if isinstance(content, tuple):
            content = self.content = JournalRow(*self._decoded(content, _delta))
        elif isinstance(content, UndecodedRow):
            content = self.content = content.decoded()
        return content

    def undecoded(self) -> JournalRow:
        """The row with the values of its delta as JSON, for readers that send them on. Any thread may call it.

        Decoded, a value may take twenty times as many bytes.
        """
        content = self.content
        if isinstance(content, tuple):
            content = self.content = UndecodedRow(*self._decoded(content, _undecoded_delta))
        return content

    def _decoded(self, columns: tuple[Any, ...], delta: Callable[[Any, sa.Dialect], Any]) -> Iterator[Any]:
        for at, (decode, value) in enumerate(zip(_DECODERS, columns, strict=True)):
            chosen = delta if at == _DELTA else decode
            yield value if chosen is None or value is None else chosen(value, self.dialect)


_DELTA: Final = JournalRow.__struct_fields__.index("delta")
_document, _time = JsonDocument().process_result_value, UtcDateTime().process_result_value
_delta, _versions = DeltaDocument().process_result_value, VersionsDocument().process_result_value


def _undecoded_delta(text: str, _dialect: sa.Dialect) -> dict[str, tuple[Any, Any]]:
    return undecoded_delta_of_text(text)


_DECODERS: Final = tuple(
    {"time": _time, "versions": _versions, "actor": _document}.get(name) for name in JournalRow.__struct_fields__
)


def read_head(connection: sa.Connection, tables: Tables) -> int:
    """The seq of the last committed change."""
    return int(connection.execute(sa.select(tables.journal_head.c.seq)).scalar_one())


def lock_head(connection: sa.Connection, tables: Tables) -> None:
    """Lock the head until the connection's transaction ends: no other writer commits meanwhile.

    In PostgreSQL each version of a row has a queue of its own. Later writers would overtake one that waits for the
    row, and its time limit would begin again with each version. The table has one queue, also for an engine's swap.

    :raises DatabaseUnavailable: the journal has no head.
    """
    head: Any = tables.journal_head
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"LOCK TABLE {head.name} IN SHARE ROW EXCLUSIVE MODE")
    if connection.execute(sa.update(head).values(seq=head.c.seq)).rowcount != 1:
        raise DatabaseUnavailable("the journal has no head; run db_sync")


def add_remark(
    connection: sa.Connection,
    tables: Tables,
    entity: Entity,
    kind: str,
    *,
    event_type: str,
    event_id: str,
    source: str,
    now: datetime.datetime,
) -> None:
    """Record an event of an entity that changes nothing of it, not even its seq.

    The caller has locked the head in the connection's transaction (:func:`lock_head`).
    """
    head: Any = tables.journal_head
    mark = new_mark()
    connection.execute(sa.update(head).values(seq=head.c.seq + 1, mark=mark))
    connection.execute(
        sa.insert(tables.journal).values(
            seq=read_head(connection, tables),
            time=now,
            kind=kind,
            entity_id=entity.id,
            change="updated",
            delta={},
            versions={},
            event_id=event_id,
            event_type=event_type,
            source=source,
            merged=1,
            project_id=getattr(entity, PROJECT_FIELD, None),
            mark=mark,
        )
    )


def read_since(
    connection: sa.Connection, tables: Tables, seq: int, limit: int, max_bytes: int = MAX_READ_BYTES
) -> list[JournalRow]:
    """The rows after ``seq``, in order, at least one if there is one.

    :param limit: the maximum number of rows.
    :param max_bytes: bytes of deltas after which no further row is read.
    :raises JournalPurged: when rows after ``seq`` were purged, or the journal ends before it.
    """
    return [row.decoded() for row in read_stored(connection, tables, seq, limit, max_bytes)]


def read_stored(
    connection: sa.Connection, tables: Tables, seq: int, limit: int, max_bytes: int = MAX_READ_BYTES
) -> list[StoredRow]:
    """The rows of :func:`read_since`, not decoded."""
    rows = journal_page(connection, tables, [tables.journal.c.seq > seq], limit, max_bytes=max_bytes).rows
    head = seq if rows else read_head(connection, tables)
    if head < seq:
        raise JournalPurged(f"the journal ends at seq {head}, so seq {seq} is of another one")
    if head > seq:
        # Purged, or committed since the first query: every row up to the head is visible now.
        rows = journal_page(connection, tables, [tables.journal.c.seq > seq], limit, max_bytes=max_bytes).rows
        if not rows:
            raise JournalPurged(f"the journal begins after seq {seq + 1}")
    if rows and rows[0].seq != seq + 1:
        raise JournalPurged(f"the journal begins after seq {seq + 1}")
    return rows


def journal_page(
    connection: sa.Connection,
    tables: Tables,
    where: Iterable[sa.ColumnElement[bool]],
    limit: int,
    *,
    descending: bool = False,
    max_bytes: int = MAX_PAGE_BYTES,
) -> RowPage[StoredRow]:
    """The first or the last rows that match: at most ``limit`` of about ``max_bytes``, but at least one.

    :param descending: whether the last ones are read, backwards.
    """
    t = tables.journal
    raw: list[sa.ColumnElement[Any]] = [
        sa.type_coerce(t.c[name], sa.types.NULLTYPE).label(name) for name in JournalRow.__struct_fields__
    ]
    page = bounded_page(
        connection,
        sa.select(*raw).where(*where),
        [t.c.seq.desc() if descending else t.c.seq],
        limit,
        key=t.c.seq,
        documents={_DELTA: t.c.delta},
        max_bytes=max_bytes,
    )
    rows: list[StoredRow] = []
    for columns in page.rows:
        delta: str = columns[_DELTA]
        size = len(delta) if delta.isascii() else len(delta.encode())
        rows.append(StoredRow(columns[0], columns[2], columns[3], size, tuple(columns), connection.dialect))
    return RowPage(rows, page.more)


def first_since(connection: sa.Connection, tables: Tables, time: datetime.datetime) -> int:
    """The first seq that was committed at that time or later; where there is none, the one that comes next.

    Seq and time grow together, as far as the writers' clocks agree. So a binary search reads
    a few rows, and the times need no index.
    """
    t = tables.journal
    next_seq = read_head(connection, tables) + 1
    oldest = connection.execute(sa.select(sa.func.min(t.c.seq))).scalar()
    low, high = next_seq if oldest is None else int(oldest), next_seq
    while low < high:
        middle = (low + high) // 2
        found = connection.execute(sa.select(t.c.time).where(t.c.seq == middle)).scalar()
        if found is None or found < time:  # it is not there: purged meanwhile
            low = middle + 1
        else:
            high = middle
    return low


def is_of_kind(table: sa.Table, kind: str) -> sa.ColumnElement[bool]:
    """Whether a journal row is of a kind, for statements that choose rows by the ids of entities.

    The index by kind does not serve it. SQLite without statistics would take that one, and read all rows of the kind.
    """
    return sa.func.coalesce(table.c.kind, "") == kind


def versions_text(kind: Kind, versions: Sequence[str]) -> str:
    """The versions of an entity, as stored in rows."""
    return types.versions_text(zip(kind.facets, versions, strict=True))


def versions_of(kind: Kind, document: dict[str, str]) -> tuple[Any, ...]:
    """The versions of an entity from a row's facet -> version."""
    return tuple([document.get(facet, "") for facet in kind.facets])


def versions_reader(kind: Kind) -> Callable[[str], tuple[Any, ...]]:
    """What turns the stored text into the versions: :func:`versions_of` for many rows."""
    positions, none = kind.facet_position, kind.no_versions
    places = functools.lru_cache(maxsize=4096)(lambda names: [positions[n] for n in names.split() if n in positions])

    def read(text: str) -> tuple[Any, ...]:
        versions: list[str] = [*none]
        for version, names in types.facets_of_text(text).items():
            for place in places(names):
                versions[place] = version
        return tuple(versions)

    return read


def follow(model: Model, rows: Sequence[JournalRow], before: dict[Key, Entity | None] | None = None) -> list[Written]:
    """Move a replica forward by journal rows that another writer committed.

    :param rows: gapless, the first one directly after the model's generation.
    :param before: gets key -> the entity before, of all that is written.
    :returns: what was written.
    :raises JournalPurged: when the rows do not join the model's generation.
    """
    if not rows:
        return []
    if rows[0].seq != model.generation + 1:
        raise JournalPurged(f"the journal begins after seq {model.generation + 1}")
    return apply(model, rows, rows[-1].seq, before, rows[-1].mark)


def apply(
    model: Model,
    rows: Sequence[JournalRow],
    upto: int,
    before: dict[Key, Entity | None] | None = None,
    mark: int | None = None,
) -> list[Written]:
    """Move a replica to a seq by those rows after its generation that concern it; see :func:`follow`.

    :param mark: of the commit that ended at that seq; None: unknown.
    """
    latest: dict[tuple[str, str], Written] = {}
    for row in rows:
        kind = model.kinds.get(row.kind)
        if kind is None:  # a plugin's kind that this process does not know
            continue
        if row.event_type == FORGETS_LAST_SEEN:
            model.forget_last_seen(row.kind, row.entity_id)
        key = (row.kind, row.entity_id)
        known = latest.get(key)
        old = known.entity if known is not None else model.get(*key)
        is_absent = old is None and row.change == "updated" and not row.delta
        if row.is_remark and not is_absent:
            continue
        versions = versions_of(kind, row.versions)
        if is_absent or row.change == "deleted":
            is_forgotten = row.event_type == FORGETS_TOMBSTONE
            tombstone = None if is_forgotten else Tombstone(row.entity_id, versions, row.time, row.seq)
            latest[key] = Written(row.kind, row.entity_id, None, tombstone)
            continue
        values = kind.from_json({field: new for field, (_, new) in row.delta.items()})
        if old is None:
            defaults = {n: v for n, v in values.items() if v is not None or kind.defaults[n] is None}
            entity = kind.cls(id=row.entity_id, seq=row.seq, versions=versions, **defaults)
        else:
            entity = msgspec.structs.replace(old, seq=row.seq, versions=versions, **values)
        latest[key] = Written(row.kind, row.entity_id, entity, None)
    written = list(latest.values())
    if before is not None:
        for key in latest:
            before.setdefault(key, model.get(*key))
    model.write(written, upto, mark)
    return written
