# SPDX-License-Identifier: Apache-2.0
"""The schema and its revisions (alembic), seen from the command line and from a starting process.

``db_sync`` expands: a migration adds tables, columns and indexes, and an older release works on with what it knows. The
tables of kinds follow from their declarations (:mod:`~watcher_sync.storage.schema.kind_tables`). So the processes of a
site can be upgraded one after the other. ``db_sync --contract`` ends that. It writes down that no older release works
here any more, and only then may a later migration take something away.

Every process checks the revision at its start, and a leading engine does so with each renewal of its lease. The checks
do not import alembic, which takes long.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any, Final

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_log import log as logging

from watcher_sync.exceptions import SchemaMissing
from watcher_sync.storage import epochs
from watcher_sync.storage.database.database import code_of, reason_of, run_with_retries, translated
from watcher_sync.storage.schema import kind_tables
from watcher_sync.storage.schema.tables import Tables

LOG = logging.getLogger(__name__)

HEAD: Final = "0001"
"""The revision that this release needs: the last of the migrations. Revisions are compared as texts."""

_SCRIPTS: Final = pathlib.Path(__file__).parent / "migrations"

_SYNC: Final = "run watcher-sync-manage db_sync"


_LOCK_SECONDS: Final = 2
"""The longest wait for a lock. Other statements on the table wait behind it."""

_NO_PRIVILEGE: Final = (1044, 1142)
"""What MariaDB answers to an account that may not lock tables."""


def upgrade(
    database: sa.Engine, tables: Tables, revision: str = "head", on_lock_timeout: Callable[[], None] = lambda: None
) -> str:
    """Bring the schema to a revision, add what the kinds need, and make the journal's head.

    Safe to run again, and to run while engines of this release or of the one before work. A transaction of theirs that
    holds a lock for long ends the attempt; there are some within ten seconds.

    :param on_lock_timeout: called after each of them.
    :returns: the revision that the database is at now.
    :raises SchemaMissing: when the schema is of a newer release, or the database does not store every character. Also
        when the table of a kind cannot be made to fit its declaration; everything else is done then.
    :raises DatabaseUnavailable: when the database cannot be reached or refuses.
    """
    current, refused = run_with_retries(lambda: _upgrade(database, tables, revision), on_lock_timeout)
    if refused:
        raise SchemaMissing("; ".join(refused))
    return current


def _upgrade(database: sa.Engine, tables: Tables, revision: str) -> tuple[str, list[str]]:
    """One attempt. An engine that works may cause a deadlock.

    :returns: the revision, and what was refused.
    """
    from alembic import command

    with translated(), database.begin() as connection:
        _refuse_newer(_current(connection))
        _check_encoding(connection)
        _wait_for_locks(connection, tables)
        command.upgrade(_alembic(connection), revision)
        fits = kind_tables.examine(connection, tables)
        for addition in (addition for fit in fits if not fit.refusals for addition in fit.additions):
            addition.apply(connection)
        if connection.execute(sa.select(tables.journal_head.c.seq)).scalar_one_or_none() is None:
            connection.execute(sa.insert(tables.journal_head).values(id=1, seq=0))
        current = _current(connection) or ""
        if current == HEAD:
            epochs.begin_epoch(connection, tables)
    return current, [fit.problem or "" for fit in fits if fit.refusals]


def _wait_for_locks(connection: sa.Connection, tables: Tables) -> None:
    """Have no statement wait for long for the lock of a table.

    MariaDB commits each change of a table. So there the locks of all tables are tried before the first change, if the
    account may lock tables.

    :raises sa.exc.SQLAlchemyError: another process has a lock.
    """
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{_LOCK_SECONDS}s'")
    elif connection.dialect.name in ("mysql", "mariadb") and _is_change_due(connection, tables):
        found = ", ".join(f"`{name}` WRITE" for name in sa.inspect(connection).get_table_names())
        connection.exec_driver_sql(f"SET SESSION lock_wait_timeout = {_LOCK_SECONDS}")
        try:
            connection.exec_driver_sql(f"LOCK TABLES {found}")
            connection.exec_driver_sql("UNLOCK TABLES")
        except (sa.exc.SQLAlchemyError, db_exc.DBError) as exc:
            if code_of(exc) not in _NO_PRIVILEGE:
                raise
            LOG.warning("The locks of the tables are not tried before the change: %s", reason_of(exc))
        connection.exec_driver_sql("SET SESSION lock_wait_timeout = DEFAULT")


def _is_change_due(connection: sa.Connection, tables: Tables) -> bool:
    """Whether tables that are there change."""
    current = _current(connection)
    if current in (None, HEAD):
        return current == HEAD and any(fit.additions for fit in kind_tables.examine(connection, tables))
    return True


def plan(database: sa.Engine, tables: Tables) -> list[str]:
    """What :func:`upgrade` would do, one line for each step; changes nothing.

    :raises SchemaMissing: when the schema is of a newer release, or the database does not store every character.
    :raises DatabaseUnavailable: when the database cannot be reached.
    """
    from alembic.script import ScriptDirectory

    with translated(), database.connect() as connection:
        current = _current(connection)
        _refuse_newer(current)
        _check_encoding(connection)
        scripts = ScriptDirectory.from_config(_alembic(connection))
        steps = [] if current == HEAD else reversed(list(scripts.iterate_revisions("head", current or "base")))
        fits = kind_tables.examine(connection, tables)
    lines = [f"migrate to {step.revision}: {_first_line(step.doc)}" for step in steps]
    for fit in fits:
        lines.extend([f"refuse: {fit.problem}"] if fit.refusals else [f"add {a.text}" for a in fit.additions])
    return lines


def contract(database: sa.Engine, tables: Tables) -> str:
    """Write down that no process of an older release works on this schema any more.

    :returns: the oldest revision whose release may work on it now: that of this release.
    :raises SchemaMissing: when the schema is not the one of this release.
    :raises DatabaseUnavailable: when the database cannot be reached.
    """
    with translated(), database.begin() as connection:
        current = _current(connection)
        _refuse_newer(current)
        if current != HEAD:
            raise SchemaMissing(f"the database is at revision {current}, this release needs {HEAD}: {_SYNC} first")
        connection.execute(sa.update(tables.schema_compatibility).values(oldest_revision=HEAD))
    return HEAD


def check(database: sa.Engine, tables: Tables) -> dict[str, str]:
    """Hold the database against this release.

    :returns: kind -> why its entities cannot be stored now.
    :raises SchemaMissing: when it has no schema, an older one, or one that this release cannot work on.
    :raises DatabaseUnavailable: when the database cannot be reached.
    """
    with translated(), database.connect() as connection:
        check_revision(connection, tables)
        _check_encoding(connection)
        fits = kind_tables.examine(connection, tables)
    return {fit.kind: fit.problem for fit in fits if fit.problem is not None}


def check_revision(connection: sa.Connection, tables: Tables) -> None:
    """:raises SchemaMissing: when there is no schema, an older one, or one that this release cannot work on."""
    found = _current(connection)
    if found is None:
        raise SchemaMissing(f"the database has no schema: {_SYNC}")
    if found < HEAD:
        raise SchemaMissing(f"the database is at revision {found}, this release needs {HEAD}: {_SYNC}")
    if found > HEAD:
        oldest = connection.execute(sa.select(tables.schema_compatibility.c.oldest_revision)).scalar_one_or_none()
        if oldest is None or oldest > HEAD:
            raise SchemaMissing(
                f"the database is at revision {found} and takes releases from revision {oldest} on, this release has"
                f" {HEAD}: install the newer release"
            )


def _check_encoding(connection: sa.Connection) -> None:
    """:raises SchemaMissing: PostgreSQL has the database in another encoding than UTF-8."""
    if connection.dialect.name == "postgresql":
        encoding = connection.exec_driver_sql("SHOW server_encoding").scalar_one()
        if encoding != "UTF8":
            raise SchemaMissing(
                f"the database has the encoding {encoding}, which cannot store every text: create it with ENCODING"
                " 'UTF8' TEMPLATE template0"
            )


def _refuse_newer(found: str | None) -> None:
    if found is not None and found > HEAD:
        raise SchemaMissing(
            f"the database is at revision {found}, this release knows {HEAD} as the last: nothing was changed; use"
            " db_sync of the newer release"
        )


def _alembic(connection: sa.Connection) -> Any:
    """The configuration of alembic, which works on this connection."""
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    config.attributes["connection"] = connection
    return config


def _first_line(text: str) -> str:
    return text.partition("\n")[0].rstrip(".")


def _current(connection: sa.Connection) -> str | None:
    """The revision that the database is at, as alembic keeps it."""
    table = sa.table("alembic_version", sa.column("version_num", sa.String))
    if not sa.inspect(connection).has_table(table.name):
        return None
    return connection.execute(sa.select(table.c.version_num)).scalar_one_or_none()
