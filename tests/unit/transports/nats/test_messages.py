# SPDX-License-Identifier: Apache-2.0
"""The numbers in the reply subject of a message, in each form that servers have had (NATS ADR-15)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from watcher_sync.client.log.consumer import _numbers_of
from watcher_sync.transports.nats.messages import NatsMessage, pending_of, read, stored_time_of

numbers = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize("rest", [[], ["token"], ["token", "5"]])
@pytest.mark.parametrize("account", [[], ["_", "hash"], ["domain", "hash"]])
@given(st.tuples(numbers, numbers, numbers, numbers, numbers))
def test_the_source_and_the_reader_of_the_log_find_the_same_numbers_in_each_form(
    account: list[str], rest: list[str], found: tuple[int, int, int, int, int]
) -> None:
    reply = ".".join(["$JS.ACK", *account, "stream", "9", *map(str, found), *(rest if account else [])])
    deliveries, sequence, consumer_sequence, stored_at, pending = found
    message = NatsMessage("dcm.vm", reply, b"")
    assert read(message).message is message
    assert (read(message).deliveries, read(message).sequence) == (deliveries, sequence)
    assert (read(message).consumer_sequence, read(message).stored_at) == (consumer_sequence, stored_at)
    assert (stored_time_of(reply), pending_of(reply)) == (stored_at, pending)
    assert _numbers_of(reply) == (sequence, consumer_sequence, pending)
