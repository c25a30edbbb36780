# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ is broken on purpose, and is as before afterwards."""

from __future__ import annotations

import time
from collections.abc import Iterator

import amqp
import kombu
import pytest

from tests.services.probes import why_unusable
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.waiting import deadline, wait_until


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node(consumer_timeout=1) as made:
        yield made


def test_an_alarm_is_raised_and_cleared(node: RabbitMQNode) -> None:
    with node.memory_alarm():
        assert "memory" in node.alarms()
    with node.disk_alarm():
        assert "disk" in node.alarms()
    assert node.alarms() == "[]"


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


def test_a_persistent_message_survives_the_kill_of_a_private_rabbitmq(node: RabbitMQNode) -> None:
    url = "amqp://" + node.url.partition("://")[2]
    with kombu.Connection(url, transport_options={"confirm_publish": True}) as connection:
        connection.SimpleQueue("kept").put({"answer": 42}, delivery_mode=2)
    node.kill()
    assert why_unusable("rabbitmq", node.url) is not None
    node.start()
    with kombu.Connection(url) as connection:
        message = connection.SimpleQueue("kept").get(timeout=deadline(60))
        assert message.payload == {"answer": 42}
        message.ack()
