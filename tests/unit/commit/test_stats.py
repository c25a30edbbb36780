# SPDX-License-Identifier: Apache-2.0
"""What is measured is counted in the bucket that it belongs to."""

from __future__ import annotations

import pytest

from watcher_sync.commit.stats import CommitStats, Distribution
from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome


@pytest.mark.parametrize(("value", "counts"), [(0, [1, 0, 0]), (1, [1, 0, 0]), (1.5, [0, 1, 0]), (2.1, [0, 0, 1])])
def test_a_value_falls_into_the_first_bucket_whose_bound_it_does_not_exceed(value, counts):
    measured = Distribution((1, 2))
    measured.observe(value)
    assert (measured.counts, measured.sum) == (counts, value)


def test_an_event_that_was_parked_is_through_once():
    stats = CommitStats()
    events = [Event(id=f"e-{n}", type="t", source=source) for n, source in enumerate(("nova", "nova", "dcm"))]
    stats.count(events, [Outcome.APPLIED, Outcome.QUARANTINED, Outcome.PARKED])
    assert (stats.through("nova"), stats.through("dcm"), stats.through()) == (2, 1, 3)
    stats.count_unparked(events[2:], [Outcome.APPLIED])
    assert (stats.through("dcm"), stats.through()) == (1, 3)
