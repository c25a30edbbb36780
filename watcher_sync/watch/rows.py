# SPDX-License-Identifier: Apache-2.0
"""Reads the journal rows that may be events of a watch topic, in either direction.

The database drops what costs nothing to drop there: rows of other kinds, changes and projects, and rows that only
raised a version. The filters of the topic decide about the rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import msgspec
import sqlalchemy as sa

from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import JournalRow, journal_page

_NO_DELTA: Final = "{}"


class Candidates(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows may be events."""

    kinds: Collection[str]
    changes: Collection[str]
    """Of created, updated and deleted."""
    project_id: str | None = None
    """Only rows of entities of this project; None: all."""
    descending: bool = False

    def read(self, connection: sa.Connection, tables: Tables, position: int | None, limit: int) -> list[JournalRow]:
        """The next rows: at most ``limit`` of about 8 MiB, at least one if there is one.

        :param position: the rows are after it, or before it if descending; None: from the journal's first or last row.
        """
        t = tables.journal
        has_delta = sa.or_(t.c.change != "updated", sa.type_coerce(t.c.delta, sa.Text()) != _NO_DELTA)
        where = [t.c.kind.in_(self.kinds), t.c.change.in_(self.changes), has_delta]
        if self.project_id is not None:
            where.append(t.c.project_id == self.project_id)
        if position is not None:
            where.append(t.c.seq < position if self.descending else t.c.seq > position)
        return [
            row.decoded() for row in journal_page(connection, tables, where, limit, descending=self.descending).rows
        ]
