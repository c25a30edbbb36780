# SPDX-License-Identifier: Apache-2.0
"""Each test gets a place of its own, and nothing of it stays."""

from __future__ import annotations

import kombu
import pytest
import sqlalchemy

from tests.functional.conftest import Broker
from tests.services.ensure import url_of


def test_any_database_is_empty_and_can_be_written(any_database_url: str) -> None:
    engine = sqlalchemy.create_engine(any_database_url, poolclass=sqlalchemy.NullPool)
    assert sqlalchemy.inspect(engine).get_table_names() == []
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE t (x INTEGER)")
        connection.exec_driver_sql("INSERT INTO t VALUES (1)")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT x FROM t").scalar() == 1


def test_what_a_test_made_on_the_broker_is_gone_after_it() -> None:
    broker = Broker(url_of("rabbitmq"))
    exchange = kombu.Exchange(broker.name("exchange"), type="topic", durable=False)
    queue = kombu.Queue(f"{broker.name('topic')}.info", exchange, routing_key="#", durable=False)
    with kombu.Connection(broker.amqp_url) as connection, connection.channel() as channel:
        queue(channel).declare()
        assert queue(channel).queue_declare(passive=True).queue == queue.name

    broker.clean_up()

    with kombu.Connection(broker.amqp_url) as connection:
        for declare in (lambda c: queue(c).queue_declare(passive=True), lambda c: exchange(c).declare(passive=True)):
            with pytest.raises(connection.channel_errors, match="NOT_FOUND"), connection.channel() as channel:
                declare(channel)
