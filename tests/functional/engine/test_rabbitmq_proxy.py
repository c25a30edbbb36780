# SPDX-License-Identifier: Apache-2.0
"""The network between an engine and RabbitMQ cuts, stalls and half-closes connections."""

from __future__ import annotations

from collections.abc import Callable

from tests.faulty_proxy import FaultPlan, FaultyProxy
from tests.functional.engine.driving import Installation
from tests.functional.engine.rabbitmq_rounds import run_through_faults
from tests.services.rabbitmq import private_rabbitmq_node

FAULTS = 5
"""``tests/faults`` has a hundred."""


def test_connections_that_break_at_random_bytes_leave_the_model_as_the_truth(
    install: Callable[..., Installation], sqlite_url: str, figure: Callable[[str], None]
) -> None:
    site = install(sqlite_url, engine__enabled_sources="nova", engine__batch_size=40)
    with private_rabbitmq_node() as node, FaultyProxy(node.port, FaultPlan(2, bytes_up=(0, 1_500))) as proxy:
        run_through_faults(site, node, proxy, faults=FAULTS, figure=figure)
