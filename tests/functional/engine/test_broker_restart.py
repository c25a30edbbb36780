# SPDX-License-Identifier: Apache-2.0
"""A broker that is restarted under load."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from tests.functional.engine.driving import Installation, Line
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.waiting import wait_until
from watcher_sync.testing.nova.cloud import CloudSimulator


@pytest.fixture
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node() as made:
        yield made


@contextmanager
def stopped(node: RabbitMQNode) -> Iterator[None]:
    """The whole process is stopped for as long as this lasts."""
    node.stop()
    yield
    node.start()


@pytest.mark.parametrize("away", [RabbitMQNode.out_of_service, pytest.param(stopped, marks=pytest.mark.rare)])
def test_a_broker_restart_loses_nothing_and_the_engine_goes_on(
    install: Callable[..., Installation],
    node: RabbitMQNode,
    sqlite_url: str,
    figure: Callable[[str], None],
    away: Callable[[RabbitMQNode], AbstractContextManager[None]],
) -> None:
    # Queues and messages on disk, by the defaults; what the publisher was not sure of it sends again.
    nova = Line("nova", node.url, durable=True)
    site = install(sqlite_url, engine__enabled_sources="nova")
    site.options |= nova.source("nova")
    site.upgrade()
    config = site.config()
    cloud = CloudSimulator(seed=40, hosts=20, instances=200)
    engine = site.engine(config)
    engine.wait_until_leading()
    with nova.publishing(cloud.events(), rate=500, most=40_000):
        wait_until(lambda: site.head() > 100, what="load")
        left = time.monotonic()
        with away(node):
            engine.wait_for_log("source nova: disconnected")
        returned = time.monotonic()
        head = site.head()
        wait_until(lambda: site.head() > head, what="a commit after the restart")
        resumed = time.monotonic() - returned
        figure(f"the broker was away for {returned - left:.1f} s, first commit {resumed:.1f} s after it")
    site.drain(config, nova, engine=engine)
    nova.close()
    assert engine.logged("Loaded the model") == 1
    site.check(cloud.reported())
