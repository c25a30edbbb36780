# SPDX-License-Identifier: Apache-2.0
"""Full jitter: uniform pauses below a bound that doubles from 1 to 60 seconds."""

from __future__ import annotations

import random

from watcher_sync.client.watch.backoff import Backoff


class Highest(random.Random):
    """Draws the upper bound."""

    def uniform(self, a, b):
        return b


def test_the_bound_doubles_from_one_to_sixty_seconds():
    backoff = Backoff(rng=Highest())

    assert [backoff.next() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_bound_survives_any_number_of_failures():
    backoff = Backoff(rng=Highest())
    for _ in range(5_000):
        backoff.next()

    assert backoff.next() == 60


def test_after_a_success_the_shortest_bound_returns():
    backoff = Backoff(rng=Highest())
    backoff.next()
    backoff.next()
    backoff.reset()

    assert backoff.next() == 1


def test_pauses_are_spread_over_the_whole_range():
    backoff = Backoff(4.0, 4.0, rng=random.Random(1))
    pauses = [backoff.next() for _ in range(400)]

    assert all(0 <= pause <= 4 for pause in pauses)
    assert min(pauses) < 0.2
    assert max(pauses) > 3.8
