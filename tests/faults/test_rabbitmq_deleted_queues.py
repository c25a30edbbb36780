# SPDX-License-Identifier: Apache-2.0
"""A queue of RabbitMQ is deleted forty times under five consumers at load.

``WATCHER_SYNC_TEST_ROUNDS`` changes the number.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.functional.sources.rabbitmq_deletions import delete_again_and_again
from tests.services.rabbitmq import private_rabbitmq_node

ROUNDS = int(os.environ.get("WATCHER_SYNC_TEST_ROUNDS", "40"))


@pytest.mark.timeout(60 + 20 * ROUNDS)
def test_each_deletion_of_the_queue_is_logged_and_recovered_within_five_seconds(figure: Callable[[str], None]) -> None:
    with private_rabbitmq_node() as node:
        seconds = sorted(delete_again_and_again(node, ROUNDS))
    figure(f"{len(seconds)} recoveries, median {seconds[len(seconds) // 2]:.2f} s, at most {seconds[-1]:.2f} s")
    assert seconds[-1] < 5
