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


@on_one_empty_database
def test_a_database_without_schema_is_refused_and_a_plugins_kind_without_table_is_named(any_database_url):
    ours, plugins = opened(any_database_url, builtin_kinds()), opened(any_database_url, kinds())
    with pytest.raises(SchemaMissing, match="has no schema: run watcher-sync-manage db_sync"):
        schema.check(ours.database, ours.tables)
    schema.upgrade(ours.database, ours.tables)
    assert schema.check(ours.database, ours.tables) == {}
    (trouble,) = schema.check(plugins.database, plugins.tables).values()
    assert "lacks the table meters: run watcher-sync-manage db_sync" in trouble
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
    set_revision(store, "0001", "0001")
    with pytest.raises(SchemaMissing, match=r"at revision 0001, this release needs \d+: run watcher-sync-manage"):
        schema.check(store.database, store.tables)
    with pytest.raises(SchemaMissing, match=r"at revision 0001, this release needs \d+: .* first"):
        schema.contract(store.database, store.tables)


@pytest.mark.parametrize("work", [schema.upgrade, schema.plan, schema.contract])
@on_one_database
def test_an_older_release_changes_nothing_of_a_newer_schema_and_says_so(store, work):
    set_revision(store, "9999", schema.HEAD)
    with pytest.raises(SchemaMissing, match=r"at revision 9999, this release knows .* nothing was changed"):
        work(store.database, store.tables)


@on_one_database
def test_a_contraction_refuses_the_releases_before(store):
    set_revision(store, schema.HEAD, "0001")
    assert schema.contract(store.database, store.tables) == schema.HEAD
    with store.database.connect() as connection:
        assert connection.execute(sa.select(store.tables.schema_compatibility)).all() == [(1, schema.HEAD)]


@on_one_empty_database
def test_a_plan_tells_each_step_and_does_none(any_database_url):
    store = opened(any_database_url, kinds())
    lines = schema.plan(store.database, store.tables)
    assert lines[0].startswith("migrate to 0001: ")
    assert lines[-1] == "add the table meters"
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


def test_from_revision_17_on_migrations_only_add():
    """An older release works on the schema until it is contracted."""
    allowed = {"create_table", "create_index", "add_column", "bulk_insert", "execute"}
    for path in sorted((schema._SCRIPTS / "versions").glob("*.py")):
        if path.name >= "0017":
            tree = ast.parse(path.read_text())
            called = {
                node.attr
                for node in ast.walk(tree)
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "op"
            }
            assert called <= allowed, path.name


@pytest.mark.parametrize(
    "revision",
    [
        *("0001", "0014"),
        *(pytest.param(revision, marks=pytest.mark.rare) for revision in ("0002", "0003", "0004", "0005", "0006")),
        *(pytest.param(revision, marks=pytest.mark.rare) for revision in ("0007", "0011", "0013")),
    ],
)
def test_a_database_of_any_release_before_becomes_what_is_declared(any_database_url, revision):
    store = opened(any_database_url, builtin_kinds())
    plain = Tables(Kinds())
    schema.upgrade(store.database, plain, revision)
    with store.database.begin() as connection:
        connection.execute(sa.update(plain.journal_head).values(seq=17))
    schema.upgrade(store.database, store.tables)
    assert differences(store.database, store.tables) == []
    with store.database.connect() as connection:
        (head,) = connection.execute(sa.select(plain.journal_head))
    assert (head.id, head.seq, len(head.epoch), head.mark > 0) == (1, 17, 32, True)
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
