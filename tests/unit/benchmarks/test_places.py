# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import itertools

import pytest

from tests.benchmarks.places import among


@pytest.mark.parametrize("count", [99, 100, 990, 1_000])
def test_one_in_a_hundred_is_bad_and_the_good_ones_are_all_there_in_their_order(count: int) -> None:
    mixed = list(among(range(count), "xyz"))
    assert [item for item in mixed if isinstance(item, int)] == list(range(count))
    bad = [item for item in mixed if isinstance(item, str)]
    assert bad == list(itertools.islice(itertools.cycle("xyz"), count // 99))
    assert mixed[0] == 0
    assert mixed[-1] == count - 1


def test_too_few_for_one_in_a_hundred_stay_as_they_are() -> None:
    assert list(among(range(98), "x")) == list(range(98))
