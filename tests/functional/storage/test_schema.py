# SPDX-License-Identifier: Apache-2.0
"""The migrations make what the declarations say, on every database."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import kinds
from watcher_sync.exceptions import SchemaMissing
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Kinds
from watcher_sync.storage import schema
from watcher_sync.storage.tables import Tables
from watcher_sync.storage.types import json_text


def differences(engine, tables):
    with engine.connect() as connection:
        options = {
            "compare_type": True,
            "include_name": lambda name, type_, _: type_ != "table" or name != "alembic_version",
        }
        context = MigrationContext.configure(connection, opts=options)
        return compare_metadata(context, tables.metadata)


def test_the_migrations_make_the_tables_that_are_declared(any_database_url):
    store = opened(any_database_url, builtin_kinds())
    schema.upgrade(store.database, store.tables)
    assert differences(store.database, store.tables) == []
    store.database.dispose()


def test_the_comparison_sees_a_missing_column_and_another_type(any_database_url):
    """A test that compares nothing would pass too."""
    store = opened(any_database_url, builtin_kinds())
    schema.upgrade(store.database, store.tables)
    declared = Tables(builtin_kinds())
    declared.entities["instance"].append_column(sa.Column("colour", sa.String(10)))
    declared.journal.c.seq.type = sa.String(20)
    found = [d[0] if isinstance(d, tuple) else d[0][0] for d in differences(store.database, declared)]
    assert sorted(found) == ["add_column", "modify_type"]
    store.database.dispose()


def test_a_database_without_schema_or_without_a_plugins_table_is_refused_with_what_to_do(any_database_url):
    ours, plugins = opened(any_database_url, builtin_kinds()), opened(any_database_url, kinds())
    with pytest.raises(SchemaMissing, match="has no schema: run watcher-sync-manage db_sync"):
        schema.check(ours.database, ours.tables)
    schema.upgrade(ours.database, ours.tables)
    schema.check(ours.database, ours.tables)
    with pytest.raises(SchemaMissing, match="lacks the table meters: run watcher-sync-manage db_sync"):
        schema.check(plugins.database, plugins.tables)
    schema.upgrade(plugins.database, plugins.tables)
    schema.check(plugins.database, plugins.tables)
    for store in (ours, plugins):
        store.database.dispose()


def test_a_database_of_another_release_is_refused(store):
    with store.database.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(SchemaMissing, match=r"at revision 9999, this release needs \d+"):
        schema.check(store.database, store.tables)


def test_an_upgrade_that_is_run_again_keeps_what_is_there(store):
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.journal_head).values(seq=17))
    assert schema.upgrade(store.database, store.tables) == schema.HEAD
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.journal_head)).all() == [(1, 17)]


@pytest.mark.parametrize("revision", ["0001", "0002", "0003", "0004", "0005", "0006", "0007", "0011", "0013"])
def test_a_database_of_any_release_before_becomes_what_is_declared(any_database_url, revision):
    store = opened(any_database_url, builtin_kinds())
    plain = Tables(Kinds())
    schema.upgrade(store.database, plain, revision)
    with store.database.begin() as connection:
        connection.execute(sa.update(plain.journal_head).values(seq=17))
    schema.upgrade(store.database, store.tables)
    assert differences(store.database, store.tables) == []
    with store.database.connect() as connection:
        assert connection.execute(sa.select(plain.journal_head)).all() == [(1, 17)]
    store.database.dispose()


def test_facets_split_from_another_keep_its_version(any_database_url):
    """Otherwise the first copy that arrives after the upgrade would count as newer than what is known."""
    store = opened(any_database_url, builtin_kinds())
    old = Tables(Kinds())
    schema.upgrade(store.database, old, "0011")
    instances = sa.Table("instances", sa.MetaData(), autoload_with=store.database)
    split = {"state": "01", "placement": "02", "details": "01", "flavor": "01", "network": "01"}
    rows = {"a": ({"state": "01", "placement": "02"}, split), "b": ({"lock": "03"}, {"lock": "03"})}
    with store.database.begin() as connection:
        for entity_id, (before, _) in rows.items():
            connection.execute(sa.insert(instances).values(id=entity_id, seq=1, versions=json_text(before)))
    schema.upgrade(store.database, store.tables)
    table = store.tables.entities["instance"]
    with store.database.connect() as connection:
        found = dict(connection.execute(sa.select(table.c.id, table.c.versions)).all())
    assert found == {entity_id: after for entity_id, (_, after) in rows.items()}
    store.database.dispose()


def test_the_revision_that_is_needed_is_that_of_the_last_migration():
    config = Config()
    config.set_main_option("script_location", str(schema._SCRIPTS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD
