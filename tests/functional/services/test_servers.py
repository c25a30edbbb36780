# SPDX-License-Identifier: Apache-2.0
"""The private servers are real: what they were given survives what tests do to them."""

from __future__ import annotations

import pytest
import sqlalchemy

from tests.services.servers import Server, is_alive, private_postgresql


def test_a_committed_row_survives_the_kill_of_a_private_postgresql(own_postgresql: Server) -> None:
    engine = sqlalchemy.create_engine(own_postgresql.url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t AS SELECT 42 AS answer")
    own_postgresql.kill()
    with pytest.raises(sqlalchemy.exc.OperationalError):
        engine.connect()
    own_postgresql.start()
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT answer FROM t").scalar() == 42


def test_a_private_server_leaves_neither_a_process_nor_a_folder_behind() -> None:
    with private_postgresql() as server:
        processes, home = server.processes(), server.home
        assert len(processes) > 1
        assert home.exists()
    # Not by its port: another test's server may have it by now.
    assert not [pid for pid in processes if is_alive(pid)]
    assert not home.exists()
