# SPDX-License-Identifier: Apache-2.0
"""Histories recorded from a real Nova end in what its database held, where they are at hand."""

from __future__ import annotations

import collections
import datetime
import itertools
import json
import os
import pathlib
import random

import msgspec
import pytest

from watcher_sync.events import Event
from watcher_sync.testing.disorder import duplicated, shuffled

FOLDER = pathlib.Path(os.environ.get("WATCHER_SYNC_RECORDINGS", "unset"))
NAMES = sorted(file.name.removesuffix(".jsonl") for file in FOLDER.glob("*.jsonl"))
MAX_SHIFT = 500_000
"""Microseconds that the clocks of two publishers are apart."""

UNTOLD = {
    "no_valid_host-default": {"locked": None, "name": None},
    "rebuild_fails-default": {"state": "active", "task_state": "rebuild_spawning"},
    "resize_finish_fails-default": {"state": "active"},
}
"""Recording -> fields whose last change is in no notification, with the values that they have instead.

Nova saves the error after a failed rebuild or resize without an event. A server that was never placed has its state,
its fault and what it was requested with in an event only.
"""

ALLOWED_TO_DEPEND_ON_CLOCKS = (
    "build_fails_and_is_rescheduled",
    "live_migration_forced",
    "shelve_offload_at_once",
)
"""Histories in which the payload does not tell the order of events of two clocks."""

pytestmark = pytest.mark.skipif(not NAMES, reason="WATCHER_SYNC_RECORDINGS names no folder with recordings of Nova")


def recorded(name):
    return [event_of(json.loads(line)) for line in (FOLDER / f"{name}.jsonl").read_text().splitlines()]


def event_of(envelope):
    envelope = json.loads(envelope["oslo.message"]) if "oslo.message" in envelope else envelope
    return Event(
        id=envelope["message_id"],
        type=envelope["event_type"],
        source="nova",
        origin=envelope["publisher_id"],
        time=datetime.datetime.fromisoformat(envelope["timestamp"]).replace(tzinfo=datetime.UTC),
        data=json.dumps(envelope["payload"]).encode(),
    )


def differences(name, snapshot):
    """{kind: {field: the model's value}} of all that differs from the truth."""
    found = collections.defaultdict(dict)
    for key, fields in json.loads((FOLDER / f"{name}.truth.json").read_text()).items():
        kind, _, entity_id = key.partition(" ")
        entity = snapshot.get(kind, entity_id)
        if fields is None or entity is None:
            if fields is not None or entity is not None:
                found[kind]["exists"] = entity is not None
            continue
        wrong = {field: getattr(entity, field) for field, value in fields.items() if getattr(entity, field) != value}
        if wrong:
            found[kind].update(wrong)
    return dict(found)


def versioned(snapshot):
    """All entities, and the versions of their facets."""
    return {
        kind: [(document, snapshot.get(kind, document["id"]).versions) for document in snapshot.dump(kind)]
        for kind in snapshot.kinds
    }


def untold(name):
    return {"instance": UNTOLD[name]} if name in UNTOLD else {}


@pytest.mark.parametrize("name", NAMES)
def test_a_recording_ends_in_its_truth_but_for_what_no_event_reported(player, name):
    assert differences(name, player.play(*recorded(name))) == untold(name)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("orders", [12, pytest.param(44, marks=pytest.mark.rare)])
def test_a_recording_ends_in_its_truth_and_versions_in_any_order_and_with_repetitions(new_player, name, orders):
    events = recorded(name)
    expected = versioned(new_player().play(*events))
    for seed in range(orders):
        rng = random.Random(f"{name} {seed}")
        disordered = shuffled(duplicated(events, rng, 0.3), rng)
        snapshot = new_player().play(*disordered, batch=rng.randint(1, 9))
        assert differences(name, snapshot) == untold(name), seed
        assert versioned(snapshot) == expected, seed


@pytest.mark.parametrize("name", sorted(set(UNTOLD).intersection(NAMES)))
def test_an_instance_of_which_a_change_was_untold_is_marked_doubtful(player, name):
    player.play(*recorded(name))
    assert any(kind == "instance" for kind, _ in player.doubtful)


def shifts(events, rng):
    """The offsets of each publisher's clock: the extremes of some of them, and some between."""
    publishers = sorted({event.origin for event in events})
    extremes = list(itertools.product((0, MAX_SHIFT), repeat=len(publishers)))
    for offsets in rng.sample(extremes, min(len(extremes), 12)):
        yield dict(zip(publishers, offsets, strict=True))
    for _ in range(6):
        yield {publisher: rng.randint(0, MAX_SHIFT) for publisher in publishers}


def shifted(events, offsets):
    return [
        msgspec.structs.replace(event, time=event.time + datetime.timedelta(microseconds=offsets[event.origin]))
        for event in events
    ]


@pytest.mark.parametrize("name", NAMES)
def test_clocks_half_a_second_apart_end_a_recording_wrong_only_where_allowed_and_marked(new_player, name):
    rng = random.Random(name)
    events = recorded(name)
    wrong = 0
    for offsets in shifts(events, rng):
        skewed = shifted(events, offsets)
        for order in (skewed, sorted(skewed, key=lambda event: event.time), shuffled(skewed, rng)):
            player = new_player()
            if differences(name, player.play(*order)) != untold(name):
                wrong += 1
                assert any(kind == "instance" for kind, _ in player.doubtful), offsets
    assert wrong == 0 or name.startswith(ALLOWED_TO_DEPEND_ON_CLOCKS), f"{wrong} ended wrong"
