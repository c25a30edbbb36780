# SPDX-License-Identifier: Apache-2.0
"""Recognises a database that went back in time, or that is another one.

The journal's head has the *epoch* of the installation, and a random *mark* that each commit of changes replaces. The
last journal row of a commit has its mark, too. A process remembers the position of the last commit that it knows. The
database continues its history if the epoch is the same and the row at its seq has its mark.

The first process that notices another history renews the epoch, and stores the former ones. Readers of a former epoch
then learn that their position is not valid. If no process ran, only a log notices it.
"""

from __future__ import annotations

import datetime
import secrets
import uuid
from collections.abc import Set

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.model.model import Model
from watcher_sync.storage.schema.tables import Tables

LOG = logging.getLogger(__name__)

_MARK_BITS = 62


class Position(msgspec.Struct, frozen=True):
    """A point in the history of an installation."""

    epoch: str
    """Of the installation; empty: none was set."""
    seq: int
    mark: int | None
    """Of the commit that ended at this seq; None: unknown."""
    time: datetime.datetime | None = None
    """When the change with this seq was committed, for a position without a mark; None: unknown."""

    def __str__(self) -> str:
        return f"seq {self.seq} of epoch {self.epoch or 'none'}"


def new_epoch() -> str:
    """A random epoch."""
    return uuid.uuid4().hex


def new_mark() -> int:
    """A random mark. The system makes it, so that forked processes make different ones."""
    return secrets.randbits(_MARK_BITS)


def position_of(model: Model) -> Position | None:
    """The position that a replica is at; None: it was not loaded from a database."""
    return Position(model.epoch, model.generation, model.mark) if model.epoch is not None else None


def read_position(connection: sa.Connection, tables: Tables) -> Position:
    """The position of the last commit.

    :raises DatabaseUnavailable: the journal has no head.
    """
    head = tables.journal_head.c
    row = connection.execute(sa.select(head.epoch, head.seq, head.mark)).one_or_none()
    if row is None:
        raise DatabaseUnavailable("the journal has no head; run db_sync")
    return Position(row.epoch, int(row.seq), row.mark)


def begin_epoch(connection: sa.Connection, tables: Tables) -> None:
    """Give a database its first epoch, unless it has one; the caller commits.

    The journal loses rows beyond its head.
    """
    head = tables.journal_head
    connection.execute(sa.update(head).values(seq=head.c.seq))
    _remove_beyond_head(connection, tables)
    connection.execute(sa.update(head).where(head.c.epoch == "").values(epoch=new_epoch(), mark=new_mark()))


def continues(connection: sa.Connection, tables: Tables, head: Position, known: Position) -> bool:
    """Whether the database has the history that led to a known position.

    A position whose row was purged counts as known, if the epoch is the same.

    :param head: what :func:`read_position` returned for the connection before.
    """
    if head.epoch != known.epoch or head.seq < known.seq:
        return False
    journal = tables.journal.c
    if known.mark is None:
        if known.time is None:
            return True
        time = connection.execute(sa.select(journal.time).where(journal.seq == known.seq)).scalar()
        return time is None or time == known.time
    if head.seq == known.seq:
        return head.mark == known.mark
    mark = connection.execute(sa.select(journal.mark).where(journal.seq == known.seq)).scalar()
    return mark is None or mark == known.mark


def renew_epoch(connection: sa.Connection, tables: Tables, known: Position) -> bool:
    """Replace the epoch of another history, unless another process did so; the caller commits.

    It compares again with the head locked: a node of a cluster may be behind another one for a moment.

    :param known: the position that the database does not have.
    :returns: whether the database has another history. If not, it was behind.
    """
    position = _locked_position(connection, tables)
    if continues(connection, tables, position, known):
        return False
    # A process that renewed the epoch has stored the known one. Else a backup brought back what was before that one.
    if position.epoch == known.epoch or not had_epoch(connection, tables, known.epoch, own=False):
        _replace_epoch(connection, tables, {position.epoch, known.epoch})
    _remove_beyond_head(connection, tables)
    return True


def had_epoch(connection: sa.Connection, tables: Tables, epoch: str, *, own: bool) -> bool:
    """Whether an epoch is a former one of the database.

    :param own: False: or of the original that the database is a copy of.
    """
    former = tables.former_epochs.c
    is_own = connection.execute(sa.select(former.is_own).where(former.epoch == epoch)).scalar()
    return is_own is not None and (is_own or not own)


def begin_epoch_by_hand(connection: sa.Connection, tables: Tables, after: str) -> str:
    """Give a database another epoch, and return it; the caller commits.

    :param after: becomes a former epoch, as the present one does: the database continues logs that end in it. Empty:
        the database is a copy of another one, and continues no log.
    """
    former = tables.former_epochs
    position = _locked_position(connection, tables)
    changed = sa.update(former).values(is_own=bool(after))
    connection.execute(changed.where(former.c.epoch == after) if after else changed)
    return _replace_epoch(connection, tables, {position.epoch, after}, own=bool(after))


def _locked_position(connection: sa.Connection, tables: Tables) -> Position:
    head = tables.journal_head
    connection.execute(sa.update(head).values(seq=head.c.seq))
    return read_position(connection, tables)


def _replace_epoch(connection: sa.Connection, tables: Tables, former: Set[str], *, own: bool = True) -> str:
    """Replace the epoch of the head, which is locked, and store former ones."""
    missing = [
        {"epoch": epoch, "is_own": own}
        for epoch in sorted(former)
        if epoch and not had_epoch(connection, tables, epoch, own=False)
    ]
    if missing:
        connection.execute(sa.insert(tables.former_epochs), missing)
    epoch = new_epoch()
    connection.execute(sa.update(tables.journal_head).values(epoch=epoch))
    return epoch


def _remove_beyond_head(connection: sa.Connection, tables: Tables) -> None:
    """Delete journal rows beyond the head, which is locked.

    A commit writes both. If a dump is loaded under running processes, one can commit between the two tables. Its row
    would refuse a later commit of the same seq.
    """
    journal, head = tables.journal, tables.journal_head
    # A locking read: on MariaDB, another one returns the head that the transaction saw first, before a later commit.
    last = connection.execute(sa.select(head.c.seq).with_for_update()).scalar_one_or_none()
    if last is None:
        return
    removed = connection.execute(sa.delete(journal).where(journal.c.seq > last)).rowcount
    if removed:
        LOG.warning(
            "The journal had %d rows beyond its head %d, as after a restoration in parts: removed", removed, last
        )
