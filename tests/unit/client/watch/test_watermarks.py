# SPDX-License-Identifier: Apache-2.0
"""The watermark is stored at most once a second, and a store that fails is tried again."""

from __future__ import annotations

import logging

import pytest

from watcher_sync.client.watch.sequences import WatermarkWriter


class Store:
    """Records the watermarks; fails as often as the test says."""

    def __init__(self):
        self.stored = []
        self.failures = 0

    def get(self, topic):
        return 0

    def set(self, topic, sequence):
        if self.failures:
            self.failures -= 1
            raise OSError("no space left")
        self.stored.append(sequence)


@pytest.fixture
def clock():
    return [100.0]


@pytest.fixture
def store():
    return Store()


@pytest.fixture
def writer(store, clock):
    return WatermarkWriter(store, "/a", 5, logging.getLogger("test"), monotonic=lambda: clock[0])


def test_the_first_watermark_is_stored_at_once_and_the_next_after_a_second(writer, store, clock):
    for sequence in (6, 7, 8):
        writer.advance(sequence)
        writer.save_if_due()
    assert store.stored == [6]
    assert not writer.is_saved
    clock[0] += 1
    writer.save_if_due()

    assert store.stored == [6, 8]
    assert writer.is_saved


def test_the_end_of_a_watch_stores_the_watermark_without_delay(writer, store):
    writer.advance(6)
    writer.save_if_due()
    writer.advance(7)
    writer.save()

    assert store.stored == [6, 7]


def test_a_watermark_never_goes_back_and_is_not_stored_twice(writer, store):
    writer.advance(4)
    writer.save()

    assert writer.delivered == 5
    assert not store.stored


def test_a_store_that_fails_is_logged_once_and_tried_again(writer, store, clock, caplog):
    store.failures = 2
    writer.advance(6)
    for _ in range(3):
        writer.save_if_due()
        clock[0] += 1

    assert store.stored == [6]
    assert caplog.text.count("the watermark cannot be stored: no space left") == 1
