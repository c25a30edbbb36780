# SPDX-License-Identifier: Apache-2.0
"""The publisher of the tests and the demo, against a real RabbitMQ."""

from __future__ import annotations

import json
import urllib.parse
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests.rabbitmq_publisher import Publisher
from watcher_sync.testing.nova import notifications
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.fixture
def publisher(broker: Any) -> Iterator[Publisher]:
    at = urllib.parse.urlsplit(broker.amqp_url)
    name = f"test-{uuid.uuid4().hex[:12]}"
    login = {"user": at.username or "guest", "password": at.password or "guest"}
    with Publisher(host=f"{at.hostname}:{at.port or 5672}", exchange=name, topic=name, **login) as made:
        queues = made.declare_queues()
        yield made
        for queue in queues:
            made._channel.queue_delete(queue)
        made._channel.exchange_delete(name)


def test_what_is_published_is_in_the_queue_of_its_priority_in_order(publisher: Publisher) -> None:
    history = [*CloudSimulator(seed=1, hosts=3, instances=5).history(700), notifications.event("instance.create.error")]
    assert publisher.publish(history) == 701
    for priority in ("info", "error"):
        expected = [event for event in history if event["priority"].lower() == priority]
        taken = []
        while (message := publisher._channel.basic_get(f"{publisher.topic}.{priority}", no_ack=True)) is not None:
            assert message.properties["content_type"] == "application/json"
            envelope = json.loads(message.body)
            assert envelope["oslo.version"] == "2.0"
            taken.append(json.loads(envelope["oslo.message"])["message_id"])
        assert taken == [event["message_id"] for event in expected]


def test_raw_bytes_arrive_as_they_are(publisher: Publisher) -> None:
    publisher.publish([b"\xff not json"])
    message = publisher._channel.basic_get(f"{publisher.topic}.info", no_ack=True)
    body = message.body
    assert (body.encode(errors="surrogateescape") if isinstance(body, str) else bytes(body)) == b"\xff not json"


def test_messages_are_published_at_the_given_rate(publisher: Publisher) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    publisher.publish([b"{}"] * 51, rate=100.0, clock=lambda: now[0], sleep=sleep)
    assert now[0] == pytest.approx(0.5)
