# SPDX-License-Identifier: Apache-2.0
"""The database is away for 20 s, and RabbitMQ waits 5 s for an acknowledgement: twenty rounds, with and without kills.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number of rounds.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.functional.engine.driving import Installation  # noqa: E402
from tests.functional.engine.rabbitmq_rounds import DatabaseOutages  # noqa: E402
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node  # noqa: E402
from tests.services.servers import Server  # noqa: E402

ROUNDS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "20"))
AWAY = 20.0


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node(consumer_timeout=5) as made:
        yield made


@pytest.mark.timeout(120 + 90 * ROUNDS)
@pytest.mark.parametrize("kills", [False, True], ids=["engine-stays", "engine-is-killed"])
def test_twenty_outages_beyond_the_consumer_timeout_lose_nothing_and_consuming_resumes(
    install: Callable[..., Installation],
    node: RabbitMQNode,
    own_postgresql: Server,
    kills: bool,
    figure: Callable[[str], None],
) -> None:
    site = install(own_postgresql.url, engine__enabled_sources="nova", engine__batch_size=100)
    outages = DatabaseOutages(
        site, node, own_postgresql, away=AWAY, kills=kills, seed=3 + kills, hand_back_after=2.5
    )  # fmt: skip
    seen = [outages.run() for _ in range(ROUNDS)]
    seconds = sorted(one.seconds for one in seen)
    figure(f"{ROUNDS} rounds, first commit {seconds[0]:.1f} to {seconds[-1]:.1f} s after the outage")
    outages.check()
    assert seconds[-1] < 5
