# SPDX-License-Identifier: Apache-2.0
"""The simulated cloud of the demo waits for the engine, and its clock is the wall's."""

from __future__ import annotations

import datetime
import json
from typing import Any

from tests.waiting import wait_until
from watcher_sync.demo.existing_cloud import ExistingCloud
from watcher_sync.demo.live_cloud import LiveCloud
from watcher_sync.testing.dcm.providers import Message, ProviderSimulator
from watcher_sync.testing.nova.cloud import CloudSimulator

NOW = datetime.datetime(2030, 5, 1, 12, tzinfo=datetime.UTC)
TIMES = ("timestamp", "created_at", "updated_at", "launched_at", "terminated_at", "deleted_at", "last_seen_up")


def cloud() -> CloudSimulator:
    return CloudSimulator(seed=7, hosts=3, instances=5)


def test_the_cloud_publishes_nothing_while_it_is_held_back_at_its_end_too() -> None:
    committed = 0
    live = LiveCloud(cloud(), rate=None, disorder=True, held_back=lambda: live.published - committed >= 5)
    live.start()
    wait_until(lambda: live.published == 5)
    assert not live.stop(0.1)
    assert live.published == 5
    committed = 1000
    assert live.stop(60)
    assert live.failure is None


def timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: timeless(inner) for name, inner in value.items() if name not in TIMES}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value


def test_a_cloud_that_follows_a_clock_has_the_same_history_with_the_times_of_the_clock() -> None:
    plain, following = cloud(), cloud()
    following.follow(NOW.timestamp)
    expected, found = plain.history(400), following.history(400)
    assert timeless(json.loads(json.dumps(found))) == timeless(json.loads(json.dumps(expected)))
    times = [datetime.datetime.fromisoformat(f"{event['timestamp']}+00:00") for event in found]
    assert times == sorted(set(times))
    assert all(abs((time - NOW).total_seconds()) < 1 for time in times)


def test_providers_that_follow_a_clock_have_the_same_history_with_the_times_of_the_clock() -> None:
    plain = ProviderSimulator(seed=7, instances=5)
    following = ProviderSimulator(seed=7, instances=5, clock=lambda: NOW)
    for expected, found in zip(plain.history(100), following.history(100), strict=True):
        if isinstance(expected, Message):
            assert isinstance(found, Message)
            assert (found.subject, found.sequence) == (expected.subject, expected.sequence)
        else:
            assert found == expected
    rows = following.truth()["service_type_instance"].values()
    assert {row["status_updated_at"] for row in rows} <= {NOW, None}
    assert all(row["updated_at"] == NOW for row in following.truth()["provider"].values())


def test_the_cloud_of_the_demo_was_made_before_now_and_goes_on_now() -> None:
    with ExistingCloud(seed=7, hosts=3, instances=5) as existing:
        before = datetime.datetime.now(datetime.UTC).replace(microsecond=0)
        rows = existing.truth()["instance"].values()
        assert all(row["created_at"] < before for row in rows)
        event = existing.simulator.history(1)[0]
        assert datetime.datetime.fromisoformat(f"{event['timestamp']}+00:00") >= before
