# SPDX-License-Identifier: Apache-2.0
"""Databases on the real servers: empty ones for one test, and migrated ones that tests use one after the other.

A migrated database is used again only as the migrations left it. Its rows and its counters are put back after a test.
A database is dropped where a process is still connected to it, or where the test changed its schema.
"""

from __future__ import annotations

import collections
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from tests.waiting import Deadline
from watcher_sync.model.kinds import Kinds

_DISCONNECT_SECONDS: Final = 2.0
"""How long the server may take to end the sessions of connections that are closed."""

_OPTIONS: Final = {"postgresql": {}, "mariadb": {"ssl_disabled": "true"}}
"""Of the addresses. PyMySQL reads all certificates of the machine for each connection that might use TLS: 20 ms."""

_CREATE: Final = {"postgresql": "CREATE DATABASE {}", "mariadb": "CREATE DATABASE {} CHARACTER SET utf8mb4"}
_DROP: Final = {"postgresql": "DROP DATABASE {} WITH (FORCE)", "mariadb": "DROP DATABASE {}"}

_SESSIONS: Final = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity"
    " WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()",
    "mariadb": "SELECT count(*) FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}

_SCHEMA: Final = {
    "postgresql": (
        "SELECT relname, relkind::text, relchecks, relhastriggers,"
        " attname, format_type(atttypid, atttypmod), attnotnull"
        " FROM pg_class LEFT JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped"
        " WHERE relnamespace = 'public'::regnamespace",
    ),
    "mariadb": (
        "SELECT table_name, column_name, column_type, is_nullable FROM information_schema.columns"
        " WHERE table_schema = DATABASE()",
        "SELECT table_name, index_name, column_name FROM information_schema.statistics WHERE table_schema = DATABASE()",
        "SELECT trigger_name FROM information_schema.triggers WHERE trigger_schema = DATABASE()",
        "SELECT table_name, constraint_name FROM information_schema.table_constraints WHERE table_schema = DATABASE()",
    ),
}
"""What is compared; the order of the rows does not matter."""


@contextmanager
def fresh_database(service: str, server: str) -> Iterator[str]:
    """An empty database, which is dropped at the end.

    :param server: the server's address.
    """
    name = f"watcher_sync_{secrets.token_hex(6)}"
    url = sa.make_url(server).update_query_dict(_OPTIONS[service])
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with engine.connect() as connection:
        connection.exec_driver_sql(_CREATE[service].format(name))
    try:
        yield url.set(database=name).render_as_string(hide_password=False)
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(_DROP[service].format(name))


class MigratedDatabases:
    """Lends databases with the schema in place. Not for several threads.

    :param address: gives the address of a service.
    """

    def __init__(self, address: Callable[[str], str]) -> None:
        self._address = address
        self._idle: dict[Any, list[_Database]] = collections.defaultdict(list)

    @contextmanager
    def lend(self, service: str, kinds: Kinds) -> Iterator[str]:
        """The address of a database as the migrations leave it."""
        idle = self._idle[service, frozenset(kinds.items())]
        database = idle.pop() if idle else _Database(service, self._address(service), kinds)
        try:
            yield database.url
            restored = database.restore()
        except BaseException:
            database.drop()
            raise
        if restored:
            idle.append(database)
        else:
            database.drop()

    def close(self) -> None:
        """Drop them all."""
        for idle in self._idle.values():
            while idle:
                idle.pop().drop()


class _Database:
    def __init__(self, service: str, server: str, kinds: Kinds) -> None:
        self._service = service
        self._stack = ExitStack()
        self.url = self._stack.enter_context(fresh_database(service, server))
        store = migrate(opened(self.url, kinds))
        store.close()
        store.database.dispose()
        self._engine = sa.create_engine(self.url, poolclass=sa.NullPool)
        self._tables = sa.MetaData()
        self._tables.reflect(self._engine)
        with self._engine.connect() as connection:
            self._schema = self._read_schema(connection)
            self._rows = {t: [tuple(row) for row in connection.execute(t.select())] for t in self._in_order()}

    def restore(self) -> bool:
        """Put rows and counters back. :returns: whether the database is as it was."""
        with self._engine.connect() as connection:
            if not self._is_left(connection) or self._read_schema(connection) != self._schema:
                return False
            if self._service == "postgresql":
                self._clear_postgresql(connection)
            else:
                self._clear_mariadb(connection)
            for table, rows in self._rows.items():
                if rows:
                    connection.execute(table.insert().values(rows))
            connection.commit()
        return True

    def drop(self) -> None:
        self._stack.close()

    def _in_order(self) -> list[sa.Table]:
        return self._tables.sorted_tables

    def _filled(self, connection: sa.Connection) -> list[str]:
        found = [sa.select(sa.literal(t.name)).where(sa.exists(t.select())) for t in self._in_order()]
        return list(connection.scalars(sa.union_all(*found)))

    def _is_left(self, connection: sa.Connection) -> bool:
        limit = Deadline(_DISCONNECT_SECONDS)
        while connection.exec_driver_sql(_SESSIONS[self._service]).scalar_one():
            if limit.is_over:
                return False
            time.sleep(0.01)
            connection.rollback()  # the statistics are those of the transaction's start
        return True

    def _read_schema(self, connection: sa.Connection) -> list[set[tuple[Any, ...]]]:
        return [{tuple(row) for row in connection.exec_driver_sql(sql)} for sql in _SCHEMA[self._service]]

    def _clear_postgresql(self, connection: sa.Connection) -> None:
        if filled := self._filled(connection):
            connection.exec_driver_sql("TRUNCATE {} CASCADE".format(", ".join(filled)))
        connection.exec_driver_sql(
            "SELECT setval(quote_ident(sequencename)::regclass, 1, false) FROM pg_sequences"
            " WHERE schemaname = 'public' AND last_value IS NOT NULL"
        )

    def _clear_mariadb(self, connection: sa.Connection) -> None:
        connection.exec_driver_sql("SET FOREIGN_KEY_CHECKS = 0")
        counted = connection.exec_driver_sql(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = DATABASE() AND auto_increment > 1"
        )
        for table in counted.scalars().all():
            connection.exec_driver_sql(f"TRUNCATE {table}")
        for table in self._filled(connection):
            connection.exec_driver_sql(f"DELETE FROM {table}")
