# SPDX-License-Identifier: Apache-2.0
"""A replica of the model at a seq of the past, which then moves along the journal.

The entities are loaded as they are now, and the later rows of the journal are taken back. Versions are those of now: a
reader takes them from the rows that it reads next. Deleted entities are not remembered.
"""

from __future__ import annotations

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import HistoryChanged, JournalPurged
from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.model.model import Model, Written
from watcher_sync.read.past.undoing import filled, last_writes, read_before
from watcher_sync.read.reading import oldest_seq
from watcher_sync.storage.epochs import Position
from watcher_sync.storage.loading import load_rows
from watcher_sync.storage.schema.tables import Tables

UNKNOWN_SEQ = 0
"""The seq of an entity whose last change the journal no longer has."""


def load_at(connection: sa.Connection, tables: Tables, kinds: Kinds, wanted: Position) -> Model:
    """The model after the change with a seq.

    :param connection: with a stable view of the database; its transaction begins here.
    :raises HistoryChanged: the database is of another epoch, or ends before the position.
    :raises JournalPurged: the journal no longer has all rows after the position.
    """
    model = load_rows(connection, tables, kinds)
    head = Position(model.epoch or "", model.generation, model.mark)
    if head.epoch != wanted.epoch or head.seq < wanted.seq:
        raise HistoryChanged(wanted, head)
    if head.seq == wanted.seq:
        return model
    if (oldest := oldest_seq(connection, tables)) is None or oldest > wanted.seq + 1:
        raise JournalPurged(f"the journal begins after seq {wanted.seq + 1}")
    for name in kinds:
        _take_back(connection, tables, kinds[name], model, wanted.seq)
    model.write([], wanted.seq)
    return model


def _take_back(connection: sa.Connection, tables: Tables, kind: Kind, model: Model, seq: int) -> None:
    """Undo the changes of one kind after a seq."""
    moved: set[str] = set()
    before = read_before(connection, tables, kind, seq, moved=moved)
    existed = {entity_id for entity_id, then in before.items() if then is not None} | (moved - before.keys())
    seqs = last_writes(connection, tables, kind.name, existed, seq)
    written = [Written(kind.name, entity_id, None, None) for entity_id in before.keys() - existed]
    for entity_id in existed:
        then, present = before.get(entity_id), model.get(kind.name, entity_id)
        last = seqs.get(entity_id, UNKNOWN_SEQ)
        if then is not None and then.is_whole:
            values = filled(kind, kind.from_json(then.values))
            entity = kind.cls(id=entity_id, seq=last, versions=kind.no_versions, **values)
        elif present is not None:
            changed = {} if then is None else kind.from_json(then.values)
            entity = msgspec.structs.replace(present, seq=last, **changed)
        else:  # only the versions of a deleted entity moved
            continue
        written.append(Written(kind.name, entity_id, entity, None))
    model.write(written, model.generation)
