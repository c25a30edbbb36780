# SPDX-License-Identifier: Apache-2.0
"""The schema and its revisions (alembic), seen from the command line and from a starting engine."""

from __future__ import annotations

import pathlib

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from watcher_sync.exceptions import SchemaMissing
from watcher_sync.storage.database import translated
from watcher_sync.storage.tables import Tables

_SCRIPTS = pathlib.Path(__file__).parent / "migrations"


def upgrade(engine: sa.Engine, tables: Tables, revision: str = "head") -> str:
    """Bring the schema to a revision, create the tables of plugins' kinds, and make the journal's head.

    Safe to run again, and to run while engines of the same release work.

    :returns: the revision that the database is at now.
    :raises DatabaseUnavailable: when the database cannot be reached or refuses.
    """
    config = _config()
    with translated(), engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)
        tables.metadata.create_all(connection, tables=list(tables.entities.values()), checkfirst=True)
        if connection.execute(sa.select(tables.journal_head.c.seq)).scalar_one_or_none() is None:
            connection.execute(sa.insert(tables.journal_head).values(id=1, seq=0))
        return _current(connection) or ""


def check(engine: sa.Engine, tables: Tables) -> None:
    """Hold the database against this release.

    :raises SchemaMissing: when it has no schema, an older or a newer one, or lacks a plugin's table.
    :raises DatabaseUnavailable: when the database cannot be reached.
    """
    wanted = ScriptDirectory.from_config(_config()).get_current_head()
    with translated(), engine.connect() as connection:
        found = _current(connection)
        if found is None:
            raise SchemaMissing("the database has no schema: run watcher-sync-manage db_sync")
        if found != wanted:
            raise SchemaMissing(
                f"the database is at revision {found}, this release needs {wanted}: run watcher-sync-manage db_sync"
            )
        missing = [t.name for t in tables.entities.values() if not sa.inspect(connection).has_table(t.name)]
        if missing:
            raise SchemaMissing(f"the database lacks the table {missing[0]}: run watcher-sync-manage db_sync")


def _current(connection: sa.Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_SCRIPTS))
    return config
