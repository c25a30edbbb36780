# SPDX-License-Identifier: Apache-2.0
"""Moments of the past whose model the journal can still show: a seq, or a time.

The model at a seq is known if the journal has every row after it. The model at a time is that of the last change at or
before it. The journal shows which change that is only from the time of its oldest row on. Retention leaves one row that
is older than its age (:mod:`watcher_sync.storage.stored.retention`), so each time within the age is known.
"""

from __future__ import annotations

import datetime
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.exceptions import StorageError
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.epochs import Position
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import first_since

_STEP: Final = datetime.timedelta(microseconds=1)
"""The resolution of times in the journal."""


class PastMoment(msgspec.Struct, frozen=True):
    """A state of the model: the one after the change with this seq."""

    seq: int
    time: datetime.datetime | None
    """When this change was committed; None: the journal no longer has it, or there is none (seq 0)."""


class MomentPurged(StorageError):
    """The journal no longer has the changes after the moment.

    :ivar seq: the oldest seq whose model is known.
    :ivar time: the oldest time whose model is known; None: none is.
    """

    def __init__(self, seq: int, time: datetime.datetime | None) -> None:
        since = f" and to {time.isoformat()}" if time is not None else ""
        super().__init__(f"the journal reaches back to seq {seq}{since} only")
        self.seq = seq
        self.time = time


class MomentAhead(StorageError):
    """The moment is in the future."""


def moment_of(connection: sa.Connection, tables: Tables, head: Position, wanted: int | datetime.datetime) -> PastMoment:
    """The state of the model after a seq, or at a time.

    :param connection: with one consistent state of the database.
    :param head: the position that was read over the connection.
    :param wanted: a seq, or an aware time.
    :raises MomentPurged: the journal does not reach back that far.
    :raises MomentAhead: the seq was not given yet, or the time is in the future.
    """
    journal = tables.journal.c
    oldest = connection.execute(sa.select(journal.seq, journal.time).order_by(journal.seq).limit(1)).one_or_none()
    first = head.seq if oldest is None else int(oldest.seq) - 1
    if isinstance(wanted, int):
        if wanted > head.seq:
            raise MomentAhead(f"the last change has the seq {head.seq}")
        seq = wanted
        is_known = seq >= first
    else:
        _require_past(connection, tables, head, wanted)
        is_known = first == 0 or (oldest is not None and wanted >= oldest.time)
        seq = first_since(connection, tables, wanted + _STEP) - 1 if is_known else 0
    if not is_known:
        raise MomentPurged(first, None if oldest is None else oldest.time)
    return PastMoment(seq, connection.execute(sa.select(journal.time).where(journal.seq == seq)).scalar())


def _require_past(connection: sa.Connection, tables: Tables, head: Position, wanted: datetime.datetime) -> None:
    """:raises MomentAhead: the time is after the database's clock, and after the last change."""
    now = connection.execute(sa.select(database_now(connection.dialect))).scalar_one()
    if wanted > now:
        last = connection.execute(sa.select(tables.journal.c.time).where(tables.journal.c.seq == head.seq)).scalar()
        if last is None or wanted > last:
            raise MomentAhead(f"it is {now.isoformat(timespec='seconds')} now")
