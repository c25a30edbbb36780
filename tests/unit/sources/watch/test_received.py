# SPDX-License-Identifier: Apache-2.0
"""The events that wait for the follower."""

from __future__ import annotations

import queue
import threading

import pytest

from watcher_sync.sources.watch.received import Received


def test_all_items_are_taken_together_and_in_order() -> None:
    received: Received[int] = Received(10)
    for number in range(5):
        received.put(number)
    assert received.take(0) == [0, 1, 2, 3, 4]
    assert received.take(0) == []


def test_a_full_queue_refuses_after_the_timeout() -> None:
    received: Received[int] = Received(1)
    received.put(1)
    with pytest.raises(queue.Full):
        received.put(2, True, 0.01)
    with pytest.raises(queue.Full):
        received.put(2, False)
    assert received.take(0) == [1]


def test_a_taker_waits_for_the_first_item_and_a_putter_for_room() -> None:
    received: Received[int] = Received(1)
    threads = [threading.Thread(target=received.put, args=(number, True, 10)) for number in (1, 2, 3)]
    for thread in threads:
        thread.start()
    found: list[int] = []
    while len(found) < 3:
        taken = received.take(10)
        assert len(taken) == 1
        found += taken
    for thread in threads:
        thread.join(10)
    assert sorted(found) == [1, 2, 3]
