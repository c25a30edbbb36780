# SPDX-License-Identifier: Apache-2.0
"""The private databases of a storm, and what happens to them."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import sqlalchemy as sa

from tests.functional.databases import fresh_database
from tests.services.servers import MariaDB, PostgreSQL, Server

_USER = "storm"
"""Of MariaDB: root may write in a read-only server."""


class Database(Protocol):
    """One empty database, mostly on a server."""

    server: Server | None

    @property
    def url(self) -> str:
        """The address for the installation."""

    def terminate_sessions(self) -> int:
        """End all sessions but ours; how many there were. Only with a server."""

    def set_read_only(self, value: bool) -> None:
        """Refuse writes, or accept them again. Only with a server."""

    def save(self) -> None:
        """Make a backup of the present state, which replaces the one before."""

    def restore(self) -> None:
        """Return to the backup, as if the server had never been further."""


class _PostgreSQLServer(PostgreSQL):
    @property
    def saved(self) -> Path:
        return self.home / "saved"

    def save(self) -> None:
        shutil.rmtree(self.saved, ignore_errors=True)
        self._run(
            self._program("pg_basebackup"), "-h", "127.0.0.1", "-p", str(self.port), "-U", "root", "-D",
            str(self.saved), "-X", "stream", "-c", "fast",
        )  # fmt: skip

    def restore(self) -> None:
        data = self.home / "data"
        self.kill()
        shutil.rmtree(data)
        self._run("cp", "-a", str(self.saved), str(data))
        self.start()


class PostgreSQLDatabase:
    """PostgreSQL."""

    def __init__(self, server: _PostgreSQLServer) -> None:
        self.server: Server | None = server
        self._own = server

    @property
    def url(self) -> str:
        return self._own.url

    def terminate_sessions(self) -> int:
        with _admin(self.url) as connection:
            found = connection.exec_driver_sql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND backend_type = 'client backend'"
            )
            return len(found.all())

    def set_read_only(self, value: bool) -> None:
        with _admin(self.url) as connection:
            connection.exec_driver_sql(f"ALTER SYSTEM SET default_transaction_read_only = {'on' if value else 'off'}")
            connection.exec_driver_sql("SELECT pg_reload_conf()")

    def save(self) -> None:
        self._own.save()

    def restore(self) -> None:
        self._own.restore()


class MariaDBDatabase:
    """MariaDB.

    :param root_url: of the database, for root.
    """

    def __init__(self, server: Server, root_url: str) -> None:
        self.server: Server | None = server
        self._own = server
        self._root_url = root_url
        self._name = str(sa.make_url(root_url).database)
        self._saved = server.home / "saved.sql"
        with _admin(root_url) as connection:
            connection.exec_driver_sql(f"CREATE USER {_USER}@'127.0.0.1'")
            connection.exec_driver_sql(f"GRANT ALL PRIVILEGES ON {self._name}.* TO {_USER}@'127.0.0.1'")

    @property
    def url(self) -> str:
        return sa.make_url(self._root_url).set(username=_USER).render_as_string(hide_password=False)

    def terminate_sessions(self) -> int:
        with _admin(self._root_url) as connection:
            query = f"SELECT id FROM information_schema.processlist WHERE user = '{_USER}'"
            found = connection.exec_driver_sql(query).scalars().all()
            for number in found:
                with contextlib.suppress(sa.exc.DBAPIError):  # it ended meanwhile
                    connection.exec_driver_sql(f"KILL {number}")
            return len(found)

    def set_read_only(self, value: bool) -> None:
        with _admin(self._root_url) as connection:
            connection.exec_driver_sql(f"SET GLOBAL read_only = {int(value)}")

    def save(self) -> None:
        with self._saved.open("wb") as out:
            subprocess.run([*self._command("mariadb-dump"), "--single-transaction"], stdout=out, check=True)

    def restore(self) -> None:
        self._own.kill()
        self._own.start()
        with self._saved.open("rb") as saved:
            subprocess.run(self._command("mariadb"), stdin=saved, check=True)

    def _command(self, program: str) -> list[str]:
        at = ("--no-defaults", "--host=127.0.0.1", f"--port={self._own.port}", "--user=root")
        return [program, *at, self._name]


class SQLiteDatabase:
    """SQLite: a file in a folder."""

    server: Server | None = None

    def __init__(self, folder: Path) -> None:
        self._path = folder / "storm.sqlite"
        self._saved = folder / "saved.sqlite"

    @property
    def url(self) -> str:
        return f"sqlite:///{self._path}"

    def terminate_sessions(self) -> int:
        raise AssertionError("SQLite has no sessions")

    def set_read_only(self, value: bool) -> None:
        assert not value, "SQLite is not made read-only"

    def save(self) -> None:
        with (
            contextlib.closing(sqlite3.connect(self._path)) as source,
            contextlib.closing(sqlite3.connect(self._saved)) as target,
        ):
            source.backup(target)

    def restore(self) -> None:
        """Replace the file, as an operator does with a backup."""
        os.replace(self._saved, self._path)
        for suffix in ("-wal", "-shm"):
            Path(f"{self._path}{suffix}").unlink(missing_ok=True)


@contextlib.contextmanager
def private_database(kind: str, folder: Path) -> Iterator[Database]:
    """A database of the storm's own.

    :param kind: postgresql, mariadb or sqlite.
    :param folder: for the file of SQLite.
    """
    if kind == "sqlite":
        yield SQLiteDatabase(folder)
        return
    server: Any = _PostgreSQLServer() if kind == "postgresql" else MariaDB()
    try:
        server.create()
        if kind == "postgresql":
            yield PostgreSQLDatabase(server)
            return
        with fresh_database("mariadb", server.url) as url:
            yield MariaDBDatabase(server, url)
    finally:
        server.remove()


@contextlib.contextmanager
def _admin(url: str) -> Iterator[sa.Connection]:
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    try:
        with engine.connect() as connection:
            yield connection
    finally:
        engine.dispose()
