# SPDX-License-Identifier: Apache-2.0
"""The private servers are real: what they were given survives what tests do to them."""

from __future__ import annotations

import kombu
import pytest
import sqlalchemy

from tests.services.probes import why_unusable
from tests.services.servers import Server, private_postgresql


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
        assert why_unusable("postgresql", server.url) is None
        home = server.home
    assert why_unusable("postgresql", server.url) is not None
    assert not home.exists()


def test_a_persistent_message_survives_the_kill_of_a_private_rabbitmq(own_rabbitmq: Server) -> None:
    url = "amqp://" + own_rabbitmq.url.partition("://")[2]
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        connection.SimpleQueue("kept").put({"answer": 42}, delivery_mode=2)
    own_rabbitmq.kill()
    assert why_unusable("rabbitmq", own_rabbitmq.url) is not None
    own_rabbitmq.start()
    with kombu.Connection(url) as connection:
        message = connection.SimpleQueue("kept").get(timeout=10)
        assert message.payload == {"answer": 42}
        message.ack()
