# SPDX-License-Identifier: Apache-2.0
"""Nova's own samples of its notifications, where they are at hand."""

from __future__ import annotations

import datetime
import json
import os
import pathlib

import pytest

from watcher_sync.events import Event
from watcher_sync.model.changes import Outcome

FOLDER = pathlib.Path(
    os.environ.get(
        "WATCHER_SYNC_SAMPLES",
        pathlib.Path(__file__).parents[5].parent / "shared" / "data" / "nova_notifications",
    )
)
FILES = sorted(FOLDER.glob("*.json"))
SENT_BY_OTHERS = ("instance.lock", "instance.unlock", "instance.update", "service.delete", "service.update")
"""No signs of life of a compute."""
VM = "178b0921-8f85-4257-88b6-2e743b5a975c"

pytestmark = pytest.mark.skipif(not FILES, reason="the samples of Nova are not at hand")


def sample(number, file):
    envelope = json.loads(file.read_text())
    return Event(
        id=f"{number:010d}",
        type=envelope["event_type"],
        source="nova",
        origin=envelope["publisher_id"],
        time=datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC) + datetime.timedelta(seconds=number),
        data=envelope["payload"],
    )


@pytest.fixture
def samples():
    return [sample(number, file) for number, file in enumerate(FILES)]


@pytest.mark.parametrize("file", FILES, ids=[file.stem for file in FILES])
def test_every_sample_is_understood_decoded_or_not(nova, changes, file):
    event = sample(1, file)
    assert len(changes(event)) == (1 if event.type in SENT_BY_OTHERS else 2)
    assert changes(nova.as_json(event)) == changes(event)


def test_the_samples_played_twice_change_nothing_the_second_time(player, samples):
    first = [list(player.play(*samples).dump(kind)) for kind in ("instance", "compute_node")]
    outcomes = list(player.outcomes)
    assert Outcome.APPLIED in outcomes
    player.outcomes.clear()
    assert [list(player.play(*samples).dump(kind)) for kind in ("instance", "compute_node")] == first
    assert Outcome.APPLIED not in player.outcomes


def test_the_deletion_among_the_samples_is_final(play, samples):
    assert play(*samples).get("instance", VM) is None


def test_the_samples_without_the_deletion_leave_the_vm_on_the_destination_of_its_migration(play, samples):
    wanted = (
        "instance.create.end",
        "instance.live_migration_post_dest.end",
        "instance.live_migration_force_complete.end",
    )
    events = sorted((event for event in samples if event.type in wanted), key=lambda event: wanted.index(event.type))
    events = [
        Event(id=event.id, type=event.type, source="nova", time=event.time, origin=event.origin, data=event.data)
        for event in events
    ]
    assert play(*events).get("instance", VM).host == "host2"
