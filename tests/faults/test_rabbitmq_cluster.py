# SPDX-License-Identifier: Apache-2.0
"""The nodes of a RabbitMQ cluster are killed in turn under a source that consumes a quorum queue at load.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number of kills.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable

import pytest
from oslo_service import backend

backend.init_backend(backend.BackendType.THREADING)

from tests.functional.sources.rabbitmq_source import Observed, Sender, arrives  # noqa: E402
from tests.services.rabbitmq import private_rabbitmq_cluster, url_of_cluster  # noqa: E402
from watcher_sync.sources.base import SourceState  # noqa: E402

ROUNDS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "6"))
NAME = "quorum"


@pytest.mark.timeout(180 + 60 * ROUNDS)
def test_a_quorum_queue_loses_nothing_while_the_nodes_of_its_cluster_are_killed_in_turn(
    figure: Callable[[str], None],
) -> None:
    slowest = 0.0
    published = 0
    with private_rabbitmq_cluster(3) as nodes:
        url = f"{url_of_cluster(nodes)}?rabbit_quorum_queue=true"
        with Observed(url, NAME, batch_size=50) as observed:
            observed.wait_for(SourceState.CONNECTED, 30)
            for number in range(ROUNDS):
                gone, stays = nodes[number % 3], nodes[(number + 1) % 3]
                sender = Sender(stays, NAME, durable=True, first=published)
                ids = sender.publish(300)
                gone.kill()
                killed = time.monotonic()
                # The broker confirms each of them.
                ids += sender.publish(300)
                arrives(observed, ids, 30)
                slowest = max(slowest, time.monotonic() - killed)
                observed.wait_for(SourceState.CONNECTED, 10)
                published += 600
                gone.start()
                sender.close()
            arrives(observed, [f"m-{number}" for number in range(published)])
    figure(f"{ROUNDS} kills, {published} events, the last of each round within {slowest:.1f} s of the kill")
    assert slowest < 15
