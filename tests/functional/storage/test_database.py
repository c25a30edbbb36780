# SPDX-License-Identifier: Apache-2.0
"""Every pool option of ``[database]`` may be set for every database, as in a configuration that several share."""

from __future__ import annotations

import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.functional.storage.listing import read_page
from tests.functional.storage.writing import cycle_on, meter
from tests.migrated import migrate
from tests.services.servers import Server
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.read.entity_reader import Sort
from watcher_sync.storage.groups.operation_leases import OperationLeases
from watcher_sync.storage.writing.store import Store


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
