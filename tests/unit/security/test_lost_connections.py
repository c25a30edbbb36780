# SPDX-License-Identifier: Apache-2.0
"""A connection that the server closed says nothing against the messages that were in flight."""

from __future__ import annotations

import pytest

from watcher_sync.extensions.dcm.source.isolation import ConnectionLosses
from watcher_sync.transports.nats.messages import JetStreamMessage, NatsMessage, read

STORED_AT = 1_000_000


def delivered(times: int) -> JetStreamMessage:
    return read(NatsMessage("dcm.vm", f"$JS.ACK.dcm-status.watcher-sync.{times}.7.9.{STORED_AT}.3", b""))


@pytest.mark.parametrize(
    ("times", "losses", "counted"),
    [
        (5, [], 5),
        (5, [STORED_AT + 1] * 3, 2),
        (5, [STORED_AT - 1] * 3, 5),
        (5, [STORED_AT - 1, STORED_AT + 1], 4),
        (2, [STORED_AT + 1] * 90, 1),
        (1, [STORED_AT + 1], 1),
    ],
)
def test_a_delivery_is_excused_for_each_connection_that_was_lost_since_the_message_was_stored(times, losses, counted):
    lost = ConnectionLosses()
    for time in losses:
        lost.add(time)
    assert lost.without(delivered(times)).deliveries == counted


def test_the_losses_that_are_remembered_are_bounded():
    lost = ConnectionLosses()
    for _ in range(100_000):
        lost.add(STORED_AT + 1)
    assert lost.without(delivered(1_000)).deliveries >= 900
