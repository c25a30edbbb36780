# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ is broken on purpose, and is as before afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator

import amqp
import pytest

from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.waiting import deadline, wait_until


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node(consumer_timeout=1) as made:
        yield made


def test_an_alarm_is_raised_and_cleared(node: RabbitMQNode) -> None:
    with node.memory_alarm():
        assert "memory" in node.ctl("eval", "rabbit_alarm:get_alarms().")
    with node.disk_alarm():
        assert "disk" in node.ctl("eval", "rabbit_alarm:get_alarms().")
    assert node.ctl("eval", "rabbit_alarm:get_alarms().").strip() == "[]"


def test_a_consumer_that_does_not_ack_loses_its_channel_after_the_timeout(node: RabbitMQNode) -> None:
    with amqp.Connection(node.host) as connection:
        channel = connection.channel()
        channel.queue_declare("slow", exclusive=True)
        channel.basic_qos(0, 7, False)
        channel.basic_consume("slow", callback=lambda _message: None)
        assert node.consumers("slow") == [7]
        channel.basic_publish(amqp.Message("x"), "", "slow")
        began = time.monotonic()
        with pytest.raises(amqp.PreconditionFailed):
            while time.monotonic() - began < 60:
                connection.drain_events(timeout=deadline(60))
    wait_until(lambda: node.logged("timed out waiting"))
