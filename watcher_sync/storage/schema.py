# SPDX-License-Identifier: Apache-2.0
"""The schema and its revisions (alembic), seen from the command line and from a starting engine.

Every process checks the revision at its start. The check does not import alembic, which takes long.
"""

from __future__ import annotations

import pathlib
from typing import Final

import sqlalchemy as sa

from watcher_sync.exceptions import SchemaMissing
from watcher_sync.storage.database import translated
from watcher_sync.storage.tables import Tables

HEAD: Final = "0014"
"""The revision that this release needs: the last of the migrations."""

_SCRIPTS: Final = pathlib.Path(__file__).parent / "migrations"


def upgrade(database: sa.Engine, tables: Tables, revision: str = "head") -> str:
    """Bring the schema to a revision, create the tables of plugins' kinds, and make the journal's head.

    Safe to run again, and to run while engines of the same release work.

    :returns: the revision that the database is at now.
    :raises DatabaseUnavailable: when the database cannot be reached or refuses.
    """
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    with translated(), database.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        tables.metadata.create_all(connection, tables=list(tables.entities.values()), checkfirst=True)
        if connection.execute(sa.select(tables.journal_head.c.seq)).scalar_one_or_none() is None:
            connection.execute(sa.insert(tables.journal_head).values(id=1, seq=0))
        return _current(connection) or ""


def check(database: sa.Engine, tables: Tables) -> None:
    """Hold the database against this release.

    :raises SchemaMissing: when it has no schema, an older or a newer one, or lacks a plugin's table.
    :raises DatabaseUnavailable: when the database cannot be reached.
    """
    with translated(), database.connect() as connection:
        found = _current(connection)
        if found is None:
            raise SchemaMissing("the database has no schema: run watcher-sync-manage db_sync")
        if found != HEAD:
            raise SchemaMissing(
                f"the database is at revision {found}, this release needs {HEAD}: run watcher-sync-manage db_sync"
            )
        there = sa.inspect(connection).get_table_names()
        missing = [table.name for table in tables.entities.values() if table.name not in there]
        if missing:
            raise SchemaMissing(f"the database lacks the table {missing[0]}: run watcher-sync-manage db_sync")


def _current(connection: sa.Connection) -> str | None:
    """The revision that the database is at, as alembic keeps it."""
    table = sa.table("alembic_version", sa.column("version_num", sa.String))
    if not sa.inspect(connection).has_table(table.name):
        return None
    return connection.execute(sa.select(table.c.version_num)).scalar_one_or_none()
