# SPDX-License-Identifier: Apache-2.0
"""A batch has as many events as the engine commits in 0.1 seconds, and never none."""

from __future__ import annotations

import pytest

from watcher_sync.engine.consumer import BatchPace


def paced(*batches):
    pace = BatchPace()
    for events, seconds in batches:
        pace.observe(events, seconds)
    return pace


def test_fast_events_fill_a_batch():
    assert BatchPace().most(2000) == 2000
    assert paced((2000, 0.1), (2000, 0.1)).most(2000) == 2000


@pytest.mark.parametrize("milliseconds", [1.0, 2.0, 5.0])
def test_slow_events_make_batches_of_a_tenth_of_a_second(milliseconds):
    pace = paced(*[(500, 0.5 * milliseconds)] * 20)
    assert pace.most(2000) == pytest.approx(100 / milliseconds, rel=0.01)


def test_the_slowest_events_come_in_batches_of_some():
    assert paced(*[(1, 60.0)] * 20).most(2000) == 20
    assert paced(*[(1, 60.0)] * 20).most(5) == 5


def test_it_recovers_when_events_are_fast_again():
    assert paced((20, 60.0), *[(20, 0.0005)] * 20).most(2000) == 2000


def test_an_empty_batch_says_nothing():
    assert paced((0, 60.0)).most(2000) == 2000
