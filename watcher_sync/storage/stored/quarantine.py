# SPDX-License-Identifier: Apache-2.0
"""Lists, shows, drops and returns quarantined events."""

from __future__ import annotations

import base64
import datetime
import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from watcher_sync.events import Event
from watcher_sync.exceptions import WatcherSyncError
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.stored.stored_events import event_of
from watcher_sync.storage.writing.store import Store

_CHUNK_ROWS = 32
"""Events with their bodies that are read at once."""
_CHUNK_IDS = 500

_MAX_REASONS = 10_000
"""Different reasons that are read to count the events by reason."""

ANY_NUMBER = "#"
"""Replaces each number in the reason of a group."""

_NUMBER = re.compile("[0-9]+")


class NoSuchEvent(WatcherSyncError):
    """No quarantined event has this id."""


class Reason(msgspec.Struct):
    """The events of one source with the same reason, apart from the numbers in it."""

    reason: str
    """With :data:`ANY_NUMBER` for each number, if the numbers differ."""
    source: str
    count: int
    newest_id: int
    last_received_at: datetime.datetime


class Quarantine:
    """Reads and prunes the table of quarantined events; rows are added by commits."""

    def __init__(self, store: Store) -> None:
        self._database = store.database
        self._table = store.tables.quarantine

    def count(self) -> int:
        """How many events are in quarantine."""
        with translated(), self._database.connect() as connection:
            return int(connection.execute(sa.select(sa.func.count()).select_from(self._table)).scalar_one())

    def reasons(self, *, limit: int) -> tuple[int, list[Reason]]:
        """The number of all events, and the reasons, the latest first.

        :param limit: the maximum number of reasons.
        """
        t = self._table
        newest = sa.func.max(t.c.id)
        query = (
            sa.select(t.c.reason, t.c.source, sa.func.count(), newest, sa.func.max(t.c.received_at))
            .group_by(t.c.reason, t.c.source)
            .order_by(newest.desc())
            .limit(_MAX_REASONS)
        )
        found: dict[tuple[str, str], Reason] = {}
        with translated(), self._database.connect() as connection:
            total = int(connection.execute(sa.select(sa.func.count()).select_from(t)).scalar_one())
            for reason, source, count, newest_id, received_at in connection.execute(query):
                text = _NUMBER.sub(ANY_NUMBER, reason)
                group = found.get((text, source))
                if group is None:
                    found[text, source] = Reason(reason, source, count, newest_id, received_at)
                else:
                    group.reason = text
                    group.count += count
        return total, list(found.values())[:limit]

    def page(
        self,
        *,
        after: int | None = None,
        limit: int = 1000,
        newest_first: bool = False,
        reason: str | None = None,
        source: str | None = None,
    ) -> list[dict[str, Any]]:
        """The events by id, without their bodies.

        :param after: the last id of the page before; None: from the beginning of the list.
        :param reason: only events with this reason, in which :data:`ANY_NUMBER` matches any text; None: with any.
        :param source: only events of this source; None: of any.
        """
        t = self._table
        columns = [c for c in t.columns if c.name not in ("digest", "decoded", "body", "detail")]
        query = sa.select(*columns).order_by(t.c.id.desc() if newest_first else t.c.id).limit(limit)
        if after is not None:
            query = query.where(t.c.id < after if newest_first else t.c.id > after)
        if reason is not None:
            pattern = "%".join(_escaped(part) for part in reason.split(ANY_NUMBER))
            query = query.where(t.c.reason.like(pattern, escape="\\"))
        if source is not None:
            query = query.where(t.c.source == source)
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

    def reasons_of(self, row_ids: Sequence[int]) -> dict[int, str]:
        """Id -> reason, of those of these events that are in quarantine."""
        c = self._table.c
        found: dict[int, str] = {}
        with translated(), self._database.connect() as connection:
            for start in range(0, len(row_ids), _CHUNK_IDS):
                query = sa.select(c.id, c.reason).where(c.id.in_(row_ids[start : start + _CHUNK_IDS])).order_by(c.id)
                found.update({row.id: row.reason for row in connection.execute(query)})
        return found

    def ids(self) -> list[int]:
        """The ids of all events, in the order in which they came."""
        c = self._table.c
        with translated(), self._database.connect() as connection:
            return list(connection.execute(sa.select(c.id).order_by(c.id)).scalars())

    def events(self, row_ids: Sequence[int] | None = None) -> Iterator[tuple[int, Event]]:
        """(id, event) of these, or of all, in the order in which they came.

        :raises NoSuchEvent: when one of the ids is not there.
        """
        if row_ids is None:
            row_ids = self.ids()
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


def _escaped(text: str) -> str:
    """The text as a pattern of LIKE that it alone matches."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
