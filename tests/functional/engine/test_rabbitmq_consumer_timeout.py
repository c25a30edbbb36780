# SPDX-License-Identifier: Apache-2.0
"""The database is away for longer than RabbitMQ waits for an acknowledgement."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.functional.engine.driving import Installation
from tests.functional.engine.rabbitmq_rounds import DatabaseOutages
from tests.services.rabbitmq import RabbitMQNode, private_rabbitmq_node
from tests.services.servers import Server


@pytest.fixture(scope="module")
def node() -> Iterator[RabbitMQNode]:
    with private_rabbitmq_node(consumer_timeout=8) as made:
        yield made


@pytest.mark.parametrize(
    ("kills", "rounds"),
    [(False, 1), pytest.param(True, 2, marks=pytest.mark.rare)],
    ids=["engine-stays", "engine-is-killed"],
)
def test_an_outage_beyond_the_consumer_timeout_loses_nothing_and_consuming_resumes(
    install: Callable[..., Installation],
    node: RabbitMQNode,
    own_postgresql: Server,
    kills: bool,
    rounds: int,
    figure: Callable[[str], None],
) -> None:
    site = install(own_postgresql.url, engine__enabled_sources="nova", engine__batch_size=100)
    outages = DatabaseOutages(
        site, node, own_postgresql, away=10, kills=kills, seed=1 + kills, hand_back_after=1.0
    )  # fmt: skip
    for _ in range(rounds):
        seen = outages.run()
        figure(f"first commit {seen.seconds:.1f} s after the outage, {seen.waiting} messages waited")
    outages.check()
