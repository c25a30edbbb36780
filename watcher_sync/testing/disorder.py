# SPDX-License-Identifier: Apache-2.0
"""Reorders, duplicates and drops the events of a history, as transports do.

Each function returns a new list with the same elements and does not change the given one. The caller passes the
random generator, so a seed repeats a failure.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def shuffled(history: Sequence[T], rng: random.Random, window: int | None = None) -> list[T]:
    """The history in another order.

    :param window: no event comes more than this many places early or late; None: any order at all.
    """
    if window is None:
        return rng.sample(history, len(history))
    keyed = sorted((i + rng.uniform(0, max(window, 0)), i) for i in range(len(history)))
    return [history[i] for _, i in keyed]


def duplicated(history: Sequence[T], rng: random.Random, fraction: float) -> list[T]:
    """The history in order, in which a fraction (0..1) of the events comes a second time, at once or later."""
    again = rng.sample(range(len(history)), round(len(history) * fraction))
    places = [(i, 0, i) for i in range(len(history))]
    places += [(rng.randrange(i, len(history)), 1, i) for i in again]
    return [history[i] for _, _, i in sorted(places)]


def dropped(history: Sequence[T], rng: random.Random, fraction: float) -> list[T]:
    """The history in order, without a fraction (0..1) of its events."""
    lost = set(rng.sample(range(len(history)), round(len(history) * fraction)))
    return [event for i, event in enumerate(history) if i not in lost]
