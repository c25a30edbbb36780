# SPDX-License-Identifier: Apache-2.0
"""When the next attempt of a failed delivery is due.

Source: the retry schedule that the Standard Webhooks specification recommends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

SCHEDULE_SECONDS: Final = (0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400)
"""Seconds before each attempt, counted from the end of the one before."""

_JITTER: Final = 0.2
"""The share of a delay by which it may be shorter or longer."""


def delay_after(attempts: int, retry_after: float | None, random: Callable[[], float]) -> float | None:
    """Seconds until the next attempt; None if the schedule is exhausted.

    :param attempts: how many attempts have failed.
    :param retry_after: seconds that the receiver asked for, or None. The delay is never shorter.
    :param random: gives numbers from 0 to 1.
    """
    if attempts >= len(SCHEDULE_SECONDS):
        return None
    scheduled = SCHEDULE_SECONDS[max(attempts, 0)] * (1 - _JITTER + 2 * _JITTER * random())
    return max(scheduled, retry_after or 0.0)
