# SPDX-License-Identifier: Apache-2.0
"""A stream without the pings of its service is replaced: a proxy answers keepalives for a service that is gone."""

from __future__ import annotations

import pytest

from tests.unit.client.watch.watching import Watching
from tests.waiting import wait_until
from watcher_sync.client.watch import silence
from watcher_sync.client.watch.silence import MIN_SILENCE_SECONDS, StreamSilence


def test_a_service_without_pings_may_be_silent_indefinitely():
    made = StreamSilence()
    made.receive(5.0)
    assert made.deadline is None


@pytest.mark.parametrize("first", [15.0, 30.0])
def test_a_stream_is_lost_when_at_least_two_pings_are_missing(first):
    made = StreamSilence()
    made.ping(first)
    assert made.deadline >= first + 2 * 30
    made.ping(first + 30)
    assert made.deadline == first + 30 + 4 * 30


def test_every_message_is_a_sign_of_life_and_frequent_pings_leave_time_for_a_pause():
    made = StreamSilence()
    made.ping(0.1)
    assert made.deadline == 0.1 + MIN_SILENCE_SECONDS
    made.receive(20.0)
    assert made.deadline == 20.0 + MIN_SILENCE_SECONDS


def test_a_stream_that_never_brings_a_ping_is_lost_if_an_earlier_one_did():
    made = StreamSilence()
    made.begin(100.0)
    made.ping(130.0)
    made.begin(1000.0)
    assert made.deadline == 1000.0 + 4 * 30


@pytest.mark.slow
@pytest.mark.parametrize("bookmark", [0, 3])
def test_a_stream_that_falls_silent_is_followed_by_another_that_resumes(service, monkeypatch, bookmark):
    monkeypatch.setattr(silence, "MIN_SILENCE_SECONDS", 0.2)
    service.topic.publish(3)
    with Watching(service, after=2) as watching:
        watching.wait_for(1)
        service.open_streams()[0].ping("one", bookmark)
        wait_until(lambda: len(service.streams) >= 2)
        service.topic.publish(1)
        assert watching.wait_for(2) == [3, 4]
    assert service.streams[1].requests[0].resumeAfterSequence == 3
