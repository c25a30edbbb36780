# SPDX-License-Identifier: Apache-2.0
"""A reader that takes the rows of a long result slowly gets all of them."""

from __future__ import annotations

import time

import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.waiting import wait_until
from watcher_sync.storage.database.time_limits import wait_longer

ROWS = 48
LIMIT_SECONDS = 2


def test_mariadb_waits_for_a_reader_that_computes_between_the_rows_of_a_long_result(migrated_mariadb_url: str) -> None:
    store = opened(migrated_mariadb_url, idle_transaction_timeout=LIMIT_SECONDS)
    query = sa.text(f"SELECT seq, REPEAT('x', 1000000) FROM seq_1_to_{ROWS}")
    try:
        with store.database.connect() as connection:
            wait_longer(connection)
            rows = iter(connection.execute(query, execution_options={"yield_per": 1}))
            found = [next(rows).seq]
            goes_on_at = time.monotonic() + 2.5 * LIMIT_SECONDS  # wait: longer than the server's limit
            wait_until(lambda: time.monotonic() > goes_on_at)
            found += [row.seq for row in rows]
        assert found == list(range(1, ROWS + 1))
        with store.database.connect() as connection:
            after = connection.exec_driver_sql("SELECT @@net_write_timeout, @@idle_readonly_transaction_timeout").one()
        assert tuple(after) == (LIMIT_SECONDS, LIMIT_SECONDS)
    finally:
        store.database.dispose()
