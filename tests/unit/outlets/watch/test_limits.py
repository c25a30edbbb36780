# SPDX-License-Identifier: Apache-2.0
"""How many streams there may be."""

from __future__ import annotations

import pytest

from watcher_sync.outlets.watch.endings import StreamEnd
from watcher_sync.outlets.watch.limits import Limits


def test_a_stream_beyond_the_limit_of_the_process_is_refused() -> None:
    limits = Limits(2, 5)
    limits.enter("a")
    limits.enter("b")
    with pytest.raises(StreamEnd, match="RESOURCE_EXHAUSTED"):
        limits.enter("c")
    limits.leave("a")
    limits.enter("c")
    assert limits.count == 2


def test_a_stream_beyond_the_limit_of_its_identity_is_refused() -> None:
    limits = Limits(9, 1)
    limits.enter("a")
    with pytest.raises(StreamEnd, match="RESOURCE_EXHAUSTED"):
        limits.enter("a")
    limits.enter("b")


def test_a_stream_counts_for_one_identity_at_a_time() -> None:
    limits = Limits(9, 1)
    limits.enter("address")
    limits.move("address", "user")
    limits.enter("address")
    with pytest.raises(StreamEnd, match="RESOURCE_EXHAUSTED"):
        limits.move("address", "user")
    assert limits.count == 2
    limits.leave("user")
    limits.leave("address")
    assert limits.count == 0
