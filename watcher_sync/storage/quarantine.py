# SPDX-License-Identifier: Apache-2.0
"""Lists, shows, drops and returns quarantined events."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.events import Event
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.storage.conflicts import retried
from watcher_sync.storage.database import translated
from watcher_sync.storage.store import Store
from watcher_sync.storage.stored_events import event_of

_CHUNK_ROWS = 32
"""Events with their bodies that are read at once."""


class NoSuchEvent(WatcherSyncError):
    """No quarantined event has this id."""


class Quarantine:
    """Reads and prunes the table of quarantined events; rows are added by commits."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._table = store.tables.quarantine

    def count(self) -> int:
        """How many events are in quarantine."""
        with translated(), self._database.connect() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(self._table)).scalar_one())

    def page(self, *, after: int = 0, limit: int = 1000) -> list[dict[str, Any]]:
        """The events by id, without their bodies.

        :param after: the last id of the page before.
        """
        t = self._table
        columns = [c for c in t.columns if c.name not in ("digest", "decoded", "body", "detail")]
        query = sa.select(*columns).where(t.c.id > after).order_by(t.c.id).limit(limit)
        with translated(), self._database.connect() as connection:
            return [dict(row._mapping) for row in connection.execute(query)]

    def show(self, row_id: int) -> dict[str, Any]:
        """One event whole: a decoded body as JSON, any other as text or, where it is none, base64.

        :raises NoSuchEvent: when there is no such event.
        """
        row = self._rows([row_id])[0]
        document = {k: v for k, v in row._mapping.items() if k not in ("digest", "decoded", "body")}
        if row.decoded:
            document["data"] = msgspec.json.decode(row.body)
        else:
            try:
                document["text"] = row.body.decode()
            except UnicodeDecodeError:
                document["base64"] = base64.b64encode(row.body).decode()
        return document

    def events(self, row_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Event]]:
        """(id, event) of these, or of all, in the order in which they came.

        :raises NoSuchEvent: when one of the ids is not there.
        """
        t = self._table
        if row_ids is None:
            with translated(), self._database.connect() as connection:
                row_ids = list(connection.execute(sa.select(t.c.id).order_by(t.c.id)).scalars())
        for start in range(0, len(row_ids), _CHUNK_ROWS):
            for row in self._rows(row_ids[start : start + _CHUNK_ROWS]):
                yield row.id, event_of(row)

    @retried
    def drop(self, row_ids: Sequence[int]) -> None:
        """Delete these events for good.

        :raises NoSuchEvent: when one of the ids is not there; nothing is deleted then.
        """
        self._rows(row_ids)
        with translated(), self._database.begin() as connection:
            connection.execute(sa.delete(self._table).where(self._table.c.id.in_(row_ids)))

    def _rows(self, row_ids: Sequence[int]) -> list[sa.Row[Any]]:
        t = self._table
        with translated(), self._database.connect() as connection:
            rows = list(connection.execute(sa.select(t).where(t.c.id.in_(row_ids)).order_by(t.c.id)))
        missing = set(row_ids) - {row.id for row in rows}
        if missing:
            raise NoSuchEvent(f"no quarantined event has the id {min(missing)}")
        return rows
