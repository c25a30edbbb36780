# SPDX-License-Identifier: Apache-2.0
"""The database itself ends what takes a page too long: its client would only stop waiting for it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.sites import parsed
from watcher_sync.api.service import Service
from watcher_sync.exceptions import StatementTooLong

FOR_HOURS = {
    "sqlite": "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    "postgresql": "SELECT count(*) FROM generate_series(1, 1000000) a, generate_series(1, 1000000) b",
    "mysql": "SELECT count(*) FROM seq_1_to_1000000 a, seq_1_to_1000000 b",
}
UNDER_WAY = {
    "postgresql": "SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND datname = current_database()"
    " AND query LIKE '%1000000%' AND pid <> pg_backend_pid()",
    "mysql": "SELECT count(*) FROM information_schema.processlist WHERE db = database()"
    " AND info LIKE '%1000000%' AND id <> connection_id()",
}


def test_a_statement_of_a_page_ends_in_the_database_when_it_takes_too_long(any_migrated_url: str) -> None:
    conf = parsed()
    conf.set_override("read_timeout", 1, group="database")
    store = opened(any_migrated_url, statement_timeout=1)  # how a store without another limit is opened
    dialect = store.database.dialect.name
    service = Service(conf, store)
    try:
        with pytest.raises(StatementTooLong), service.reading(short=True) as connection:
            connection.exec_driver_sql(FOR_HOURS[dialect]).scalar()
        with service.reading(short=True) as connection:
            if dialect in UNDER_WAY:
                assert connection.execute(sa.text(UNDER_WAY[dialect])).scalar() == 0
            assert connection.execute(sa.select(sa.literal(1))).scalar() == 1
    finally:
        store.database.dispose()


SHOWN = {"postgresql": "SHOW statement_timeout", "mariadb": "SELECT @@max_statement_time"}


@pytest.mark.parametrize("service", SHOWN)
def test_a_long_reader_has_minutes_and_the_next_user_of_its_connection_has_the_short_limit(
    service: str, request: pytest.FixtureRequest
) -> None:
    store = opened(request.getfixturevalue(f"migrated_{service}_url"), statement_timeout=10)
    api, found = Service(parsed(), store), []
    try:
        for short in (True, False, True):
            with api.reading(short=short) as connection:
                found.append(str(connection.exec_driver_sql(SHOWN[service]).scalar()))
    finally:
        store.database.dispose()
    assert found in (["9s", "10min", "9s"], ["9.000000", "600.000000", "9.000000"], ["9.0", "600.0", "9.0"])
