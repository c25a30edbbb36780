# SPDX-License-Identifier: Apache-2.0
"""The source within a process keeps the contract of every source."""

from __future__ import annotations

import threading
import time

import pytest

from tests.simulated import event
from tests.waiting import deadline
from watcher_sync.demo.in_process import InProcessSource
from watcher_sync.sources.base import IntakeClosed, SourceState


class Engine:
    """Stores the events of the source, and refuses them once ``closed`` is set."""

    def __init__(self):
        self.events = []
        self.closed = False
        self.changed = threading.Condition()

    def emit(self, events):
        with self.changed:
            if self.closed:
                raise IntakeClosed
            self.events += events
            self.changed.notify_all()

    def wait_for(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.events) >= count, 60), self.events


@pytest.fixture
def engine():
    return Engine()


@pytest.fixture
def source(engine):
    source = InProcessSource("here")
    yield source
    source.stop(time.monotonic())


def test_what_is_put_comes_in_order_also_what_was_put_before_the_start(source, engine):
    events = [event(i) for i in range(500)]
    source.put(*events[:250])
    source.start(engine.emit)
    source.put(*events[250:])
    engine.wait_for(500)
    assert engine.events == events
    assert source.status().state is SourceState.CONNECTED


def test_it_is_settled_when_everything_is_acknowledged(source, engine):
    source.start(engine.emit)
    assert source.settled()
    source.put(event(1), event(2))
    assert not source.settled()
    engine.wait_for(2)
    source.ack(engine.events[:1])
    assert not source.settled()
    source.ack(engine.events[1:])
    assert source.settled()


def test_what_is_released_comes_again(source, engine):
    source.start(engine.emit)
    source.put(event(1), event(2))
    engine.wait_for(2)
    source.nack(list(engine.events), 0.0)
    engine.wait_for(4)
    assert [e.id for e in engine.events] == ["event-1", "event-2"] * 2


def test_an_engine_that_takes_nothing_more_leaves_nothing_in_hand(source, engine):
    engine.closed = True
    source.start(engine.emit)
    source.put(event(1))
    source._thread.join(deadline(60))
    assert source.status().lag == 1
    source.stop(time.monotonic() + deadline(120))
    assert source.status().state is SourceState.STOPPED
