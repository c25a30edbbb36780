# SPDX-License-Identifier: Apache-2.0
"""Quotas of stored events: how many, and how many bytes, one source may have in quarantine and parked.

A background thread deletes the oldest events of a source at nine tenths of its quota (:meth:`QuotaKeeper.relieve`).
A commit that would exceed the quota deletes them in its own transaction. That takes 0.4 seconds at 50,000 events, so it
is for processes without the thread, and for floods that outrun it.

The usage is estimated in memory. It is counted in the database at most every 15 seconds, and before events are deleted.

Guaranteed: no source exceeds its quota by more than one commit of each process. Each deleted event is counted and
logged. For any thread.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Final

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.storage.database.database import translated

LOG = logging.getLogger(__name__)

_COUNT_INTERVAL_SECONDS: Final = 15.0
_LOG_INTERVAL_SECONDS: Final = 60.0
_MAX_COUNTED_ENTITIES: Final = 10_000
_MAX_DELETED_ROWS: Final = 20_000
"""Rows that one commit deletes."""
_FREED_SHARE: Final = 10
"""Making room frees a tenth of the quota. Relief begins when no more than this share is left."""
_DROPPED_ROWS: Final = 500
"""Rows that one transaction outside of commits deletes."""
_RECOUNT_SECONDS: Final = _COUNT_INTERVAL_SECONDS * 2 / 3
"""The age at which the relief counts again, so that no commit has to."""

Connect = Callable[[], AbstractContextManager[sa.Connection]]


class StoredUsage(msgspec.Struct, frozen=True):
    """A number of stored events and their bytes. As a limit, 0 means none."""

    events: int = 0
    bytes: int = 0

    def exceeds(self, limit: StoredUsage) -> bool:
        """Whether one of the two is above its limit."""
        return bool(limit.events and self.events > limit.events) or bool(limit.bytes and self.bytes > limit.bytes)


class EventQuotas(msgspec.Struct, frozen=True):
    """The limits of stored events; 0: none. ``[retention]`` itself serves, too: a reload of its values then counts."""

    quarantine_events: int = 200_000
    quarantine_bytes: int = 2**31
    quarantine_events_per_source: int = 50_000
    quarantine_bytes_per_source: int = 2**29
    parked_events_per_source: int = 20_000
    parked_bytes_per_source: int = 2**26
    parked_events_per_entity: int = 10_000


def quota_of(quotas: EventQuotas, table: sa.Table) -> StoredUsage:
    """The quota of a source in the quarantine or in the table of the parked events."""
    if table.name == "quarantine":
        return StoredUsage(quotas.quarantine_events_per_source, quotas.quarantine_bytes_per_source)
    return StoredUsage(quotas.parked_events_per_source, quotas.parked_bytes_per_source)


class Superseded(msgspec.Struct, frozen=True):
    """The oldest rows of a source or of an entity, which are to be deleted."""

    values: tuple[str, ...]
    """The source; or the kind and the id of the entity."""
    last_id: int
    sources: Mapping[str, int]
    """Source -> how many of the rows are its events."""


class DroppedEvents:
    """Counts and logs the events that were deleted because of a quota."""

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.counts: collections.Counter[tuple[str, str]] = collections.Counter()
        """(table, source) -> events since the start."""
        self._monotonic = monotonic
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, table: str, sources: Mapping[str, int]) -> None:
        """Count so many events of each source, and log it at most once a minute for each."""
        for source, number in sources.items():
            if not number:
                continue
            key = (table, source)
            self.counts[key] += number
            at, known = self._logged.get(key, (-_LOG_INTERVAL_SECONDS, 0))
            if self._monotonic() - at >= _LOG_INTERVAL_SECONDS:
                total = self.counts[key]
                self._logged[key] = (self._monotonic(), total)
                LOG.warning("source %s: %d of its oldest %s events exceeded a quota and were dropped",
                            source, total - known, "quarantined" if table == "quarantine" else table)  # fmt: skip


class QuotaKeeper:
    """Keeps the sources within their quota in one table.

    :param quotas: read at every commit that adds events.
    """

    def __init__(
        self, table: sa.Table, quotas: EventQuotas, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._table = table
        self._quotas = quotas
        self._monotonic = monotonic
        # Guards the estimates.
        self._lock = threading.Lock()
        self._usage: dict[str, tuple[StoredUsage, float]] = {}
        """Source -> its usage, and when it was counted."""
        self._added: dict[str, StoredUsage] = {}
        """Source -> what the commits of this process have added."""

    def make_room(self, added: Mapping[str, StoredUsage], connect: Connect) -> list[Superseded]:
        """The rows to delete so that these events of each source fit."""
        limit = quota_of(self._quotas, self._table)
        doomed: list[Superseded] = []
        with self._lock:
            for source, more in added.items():
                usage = self._current(source, connect, _COUNT_INTERVAL_SECONDS)
                if _sum(usage, more).exceeds(limit):
                    usage = self._current(source, connect, 0.0)
                    if _sum(usage, more).exceeds(limit):
                        with connect() as connection:
                            rows = oldest(connection, self._table, source, _excess(_sum(usage, more), limit))
                        if rows:
                            doomed.append(Superseded((source,), rows[-1][0], {source: len(rows)}))
                        usage = StoredUsage(usage.events - len(rows), usage.bytes - sum(size for _, size in rows))
                self._usage[source] = _sum(usage, more), self._usage[source][1]
                self._added[source] = _sum(self._added.get(source, StoredUsage()), more)
        return doomed

    def relieve(self, database: sa.Engine, dropped: DroppedEvents) -> None:
        """Delete the oldest events of sources close to their quota, in small transactions. For one thread.

        Commits go on meanwhile. They neither wait nor count, if this is called once a second.

        :raises DatabaseUnavailable: the database is unavailable; committed deletions remain.
        """
        limit = quota_of(self._quotas, self._table)
        with self._lock:
            now = self._monotonic()
            due = [
                source
                for source, (usage, counted_at) in self._usage.items()
                if _is_close(usage, limit) or (source in self._added and now - counted_at >= _RECOUNT_SECONDS)
            ]
        with translated():
            for source in due:
                usage = self._recount(database, source)
                if _is_close(usage, limit):
                    self._drop_oldest(database, source, _excess(usage, _reduced(limit)), dropped)

    def _recount(self, database: sa.Engine, source: str) -> StoredUsage:
        """Count a source in the database, without the lock."""
        with self._lock:
            before, self._added[source] = self._added.get(source, StoredUsage()), StoredUsage()
        with database.connect() as connection:
            counted = usage_of(connection, self._table, source).get(source, StoredUsage())
        with self._lock:
            # What was added meanwhile may be counted twice. A commit under way may be missed.
            more = self._added[source]
            usage = _sum(counted, more)
            self._usage[source] = usage, self._monotonic()
            if not before.events and not more.events:
                del self._added[source]  # an idle source is not counted again
        return usage

    def _drop_oldest(self, database: sa.Engine, source: str, excess: StoredUsage, dropped: DroppedEvents) -> None:
        for gone in drop_oldest(database, self._table, source, excess):
            with self._lock:
                usage, counted_at = self._usage[source]
                self._usage[source] = _difference(usage, gone), counted_at
            dropped.add(self._table.name, {source: gone.events})

    def _current(self, source: str, connect: Connect, max_age: float) -> StoredUsage:
        """The usage of a source, counted again if the last count is older than ``max_age`` seconds."""
        now = self._monotonic()
        usage, counted_at = self._usage.get(source, (StoredUsage(), float("-inf")))
        if now - counted_at >= max_age:
            with connect() as connection:
                usage = usage_of(connection, self._table, source).get(source, StoredUsage())
            self._usage[source] = usage, now
        return usage


class EntityQuota:
    """Limits the events that wait for one entity.

    :param quotas: read at every commit that parks events.
    """

    def __init__(self, table: sa.Table, quotas: EventQuotas) -> None:
        self._table = table
        self._quotas = quotas
        # Guards the counts: events that were parked for an entity since they were last trimmed.
        self._lock = threading.Lock()
        self._parked: collections.Counter[tuple[str, str]] = collections.Counter()

    def make_room(self, keys: Iterable[tuple[str, str]], connect: Connect) -> list[Superseded]:
        """The rows to delete because newer events wait for the same entity."""
        limit = self._quotas.parked_events_per_entity
        doomed: list[Superseded] = []
        if not limit:
            return doomed
        with self._lock:
            if len(self._parked) > _MAX_COUNTED_ENTITIES:
                self._parked.clear()  # the retention worker trims what is forgotten here
            for key, number in collections.Counter(keys).items():
                self._parked[key] += number
                if self._parked[key] >= max(1, limit // 10):
                    del self._parked[key]
                    with connect() as connection:
                        rows = superseded(connection, self._table, key, max(0, limit - number))
                    if rows:
                        doomed.append(Superseded(key, max(rows), collections.Counter(rows.values())))
        return doomed


def usage_of(connection: sa.Connection, table: sa.Table, source: str | None = None) -> dict[str, StoredUsage]:
    """Source -> what it has in the table, for all sources or for one. The index has all that is read."""
    c = table.c
    query = sa.select(c.source, sa.func.count(), sa.func.sum(c.size)).group_by(c.source)
    if source is not None:
        query = query.where(c.source == source)
    return {name: StoredUsage(int(count), int(size or 0)) for name, count, size in connection.execute(query)}


def oldest(connection: sa.Connection, table: sa.Table, source: str, excess: StoredUsage) -> Sequence[tuple[int, int]]:
    """(id, bytes) of the oldest rows of a source that make up this excess of events and bytes."""
    query = sa.select(table.c.id, table.c.size).where(table.c.source == source).order_by(table.c.id)
    rows: list[tuple[int, int]] = []
    total = 0
    for row_id, size in connection.execute(query.limit(_MAX_DELETED_ROWS)):
        if len(rows) >= excess.events and total >= excess.bytes:
            break
        rows.append((row_id, size))
        total += size
    return rows


def drop_oldest(database: sa.Engine, table: sa.Table, source: str, excess: StoredUsage) -> Iterator[StoredUsage]:
    """Delete the oldest events of a source, in transactions of 500 rows, and yield what each one deleted."""
    while excess.events > 0 or excess.bytes > 0:
        with database.begin() as connection:
            rows = oldest(connection, table, source, excess)[:_DROPPED_ROWS]
            if not rows:
                return
            connection.execute(sa.delete(table).where(table.c.source == source, table.c.id <= rows[-1][0]))
        gone = StoredUsage(len(rows), sum(size for _, size in rows))
        excess = _difference(excess, gone)
        yield gone


def superseded(connection: sa.Connection, table: sa.Table, key: tuple[str, str], keep: int) -> dict[int, str]:
    """Id -> source of the rows that wait for an entity, except the newest ``keep``."""
    c = table.c
    query = sa.select(c.id, c.source).where(c.kind == key[0], c.entity_id == key[1]).order_by(c.id.desc())
    rows = connection.execute(query.limit(_MAX_DELETED_ROWS).offset(keep))
    return {int(row.id): str(row.source) for row in rows}


def crowded(connection: sa.Connection, table: sa.Table, limit: int) -> list[tuple[str, str]]:
    """(kind, id) of the entities for which more events wait than the limit."""
    c = table.c
    query = sa.select(c.kind, c.entity_id).group_by(c.kind, c.entity_id).having(sa.func.count() > limit)
    return [(kind, entity_id) for kind, entity_id in connection.execute(query)]


def surplus(usage: Mapping[str, StoredUsage], each: StoredUsage, total: StoredUsage) -> dict[str, StoredUsage]:
    """Source -> what is to be deleted of its oldest events.

    Each source is brought to its own limit. Then the source that has most is reduced, until the total is in its limit.
    """
    events = _cut({name: found.events for name, found in usage.items()}, each.events, total.events)
    sizes = _cut({name: found.bytes for name, found in usage.items()}, each.bytes, total.bytes)
    return {
        name: StoredUsage(events.get(name, 0), sizes.get(name, 0))
        for name in usage
        if events.get(name) or sizes.get(name)
    }


def _cut(found: Mapping[str, int], each: int, total: int) -> dict[str, int]:
    """Name -> how much is above its limit, and above its share if all together are above the total. 0: no limit."""
    kept = {name: min(number, each) if each else number for name, number in found.items()}
    if total and sum(kept.values()) > total:
        left, share = total, 0
        for number, names in ((kept[name], len(kept) - i) for i, name in enumerate(sorted(kept, key=kept.__getitem__))):
            share = left // names
            if number > share:
                break
            left -= number
        kept = {name: min(number, share) for name, number in kept.items()}
    return {name: number - kept[name] for name, number in found.items() if number > kept[name]}


def _sum(one: StoredUsage, other: StoredUsage) -> StoredUsage:
    return StoredUsage(one.events + other.events, one.bytes + other.bytes)


def _difference(one: StoredUsage, other: StoredUsage) -> StoredUsage:
    return StoredUsage(one.events - other.events, one.bytes - other.bytes)


def _reduced(limit: StoredUsage) -> StoredUsage:
    """The limit at which the relief begins."""
    return StoredUsage(limit.events - limit.events // _FREED_SHARE, limit.bytes - limit.bytes // _FREED_SHARE)


def _is_close(usage: StoredUsage, limit: StoredUsage) -> bool:
    return usage.exceeds(_reduced(limit))


def _excess(usage: StoredUsage, limit: StoredUsage) -> StoredUsage:
    """What is above the limit, and a share of the limit more, so that not every commit has to make room."""
    return StoredUsage(
        max(0, usage.events - limit.events + limit.events // _FREED_SHARE) if limit.events else 0,
        max(0, usage.bytes - limit.bytes + limit.bytes // _FREED_SHARE) if limit.bytes else 0,
    )
