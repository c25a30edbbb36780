# SPDX-License-Identifier: Apache-2.0
"""When the next attempt is due."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.extensions.webhooks.deliveries import SCHEDULE_SECONDS, delay_after

EXPECTED = list(enumerate([0, 5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400]))


@pytest.mark.parametrize(("attempts", "seconds"), EXPECTED)
def test_the_schedule_is_that_of_the_specification(attempts: int, seconds: int) -> None:
    assert delay_after(attempts, None, lambda: 0.5) == pytest.approx(seconds)


@pytest.mark.parametrize("attempts", [10, 11, 1000])
def test_after_ten_attempts_the_schedule_is_exhausted_whatever_the_receiver_asks(attempts: int) -> None:
    assert delay_after(attempts, None, lambda: 0.5) is None
    assert delay_after(attempts, 60.0, lambda: 0.5) is None


@given(st.integers(1, 9), st.floats(0, 1))
def test_the_jitter_is_at_most_a_fifth_either_way(attempts: int, drawn: float) -> None:
    delay = delay_after(attempts, None, lambda: drawn)

    assert delay is not None
    assert 0.8 * SCHEDULE_SECONDS[attempts] <= delay * 1.000001
    assert delay <= 1.2 * SCHEDULE_SECONDS[attempts] * 1.000001


def test_both_ends_of_the_jitter_are_reached() -> None:
    assert delay_after(2, None, lambda: 0.0) == pytest.approx(240)
    assert delay_after(2, None, lambda: 1.0) == pytest.approx(360)


def test_the_larger_of_schedule_and_retry_after_counts() -> None:
    assert delay_after(1, 60.0, lambda: 0.5) == 60.0
    assert delay_after(2, 60.0, lambda: 0.5) == pytest.approx(300)
    assert delay_after(1, 0.0, lambda: 0.5) == pytest.approx(5)
