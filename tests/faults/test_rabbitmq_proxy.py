# SPDX-License-Identifier: Apache-2.0
"""A hundred times the network between an engine and RabbitMQ cuts, stalls, half-closes or forgets a connection.

``WATCHER_SYNC_TEST_FAULTS`` changes the number, ``WATCHER_SYNC_TEST_SEED`` where the faults are.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.faulty_proxy import FaultPlan, FaultyProxy  # noqa: E402
from tests.functional.engine.driving import Installation, Line  # noqa: E402
from tests.functional.engine.rabbitmq_rounds import run_through_faults  # noqa: E402
from tests.services.rabbitmq import private_rabbitmq_node  # noqa: E402

FAULTS = int(os.environ.get("WATCHER_SYNC_TEST_FAULTS", "100"))
SEED = int(os.environ.get("WATCHER_SYNC_TEST_SEED", "1"))


@pytest.mark.timeout(300 + 20 * FAULTS)
def test_a_hundred_faults_at_random_bytes_leave_the_model_as_the_truth(
    install: Callable[..., Installation], sqlite_url: str, figure: Callable[[str], None]
) -> None:
    site = install(sqlite_url, engine__enabled_sources="nova", engine__batch_size=40)
    plan = FaultPlan(SEED, bytes_up=(0, 4_000), bytes_down=(0, 4_000_000))
    with private_rabbitmq_node() as node, FaultyProxy(node.port, plan) as proxy:
        run_through_faults(site, Line(f"faults-{SEED}", node.url), proxy, faults=FAULTS, seed=SEED, figure=figure)
