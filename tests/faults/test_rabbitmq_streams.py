# SPDX-License-Identifier: Apache-2.0
"""Twenty engines that read a stream of RabbitMQ are killed in the middle of it.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.functional.engine.driving import Installation, scaled  # noqa: E402
from tests.functional.engine.rabbitmq_streams import SOURCE, StreamLine, kill_engines  # noqa: E402
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node  # noqa: E402

KILLS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20"))


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node() as made:
        yield made


@pytest.mark.timeout(120 + 30 * KILLS)
def test_twenty_kills_in_a_stream_lose_nothing_and_apply_nothing_twice(
    install: Callable[..., Installation], node: RabbitMQNode, postgresql_url: str, figure: Callable[[str], None]
) -> None:
    site = install(postgresql_url, engine__enabled_sources=SOURCE, engine__batch_size=40)
    line = StreamLine("kills", node.url, site)
    line.declare()
    kill_engines(site, line, kills=KILLS, lot=scaled(20_000) // (KILLS + 1), figure=figure)
    line.close()
