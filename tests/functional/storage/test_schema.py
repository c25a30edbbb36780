# SPDX-License-Identifier: Apache-2.0
"""The migrations make what the declarations say, on every database."""

from __future__ import annotations

import ast

import pytest
import sqlalchemy as sa
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from tests.functional.storage.conftest import on_one_database, on_one_empty_database, opened
from tests.functional.storage.writing import kinds
from watcher_sync.exceptions import SchemaMissing
from watcher_sync.storage.schema import schema
from watcher_sync.storage.schema.tables import Tables
from watcher_sync.testing.kinds import builtin_kinds


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


@on_one_empty_database
def test_a_database_without_schema_is_refused_and_a_plugins_kind_without_table_is_named(any_database_url):
    ours, plugins = opened(any_database_url, builtin_kinds()), opened(any_database_url, kinds())
    with pytest.raises(SchemaMissing, match="has no schema: run watcher-sync-manage db_sync"):
        schema.check(ours.database, ours.tables)
    schema.upgrade(ours.database, ours.tables)
    assert schema.check(ours.database, ours.tables) == {}
    (problem,) = schema.check(plugins.database, plugins.tables).values()
    assert "lacks the table meters: run watcher-sync-manage db_sync" in problem
    schema.upgrade(plugins.database, plugins.tables)
    assert schema.check(plugins.database, plugins.tables) == {}
    for store in (ours, plugins):
        store.database.dispose()


def set_revision(store, revision, oldest):
    with store.database.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :revision"), {"revision": revision})
        connection.execute(sa.update(store.tables.schema_compatibility).values(oldest_revision=oldest))


@on_one_database
def test_the_schema_of_a_newer_release_is_worked_on_until_it_is_contracted(store):
    set_revision(store, "9999", schema.HEAD)
    assert schema.check(store.database, store.tables) == {}
    set_revision(store, "9999", "9998")
    with pytest.raises(SchemaMissing, match=r"at revision 9999 and takes releases from revision 9998 on, this release"):
        schema.check(store.database, store.tables)


@on_one_database
def test_the_schema_of_an_older_release_is_refused(store):
    set_revision(store, "0000", "0000")
    with pytest.raises(SchemaMissing, match=r"at revision 0000, this release needs \d+: run watcher-sync-manage"):
        schema.check(store.database, store.tables)
    with pytest.raises(SchemaMissing, match=r"at revision 0000, this release needs \d+: .* first"):
        schema.contract(store.database, store.tables)


@pytest.mark.parametrize("work", [schema.upgrade, schema.plan, schema.contract])
@on_one_database
def test_an_older_release_changes_nothing_of_a_newer_schema_and_says_so(store, work):
    set_revision(store, "9999", schema.HEAD)
    with pytest.raises(SchemaMissing, match=r"at revision 9999, this release knows .* nothing was changed"):
        work(store.database, store.tables)


@on_one_database
def test_a_contraction_refuses_the_releases_before(store):
    set_revision(store, schema.HEAD, "0000")
    assert schema.contract(store.database, store.tables) == schema.HEAD
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.schema_compatibility)).all() == [(1, schema.HEAD)]


@on_one_empty_database
def test_a_plan_tells_each_step_and_does_none(any_database_url):
    store = opened(any_database_url, kinds())
    lines = schema.plan(store.database, store.tables)
    assert lines[0].startswith("migrate to 0001: ")
    assert lines[1:] == [f"add the table {each.plural}" for _, each in sorted(kinds().items())]
    assert sa.inspect(store.database).get_table_names() == []
    schema.upgrade(store.database, store.tables)
    assert schema.plan(store.database, store.tables) == []
    store.database.dispose()


def test_an_upgrade_that_is_run_again_keeps_what_is_there(store):
    with store.database.begin() as connection:
        connection.execute(sa.update(store.tables.journal_head).values(seq=17))
    assert schema.upgrade(store.database, store.tables) == schema.HEAD
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.journal_head.c["id", "seq"])).all() == [(1, 17)]


def test_migrations_only_add():
    """An older release works on the schema until it is contracted."""
    allowed = {"create_table", "create_index", "add_column", "bulk_insert", "execute", "get_bind"}
    for path in sorted((schema._SCRIPTS / "versions").glob("*.py")):
        tree = ast.parse(path.read_text())
        called = {
            node.attr
            for node in ast.walk(tree)
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "op"
        }
        assert called <= allowed, path.name


def test_the_revision_that_is_needed_is_that_of_the_last_migration():
    config = Config()
    config.set_main_option("script_location", str(schema._SCRIPTS))
    assert ScriptDirectory.from_config(config).get_current_head() == schema.HEAD
