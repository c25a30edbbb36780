# SPDX-License-Identifier: Apache-2.0
"""What is measured is counted in the bucket that it belongs to."""

from __future__ import annotations

import pytest

from watcher_sync.commit.stats import Distribution


@pytest.mark.parametrize(("value", "counts"), [(0, [1, 0, 0]), (1, [1, 0, 0]), (1.5, [0, 1, 0]), (2.1, [0, 0, 1])])
def test_a_value_falls_into_the_first_bucket_whose_bound_it_does_not_exceed(value, counts):
    measured = Distribution((1, 2))
    measured.observe(value)
    assert (measured.counts, measured.sum) == (counts, value)
