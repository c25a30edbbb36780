# SPDX-License-Identifier: Apache-2.0
"""Every pool option of ``[database]`` may be set for every database, as in a configuration that several share."""

from __future__ import annotations

import datetime
import re

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.functional.storage.listing import read_page
from tests.functional.storage.writing import cycle_on, meter
from tests.migrated import migrate
from tests.services.servers import Server
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.exceptions import ConfigError, SchemaMissing
from watcher_sync.read.entity_reader import Sort
from watcher_sync.read.filters import FieldCondition, clause
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.store import Store

LAST_PLANE = "\U0001f680 \U0010fffd"
"""Characters that take four bytes in UTF-8."""


def test_a_pool_option_that_a_database_has_no_use_for_does_no_harm(any_database_url):
    for option in ("pool_timeout", "max_pool_size", "max_overflow", "connection_recycle_time"):
        store = opened(any_database_url, **{option: 5})
        try:
            with store.database.connect() as connection:
                assert connection.execute(sa.text("SELECT 1")).scalar_one() == 1
        finally:
            store.database.dispose()


def test_a_mariadb_that_reads_committed_rows_by_default_shows_one_state_to_each_transaction(own_mariadb: Server):
    with sa.create_engine(own_mariadb.url).connect() as connection:
        connection.execute(sa.text("CREATE DATABASE model"))
        connection.execute(sa.text("SET GLOBAL TRANSACTION ISOLATION LEVEL READ COMMITTED"))
    url = sa.make_url(own_mariadb.url).set(database="model").render_as_string(hide_password=False)
    store = migrate(opened(url, max_pool_size=1, max_overflow=0))
    other = opened(url)
    try:
        cycle_on(other).run(Batch(events=[told(1, meter("a")), told(2, meter("b"))]))
        with store.database.connect() as connection:  # as a lease does; the level returns with the connection
            connection.execution_options(isolation_level="AUTOCOMMIT").execute(sa.text("SELECT 1"))
        for _ in range(2):
            with store.database.connect() as connection:
                assert names(connection, store) == ["a", "b"]
                with other.database.begin() as deleting:
                    deleting.execute(sa.delete(other.tables.entities["meter"]))
                assert names(connection, store) == ["a", "b"]
            # A lease reads what others commit meanwhile; the next transaction of its connection does not.
            with OperationLeases(store.database, store.tables)._begin() as connection:
                assert names(connection, store) == []
            with store.database.connect() as connection:
                assert names(connection, store) == []
            cycle_on(other).run(Batch(events=[told(3, meter("a", "2")), told(4, meter("b", "2"))]))
    finally:
        for each in (store, other):
            each.close()
            each.database.dispose()


def names(connection: sa.Connection, store: Store) -> list[str]:
    page = read_page(connection, store.tables, store.kinds["meter"], names=["id"], sort=Sort(), after=None, limit=10)
    return [row["id"] for row in page.rows]


@pytest.mark.parametrize(
    ("query", "parameters"),
    [
        ({}, ""),
        ({"charset": "utf8"}, ""),
        ({"charset": "utf8mb3", "collation": "utf8mb3_general_ci"}, ""),
        ({}, "charset=utf8"),
    ],
)
def test_mariadb_stores_every_character_by_the_urls_that_guides_and_tools_write(
    mariadb_url: str, query: dict[str, str], parameters: str
):
    url = sa.make_url(mariadb_url).set(drivername="mysql").update_query_dict(query)
    store = migrate(opened(url.render_as_string(hide_password=False), connection_parameters=parameters))
    try:
        cycle_on(store).run(Batch(events=[told(1, meter("m", owner=LAST_PLANE))]))
        table = store.tables.entities["meter"]
        with store.database.connect() as connection:
            assert connection.execute(sa.select(table.c.owner)).scalars().all() == [LAST_PLANE]
            wanted = clause(store.kinds["meter"], table, "mysql", FieldCondition("owner", "eq", (LAST_PLANE,)))
            assert connection.execute(sa.select(table.c.id).where(wanted)).scalars().all() == ["m"]
    finally:
        store.close()
        store.database.dispose()


def test_a_character_set_of_mariadb_that_lacks_characters_is_refused_by_name():
    with pytest.raises(ConfigError, match=r"\[database\] connection: the character set latin1 .* write utf8mb4"):
        opened("mysql://root@127.0.0.1/any?charset=latin1")


@pytest.mark.parametrize(
    ("driver", "usual"),
    [("postgresql+psycopg2", "postgresql"), ("mysql+mysqldb", "mysql"), ("mariadb+mysqldb", "mysql")],
)
def test_a_url_of_a_driver_that_is_not_installed_is_refused_naming_the_url_of_the_installed(driver: str, usual: str):
    with pytest.raises(ConfigError, match=rf"No module named .*, for {re.escape(driver)}://; {usual}:// takes the ins"):
        opened(f"{driver}://root@127.0.0.1/any")


@pytest.mark.parametrize("encoding", ["SQL_ASCII", "LATIN1"])
def test_db_sync_refuses_a_postgresql_database_that_does_not_store_every_text(postgresql_url: str, encoding: str):
    """A cluster that was made without a locale has SQL_ASCII by default."""
    url = sa.make_url(postgresql_url)
    name = f"{url.database}_{encoding.lower()}"
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with admin.connect() as connection:
        connection.exec_driver_sql(
            f"CREATE DATABASE {name} ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
        )
    store = opened(url.set(database=name).render_as_string(hide_password=False))
    try:
        for step in (schema.plan, schema.upgrade):
            with pytest.raises(SchemaMissing, match=f"encoding {encoding}, which cannot store every text"):
                step(store.database, store.tables)
    finally:
        store.database.dispose()
        with admin.connect() as connection:
            connection.exec_driver_sql(f"DROP DATABASE {name} WITH (FORCE)")


SETTINGS = {
    "DateStyle": "'SQL, DMY'", "IntervalStyle": "'sql_standard'", "TimeZone": "'Asia/Kolkata'",
    "bytea_output": "'escape'",
    "client_encoding": "'LATIN1'", "extra_float_digits": "-15", "default_transaction_isolation": "'serializable'",
    "standard_conforming_strings": "off", "transform_null_equals": "on", "backslash_quote": "on",
    "default_transaction_deferrable": "on", "search_path": "public, pg_catalog", "quote_all_identifiers": "on",
}  # fmt: skip
"""Defaults of a database or a role that change what a connection writes or reads."""


@pytest.mark.parametrize("setting", SETTINGS)
def test_a_default_of_a_postgresql_database_changes_nothing_that_is_stored_or_read(postgresql_url: str, setting: str):
    values = {"owner": f"{LAST_PLANE} \\ ' é", "ratio": 0.1 + 0.2}
    written = []
    for default in ("DEFAULT", SETTINGS[setting]):
        name = sa.make_url(postgresql_url).database
        admin = sa.create_engine(postgresql_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
        with admin.connect() as connection:
            connection.exec_driver_sql(f"ALTER DATABASE {name} SET {setting} = {default}")
        store = migrate(opened(postgresql_url))
        try:
            cycle_on(store).run(Batch(events=[told(len(written) + 1, meter(f"m{len(written)}", **values))]))
            with store.database.connect() as connection:
                times = connection.execute(sa.select(store.tables.journal.c.time)).scalars().all()
                deltas = connection.execute(sa.select(store.tables.journal.c.delta)).scalars().all()
                table = store.tables.entities["meter"]
                rows = connection.execute(sa.select(table.c.owner, table.c.ratio)).all()
            assert {tuple(row) for row in rows} == {tuple(values.values())}
            assert all(time.tzinfo is datetime.UTC for time in times)
            assert all(abs(datetime.datetime.now(datetime.UTC) - time) < datetime.timedelta(hours=1) for time in times)
            written.append(deltas[-1])
        finally:
            store.close()
            store.database.dispose()
    assert written[0] == written[1]


def test_postgresql_may_have_another_style_of_dates_by_default_and_is_asked_to_prepare_nothing(postgresql_url: str):
    """A pooler that gives each transaction another connection to the server lacks what was prepared."""
    name = sa.make_url(postgresql_url).database
    admin = sa.create_engine(postgresql_url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    with admin.connect() as connection:
        connection.exec_driver_sql(f"ALTER DATABASE {name} SET DateStyle = 'SQL, DMY'")
    store = migrate(opened(postgresql_url, max_pool_size=1, max_overflow=1))
    try:
        for number in range(10):
            cycle_on(store).run(Batch(events=[told(number, meter(f"m{number}"))]))
        with store.database.connect() as connection:
            times = connection.execute(sa.select(store.tables.journal.c.time)).scalars().all()
            assert [time.tzinfo for time in times] == [datetime.UTC] * 10
        assert store._connection is not None
        prepared = store._connection.exec_driver_sql("SELECT count(*) FROM pg_prepared_statements").scalar_one()
        assert prepared == 0
    finally:
        store.close()
        store.database.dispose()
