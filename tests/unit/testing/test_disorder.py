# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import collections
import random

from watcher_sync.testing.disorder import dropped, duplicated, shuffled

HISTORY = list(range(1_000))


def test_a_shuffled_history_has_the_same_events_in_another_order() -> None:
    assert sorted(shuffled(HISTORY, random.Random(1))) == HISTORY
    assert shuffled(HISTORY, random.Random(1)) != HISTORY


def test_within_a_window_no_event_moves_further_than_the_window() -> None:
    mixed = shuffled(HISTORY, random.Random(1), window=10)
    assert sorted(mixed) == HISTORY
    assert mixed != HISTORY
    assert max(abs(place - event) for place, event in enumerate(mixed)) <= 10
    assert shuffled(HISTORY, random.Random(1), window=0) == HISTORY


def test_a_duplicate_comes_after_the_first_delivery_and_the_rest_stays_in_order() -> None:
    twice = duplicated(HISTORY, random.Random(1), 0.25)
    counts = collections.Counter(twice)
    assert counts.keys() == set(HISTORY)
    assert sum(count == 2 for count in counts.values()) == 250
    assert list(dict.fromkeys(twice)) == HISTORY


def test_a_dropped_event_is_gone_and_the_rest_stays_in_order() -> None:
    rest = dropped(HISTORY, random.Random(1), 0.1)
    assert len(rest) == 900
    assert rest == sorted(rest)
