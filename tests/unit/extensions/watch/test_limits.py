# SPDX-License-Identifier: Apache-2.0
"""How many streams there may be."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.watch.endings import StreamEnding
from watcher_sync.extensions.watch.limits import StreamLimits, address_of


def test_a_stream_beyond_the_limit_of_the_process_is_refused() -> None:
    limits = StreamLimits(2, 5)
    limits.enter("a")
    limits.enter("b")
    with pytest.raises(StreamEnding, match="RESOURCE_EXHAUSTED"):
        limits.enter("c")
    limits.leave("a")
    limits.enter("c")
    assert limits.count == 2


def test_a_stream_beyond_the_limit_of_its_identity_is_refused() -> None:
    limits = StreamLimits(9, 1)
    limits.enter("a")
    with pytest.raises(StreamEnding, match="RESOURCE_EXHAUSTED"):
        limits.enter("a")
    limits.enter("b")


def test_a_stream_counts_for_one_identity_at_a_time() -> None:
    limits = StreamLimits(9, 1)
    limits.enter("address")
    limits.move("address", "user")
    limits.enter("address")
    with pytest.raises(StreamEnding, match="RESOURCE_EXHAUSTED"):
        limits.move("address", "user")
    assert limits.count == 2
    limits.leave("user")
    limits.leave("address")
    assert limits.count == 0


def test_streams_without_a_subscription_leave_room_for_others() -> None:
    limits = StreamLimits(4, 4, 2)
    limits.enter("a")
    limits.enter("b")
    with pytest.raises(StreamEnding, match="no subscription"):
        limits.enter("c")
    limits.move("a", ("user", "p"))
    limits.enter("c")
    limits.leave(("user", "p"))
    with pytest.raises(StreamEnding, match="no subscription"):
        limits.enter("d")
    limits.leave("b")
    limits.enter("d")
    for each in ("c", "d"):
        limits.leave(each)
    assert limits.count == 0


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:192.0.2.1:5000", "ipv4:192.0.2.1"),
        ("ipv6:%5B2001:db8:1:2:3::4%5D:5000", "ipv6:2001:db8:1:2::/64"),
        ("ipv6:[2001:db8:1:2::9]:5001", "ipv6:2001:db8:1:2::/64"),
        ("ipv6:[::ffff:192.0.2.1]:5000", "ipv4:192.0.2.1"),
        ("ipv6:[fe80::1%25eth0]:5000", "ipv6:fe80::/64"),
        ("unix:", "unix"),
    ],
)
def test_an_identity_before_the_subscription_is_an_address_or_a_network(peer: str, address: str) -> None:
    assert address_of(peer) == address
