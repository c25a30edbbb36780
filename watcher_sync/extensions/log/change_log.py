# SPDX-License-Identifier: Apache-2.0
"""Turns the journal into the changes that outlets publish, once for all outlets of a process.

A journal row has the changed fields only, and a published change the whole entity before and after it. So a
:class:`ChangeLog` has all entities, and moves them along the journal row by row. The last changes stay in
memory. An outlet that is further behind gets a log of its own, which begins at its position, until it is near the end
again (:class:`ChangeLogs`).
"""

from __future__ import annotations

import collections
import datetime
import itertools
import threading
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

import msgspec
from oslo_log import log as logging

from watcher_sync.exceptions import HistoryChanged, JournalPurged
from watcher_sync.extensions.log import base
from watcher_sync.extensions.log.base import LogChange, LogPosition, LogRefused
from watcher_sync.model.kinds import Entity, Kind, Kinds, project_of
from watcher_sync.model.model import Model
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.read.past.past_replicas import UNKNOWN_SEQ, load_at
from watcher_sync.storage.database.database import translated
from watcher_sync.storage.epochs import Position, continues, had_epoch, read_position
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.storage.writing.store import Store

LOG = logging.getLogger(__name__)

MAX_ROWS: Final = 5_000
"""Rows in memory."""
_MAX_BYTES: Final = 33_554_432
"""The deltas of these rows, in bytes as stored. The last row stays, whatever its size."""
_ROWS_AT_ONCE: Final = 1_000


class LoggedRow(msgspec.Struct, frozen=True):
    """One journal row."""

    seq: int
    change: LogChange | None
    """None: it changed no field, or its kind is unknown to this process. The partition is empty."""
    ends_commit: bool
    size: int
    """The bytes of its delta as stored."""


Entities = Mapping[str, Collection[Entity]]
"""Kind -> its entities."""


class ChangeLog:
    """A part of the journal, as changes. Any thread may use it.

    It has the entities alone: neither an index nor a version is needed to say what an entity was.
    """

    def __init__(self, reader: JournalReader, model: Model) -> None:
        """:param model: where the log begins."""
        self._reader = reader
        self._kinds = model.kinds
        self.epoch = model.epoch or ""
        # Guards everything below. Held while rows are read, so that one thread does it.
        self._lock = threading.Lock()
        view = model.snapshot()
        self._entities = {name: {entity.id: entity for entity in view.all(name)} for name in model.kinds}
        self._seq = model.generation
        """The journal was read up to here."""
        self._known = Position(self.epoch, model.generation, model.mark)
        """The last commit whose end is known."""
        self._rows: collections.deque[LoggedRow] = collections.deque()
        self._bytes = 0

    def covers(self, epoch: str, after: int) -> bool:
        """Whether the row after a seq is in memory, or has not been read yet."""
        with self._lock:
            return epoch == self.epoch and self._begin() <= after <= self._seq

    def is_before(self, position: LogPosition) -> bool:
        """Whether it is of another epoch, or ends before a position."""
        with self._lock:
            return position.epoch != self.epoch or self._seq < position.seq

    def read(self, after: int, limit: int) -> list[LoggedRow]:
        """The rows after a seq, without a gap. It does not wait.

        It returns ``limit`` rows, and those that belong to the last one's commit, up to 1,000 more.

        :raises JournalPurged: the log, or the journal, no longer has the row after the seq.
        :raises HistoryChanged: the database went back in time.
        :raises DatabaseUnavailable: the database does not answer.
        """
        with self._lock:
            if not self._begin() <= after <= self._seq:
                raise JournalPurged(f"the changes in memory begin after seq {after + 1}")
            found: list[LoggedRow] = []
            while len(found) < limit or (not found[-1].ends_commit and len(found) < limit + _ROWS_AT_ONCE):
                rows = self._cached(after + len(found), max(1, limit - len(found)))
                if not rows:
                    break
                found += rows
            return found

    def snapshot(self) -> tuple[Entities, LogPosition]:
        """The entities at the end of the journal, and its position, with the time if the journal has it.

        :raises: as :meth:`read`.
        """
        with self._lock:
            while self._read_new():
                pass
            position = LogPosition(self.epoch, self._seq, self._time())
            return {name: list(each.values()) for name, each in self._entities.items()}, position

    def _time(self) -> datetime.datetime | None:
        """When the last change was committed; None: there is none, or the journal has purged it."""
        try:
            last = self._reader.read_continued(self._known, self._seq - 1, 1)
        except JournalPurged:
            return None
        return last[0].decoded().time

    def _begin(self) -> int:
        """The seq before the first row in memory."""
        return self._rows[0].seq - 1 if self._rows else self._seq

    def _cached(self, after: int, limit: int) -> list[LoggedRow]:
        if after == self._seq:
            self._read_new()
        begin = after - self._begin()
        if begin < 0:  # so many rows were new that the first ones are no longer in memory
            raise JournalPurged(f"the changes in memory begin after seq {after + 1}")
        return list(itertools.islice(self._rows, begin, begin + limit))

    def _read_new(self) -> bool:
        """Read some rows that the log does not have. Return whether there were any."""
        stored = self._reader.read_continued(self._known, self._seq, _ROWS_AT_ONCE)
        for row in stored:
            self._follow(row.decoded(), row.size)
        while len(self._rows) > MAX_ROWS or (self._bytes > _MAX_BYTES and len(self._rows) > 1):
            self._bytes -= self._rows.popleft().size
        return bool(stored)

    def _follow(self, row: JournalRow, size: int) -> None:
        """Move by one row, as :func:`~watcher_sync.storage.writing.journal.apply` moves a replica.

        Nothing has moved if it raises, so the next read begins with the same row.
        """
        kind, change = self._kinds.get(row.kind), None
        if kind is not None and not row.is_remark:
            entities = self._entities[row.kind]
            old = entities.get(row.entity_id)
            new = None if row.change == base.DELETED else _written(kind, old, row)
            if row.delta or row.change != base.UPDATED:
                change = _changed(self.epoch, kind, row, old, new)
            if new is not None:
                entities[row.entity_id] = new
            else:
                entities.pop(row.entity_id, None)
        self._rows.append(LoggedRow(row.seq, change, row.mark is not None, size))
        self._bytes += size
        self._seq = row.seq
        if row.mark is not None:
            self._known = Position(self.epoch, row.seq, row.mark)


class ChangeLogs:
    """The logs of one process: one at the end of the journal for all outlets. Any thread may use it."""

    def __init__(self, store: Store, reader: JournalReader) -> None:
        self._store = store
        self._reader = reader
        # Guards the shared log. Held while the model is loaded, so that one thread does it.
        self._lock = threading.Lock()
        self._shared: ChangeLog | None = None

    def at(self, position: LogPosition) -> ChangeLog:
        """A log that has the rows after a position: the shared one if possible.

        :raises JournalPurged: the journal no longer has all of them.
        :raises HistoryChanged: the database is of another epoch, or ends before the position.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        with self._lock:
            if (shared := self.shared_at(position)) is not None:
                return shared
            log = ChangeLog(self._reader, self._load(position))
            if self._shared is None or self._shared.is_before(position):
                self._shared = log
            return log

    def shared_at(self, position: LogPosition) -> ChangeLog | None:
        """The shared log, if it has the rows after a position in memory."""
        shared = self._shared
        return shared if shared is not None and shared.covers(position.epoch, position.seq) else None

    def snapshot(self) -> tuple[ChangeLog, Entities, LogPosition]:
        """What :meth:`ChangeLog.snapshot` returns, after the log of what follows.

        :raises StorageError: the database is unavailable, or changes its history.
        """
        with self._lock:
            if self._shared is not None:
                try:
                    return self._shared, *self._shared.snapshot()
                except HistoryChanged as exc:
                    self._store.renew_epoch(exc.before)
                except JournalPurged as exc:
                    LOG.debug("the model is loaded again: %s", exc)
            self._shared = ChangeLog(self._reader, self._store.load())
            return self._shared, *self._shared.snapshot()

    def _load(self, position: LogPosition) -> Model:
        wanted = Position(position.epoch, position.seq, mark=None)
        with self._store.connect_stable() as connection:
            return load_at(connection, self._store.tables, self._store.kinds, wanted)

    def had_epoch(self, epoch: str) -> bool:
        """Whether it is the epoch of the database, or was.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        with translated(), self._store.database.connect() as connection:
            is_present = read_position(connection, self._store.tables).epoch == epoch
            return is_present or had_epoch(connection, self._store.tables, epoch, own=True)

    def require_continued(self, position: LogPosition) -> str:
        """Compare the end of a log with the journal, unless it is of a former epoch.

        :returns: the epoch of the database.
        :raises HistoryChanged: the database does not have the change, or has another one with its seq.
        :raises LogRefused: the database never had the epoch.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        tables, known = self._store.tables, Position(position.epoch, position.seq, mark=None, time=position.time)
        with translated(), self._store.database.connect() as connection:
            head = read_position(connection, tables)
            if head.epoch == known.epoch:
                if not continues(connection, tables, head, known):
                    raise HistoryChanged(known, head)
            elif not had_epoch(connection, tables, known.epoch, own=True):
                raise LogRefused(
                    f"the log ends at {known}, which this database never had: another installation publishes there, "
                    "or the database was restored from before that epoch. To publish there nevertheless: "
                    f"watcher-sync-manage epoch renew --after {known.epoch}"
                )
            return head.epoch


def snapshot_of(
    kinds: Kinds, entities: Entities, position: LogPosition, time: datetime.datetime
) -> Iterator[LogChange]:
    """Entities as the changes of a snapshot, without a partition.

    :param time: of the last change that they contain.
    """
    for name, some in entities.items():
        for entity in some:
            yield LogChange(
                partition="",
                epoch=position.epoch,
                seq=position.seq,
                change=base.SNAPSHOT,
                kind=name,
                id=entity.id,
                time=time,
                previous_seq=_seq_of(entity),
                after=_document(kinds[name], entity),
                project_id=project_of(entity),
            )


def _written(kind: Kind, old: Entity | None, row: JournalRow) -> Entity | None:
    """The entity after a row that is no deletion; None: only the versions of a deleted one moved."""
    values = kind.from_json({field: new for field, (_, new) in row.delta.items()})
    if old is not None:
        return msgspec.structs.replace(old, seq=row.seq, **values)
    if row.change == base.UPDATED and not row.delta:
        return None
    known = {name: value for name, value in values.items() if value is not None or kind.defaults[name] is None}
    return kind.cls(id=row.entity_id, seq=row.seq, versions=kind.no_versions, **known)


def _changed(epoch: str, kind: Kind, row: JournalRow, old: Entity | None, new: Entity | None) -> LogChange:
    after = _document(kind, new)
    if old is None or after is None:
        before = _document(kind, old)
    else:
        before = after | {field: value for field, (value, _) in row.delta.items() if field in after}
    return LogChange(
        partition="",
        epoch=epoch,
        seq=row.seq,
        change=row.change,
        kind=row.kind,
        id=row.entity_id,
        time=row.time,
        previous_seq=_seq_of(old),
        delta=row.delta,
        before=before,
        after=after,
        versions=row.versions,
        event_id=row.event_id,
        event_type=row.event_type,
        source=row.source,
        merged=row.merged,
        actor=row.actor,
        project_id=row.project_id,
    )


def _seq_of(entity: Entity | None) -> int | None:
    return None if entity is None or entity.seq == UNKNOWN_SEQ else entity.seq


def _document(kind: Kind, entity: Entity | None) -> dict[str, Any] | None:
    """The public fields as in JSON: times are texts. Objects and lists are those of the entity, and no copies."""
    if entity is None:
        return None
    return {
        name: msgspec.to_builtins(value) if isinstance(value, datetime.datetime) else value
        for name, value in kind.to_json(entity).items()
    }
