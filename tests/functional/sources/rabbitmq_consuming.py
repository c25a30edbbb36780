# SPDX-License-Identifier: Apache-2.0
"""A source of the driver ``rabbitmq``, and what the broker says of its queue."""

from __future__ import annotations

from typing import Any

from amqp import exceptions as amqp_exceptions

from tests.functional.sources.listening import BROKER, Engine, Publisher, listening
from tests.waiting import Deadline, wait_until
from watcher_sync.extensions.openstack.source.rabbitmq.source import RabbitMQSource

QUORUM = f"{BROKER}?rabbit_quorum_queue=true"


def consuming(name: str, engine: Engine, url: str = BROKER, **options: Any) -> Any:
    return listening(name, engine, url, driver=RabbitMQSource, **options)


def unacked_after(publisher: Publisher, count: int, published: int) -> None:
    """Wait until the broker has delivered ``count`` of what was published, and nothing more for a while."""
    wait_until(lambda: publisher.waiting() == published - count)
    settled = Deadline(0.3)
    wait_until(lambda: settled.is_over)
    assert publisher.waiting() == published - count


def consumers(publisher: Publisher) -> int:
    """The consumers that the broker knows of the queue; 0 where there is no queue."""
    try:
        return int(publisher.channel.queue_declare(queue=publisher.name, passive=True).consumer_count)
    except amqp_exceptions.NotFound:
        publisher.channel = publisher.connection.channel()
        return 0
