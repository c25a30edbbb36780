# SPDX-License-Identifier: Apache-2.0
"""The rows of watch topics, and the positions up to which REST served them.

A topic never changes: it is created and deleted. Its name is unique in its project. So a path means the topic of the
caller's own project, else the only one of this name that the caller may see. The id may be in place of the name.

A position has the sequence up to which a caller read a topic by REST. A stream that begins within 10 minutes starts
after it. The database's clock decides, so that machines may disagree.

For any thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from oslo_db.exception import DBDeadlock, DBDuplicateEntry

from watcher_sync.exceptions import QuotaReached, WatcherSyncError
from watcher_sync.extensions.watch.model.topics import WatchTopic, parse_spec
from watcher_sync.extensions.watch.wire.topic_links import VERSIONS
from watcher_sync.storage.database.database import retried, translated
from watcher_sync.storage.database.database_time import database_now
from watcher_sync.storage.database.pages import DecodedPage, bounded_page
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.storage.writing.journal import lock_head

POSITION_TTL_SECONDS: Final = 600.0
"""How long a position is valid."""

_NO_PROJECT: Final = ""
"""What the column of a topic without a project has. With NULL, names without a project would not be unique."""
ALL: Final = 1_000_000_000
"""A limit that no list reaches."""

_MAX_TRIES: Final = 5
_COLUMNS: Final = ("id", "name", "project_id", "title", "spec", "created_at")


class TopicExists(WatcherSyncError):
    """The project has a topic of this name."""


class SeveralTopics(WatcherSyncError):
    """Several projects, but not the caller's, have a topic of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"Several projects have a watch topic of the name {name!r}: use its id in place of the name")


class WatchTopics:
    """The watch topics of a database."""

    def __init__(
        self,
        database: sa.Engine,
        tables: Tables,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        self._database = database
        self._tables = tables
        self._now = now

    @retried
    def create(self, topic: WatchTopic, *, quota: int = -1) -> WatchTopic:
        """Store a new topic. Its time is set here.

        :param quota: the maximum number of topics of its project; -1: no limit.
        :raises TopicExists: the project has one of this name.
        :raises QuotaReached: the project has as many as it may have.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        made = msgspec.structs.replace(topic, created_at=self._now())
        limited = made.project_id if quota >= 0 else None
        with translated():
            try:
                # The count is last: SQLite refuses a write after a read while another connection writes.
                with self._database.begin() as connection:
                    if limited is not None:  # parallel creators would not see each other's rows
                        lock_head(connection, self._tables)
                    connection.execute(sa.insert(self._tables.watch_topics).values(**_values(made)))
                    if limited is not None:
                        self._require_quota(connection, limited, quota)
            except DBDuplicateEntry:
                raise TopicExists(f"there is a watch topic of the name {made.name}") from None
        return made

    def _require_quota(self, connection: sa.Connection, project_id: str, quota: int) -> None:
        """:raises QuotaReached: the project has more topics than its quota."""
        t = self._tables.watch_topics
        count = sa.select(sa.func.count()).select_from(t).where(t.c.project_id == project_id)
        used = int(connection.execute(count).scalar_one()) - 1
        if used >= quota:
            raise QuotaReached(project_id, quota, used, "watch topics")

    def find(
        self,
        name: str,
        version: str = VERSIONS[0],
        *,
        project_id: str | None = None,
        may_see: Callable[[str | None], bool] = lambda _project_id: True,
    ) -> WatchTopic | None:
        """The topic that a caller means; None: it sees none.

        :param name: its name, or its id.
        :param version: the version of the dialect that the caller asks for.
        :param project_id: the project of the caller; None: none.
        :param may_see: whether the caller sees the topics of a project.
        :raises SeveralTopics: the caller sees several of this name, and none is of its project.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.watch_topics
        with translated(), self._database.connect() as connection:
            rows = connection.execute(self._query().where(sa.or_(t.c.name == name, t.c.id == name))).all()
        # MariaDB ignores spaces at the end of what it compares.
        found = [_topic(row, version) for row in rows if name in (row.name, row.id)]
        found = [topic for topic in found if may_see(topic.project_id)]
        meant = [topic for topic in found if topic.id == name]
        meant = meant or [topic for topic in found if topic.project_id == project_id] or found
        if len(meant) > 1:
            raise SeveralTopics(name)
        return meant[0] if meant else None

    def page(
        self,
        *,
        offset: int = 0,
        limit: int = ALL,
        project_id: str | None = None,
        version: str = VERSIONS[0],
    ) -> DecodedPage[WatchTopic]:
        """Some topics, by name: at most ``limit``, whose specs have about 8 MiB, but at least one.

        :param project_id: only those of this project; None: all.
        :param version: the version of the dialect that the caller asks for.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._tables.watch_topics
        query = self._query().offset(offset)
        if project_id is not None:
            query = query.where(t.c.project_id == project_id, t.c.project_id != _NO_PROJECT)
        spec = {_COLUMNS.index("spec"): t.c.spec}
        with translated(), self._database.connect() as connection:
            page = bounded_page(connection, query, [t.c.name, t.c.id], limit, key=t.c.id, documents=spec)
        return DecodedPage((_topic(row, version) for row in page.rows), page.more)

    @retried
    def delete(self, topic_id: str) -> bool:
        """Delete a topic and its positions. Return whether there was one.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        t, p = self._tables.watch_topics, self._tables.watch_positions
        with translated(), self._database.begin() as connection:
            connection.execute(sa.delete(p).where(p.c.topic_id == topic_id))
            return bool(connection.execute(sa.delete(t).where(t.c.id == topic_id)).rowcount)

    def _query(self) -> sa.Select[Any]:
        columns = self._tables.watch_topics.c
        return sa.select(*(sa.type_coerce(columns[n], sa.Text()) if n == "spec" else columns[n] for n in _COLUMNS))


class WatchPositions:
    """The positions up to which REST served topics."""

    def __init__(self, database: sa.Engine, tables: Tables) -> None:
        self._database = database
        self._table = tables.watch_positions

    @retried
    def remember(self, topic_id: str, tenant: str, subject: str, sequence: int, page: str = "") -> None:
        """Store the sequence up to which a caller read a topic, for 10 minutes.

        :param tenant: the project of the caller; empty: none.
        :param subject: the user of the caller; empty: none.
        :param page: the full page that ends with the sequence, at most 64 characters; empty: none.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table
        expires_at = database_now(self._database.dialect, later=POSITION_TTL_SECONDS)
        values = {"sequence": sequence, "page": page, "expires_at": expires_at}
        key = {"topic_id": topic_id, "tenant": tenant[:255], "subject": subject[:255]}
        same = [t.c[name] == value for name, value in key.items()]
        with translated():
            for tries_left in reversed(range(_MAX_TRIES)):
                try:
                    with self._database.begin() as connection:
                        if not connection.execute(sa.update(t).where(*same).values(**values)).rowcount:
                            connection.execute(sa.insert(t).values(**key, **values))
                    return
                except (DBDuplicateEntry, DBDeadlock):  # a concurrent request inserts the row, too
                    if not tries_left:
                        raise

    def find(self, topic_id: str, tenant: str, subject: str, page: str | None = None) -> int | None:
        """The sequence up to which a caller read a topic; None: it did not in the last 10 minutes.

        :param page: only if this is the page that the caller read last; None: any.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        t = self._table
        query = sa.select(t.c.sequence).where(
            sa.true() if page is None else t.c.page == page,
            t.c.topic_id == topic_id,
            t.c.tenant == tenant[:255],
            t.c.subject == subject[:255],
            t.c.expires_at > database_now(self._database.dialect),
        )
        with translated(), self._database.connect() as connection:
            found = connection.execute(query).scalar_one_or_none()
        return None if found is None else int(found)


def _values(topic: WatchTopic) -> dict[str, Any]:
    return {
        "id": topic.id,
        "name": topic.name,
        "project_id": topic.project_id or _NO_PROJECT,
        "title": topic.title,
        "spec": topic.spec(),
        "created_at": topic.created_at,
    }


def _topic(row: Any, version: str) -> WatchTopic:
    description, filters = parse_spec(msgspec.json.decode(row.spec))
    return WatchTopic(
        id=row.id,
        name=row.name,
        project_id=row.project_id or None,
        title=row.title,
        description=description,
        filters=filters,
        created_at=row.created_at,
        version=version,
    )
