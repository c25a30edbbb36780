# SPDX-License-Identifier: Apache-2.0
"""Pauses that grow up to a limit, with jitter."""

from __future__ import annotations

import random

import pytest

from watcher_sync.backoff import Backoff


def highest(_least: float, most: float) -> float:
    """Draws the upper bound."""
    return most


def test_the_pause_doubles_up_to_the_limit() -> None:
    backoff = Backoff(1.0, 60.0, uniform=highest)
    assert [backoff.failed() for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_the_limit_survives_any_number_of_failures() -> None:
    backoff = Backoff(1.0, 60.0, uniform=highest)
    for _ in range(5_000):
        backoff.failed()
    assert backoff.failed() == 60


def test_after_a_success_the_shortest_pause_returns() -> None:
    backoff = Backoff(1.0, 60.0, uniform=highest)
    backoff.failed()
    backoff.failed()
    backoff.succeeded()
    assert backoff.failed() == 1


@pytest.mark.parametrize(("jitter", "least"), [(1.0, 0.0), (0.5, 2.0), (0.0, 4.0)])
def test_chance_takes_away_at_most_its_share_of_a_pause(jitter: float, least: float) -> None:
    backoff = Backoff(4.0, 4.0, jitter=jitter, uniform=random.Random(1).uniform)
    pauses = [backoff.failed() for _ in range(400)]
    assert all(least <= pause <= 4 for pause in pauses)
    assert min(pauses) <= least + 0.2
    assert max(pauses) > 3.8


def test_a_pause_forgets_its_failures_only_behind_the_place_where_they_were() -> None:
    backoff = Backoff(1.0, 60.0, uniform=highest)
    assert backoff.failed(at=7) == 1
    assert not backoff.moved(3)
    assert not backoff.moved(7)
    assert backoff.failed(at=7) == 2
    assert backoff.moved(8)
    assert not backoff.moved(9)
    assert backoff.failed(at=9) == 1
