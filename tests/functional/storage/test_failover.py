# SPDX-License-Identifier: Apache-2.0
"""A pool whose connections lead to a server that refuses writes, as the primary of before a failover does."""

from __future__ import annotations

import pytest

from tests.functional.storage.conftest import opened
from tests.migrated import migrate
from watcher_sync.storage.groups.leases import EngineLease

_READ_ONLY = {
    "postgresql": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
    "mariadb": "SET SESSION TRANSACTION READ ONLY",
}


@pytest.mark.parametrize("service", ["postgresql", pytest.param("mariadb", marks=pytest.mark.rare)])
def test_a_write_that_a_read_only_server_refuses_is_repeated_over_a_new_connection(
    request: pytest.FixtureRequest, service: str
) -> None:
    store = migrate(opened(request.getfixturevalue(f"{service}_url"), max_pool_size=1, max_overflow=0))
    lease = EngineLease(store.database, store.tables, "engine:g", seconds=6.0, holder="machine/1")
    assert lease.try_take()
    with store.database.connect() as connection:
        connection.exec_driver_sql(_READ_ONLY[service])
        connection.commit()
    lease.beat()
    view = lease.read()
    store.dispose()
    assert view is not None
    assert view.beat == 1
