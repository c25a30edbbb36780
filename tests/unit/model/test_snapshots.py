# SPDX-License-Identifier: Apache-2.0
"""A snapshot never changes under its reader, whatever the writer does meanwhile."""

from __future__ import annotations

import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import NOON, batches, cloud, new_model, nova, play, telling, told, values_of
from tests.waiting import Deadline, deadline
from watcher_sync.model.changes import Seen, Upsert
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()


def copied(model):
    """The model as plain dictionaries, made by walking over it."""
    snapshot = model.snapshot()
    return {name: {e.id: KINDS[name].to_json(e) for e in list(snapshot.all(name))} for name in KINDS}


def seen(snapshot, copy):
    """The same as a reader sees it, by every way there is."""
    for name, kind in KINDS.items():
        rows = copy[name]
        assert snapshot.ids(name) == sorted(rows)
        assert snapshot.count(name) == len(rows)
        assert {e.id: kind.to_json(e) for e in snapshot.all(name)} == rows
        assert all(kind.to_json(snapshot.get(name, i)) == row for i, row in rows.items())
        for index in kind.indexes:
            expected: dict[str, set[str]] = {}
            for i, row in rows.items():
                for value in values_of(row[index]):
                    expected.setdefault(value, set()).add(i)
            for value, ids in expected.items():
                assert {e.id for e in snapshot.by(name, index, value)} == ids
            assert list(snapshot.by(name, index, "no such value")) == []


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 5), disorder=st.integers(0, 2**32))
def test_every_snapshot_stays_what_it_was_while_the_writer_goes_on(seed, disorder):
    rng = random.Random(disorder)
    events, _ = cloud(seed, 300)
    model, dispatcher, taken = new_model(), nova(), []
    for batch in batches(rng.sample(events, len(events)), rng, most=60):
        play(model, dispatcher, batch)
        if rng.random() < 0.5:
            taken.append((model.snapshot(), model.generation, copied(model)))
    for snapshot, generation, copy in taken:
        assert snapshot.generation == generation
        seen(snapshot, copy)


@pytest.mark.slow
def test_readers_in_other_threads_only_ever_see_whole_generations():
    """Every batch moves all instances to one host; a reader that sees two hosts saw half a batch."""
    model, dispatcher = new_model(), telling()
    torn, stop = [], threading.Event()
    seen_generations: set[int] = set()

    def read():
        while not stop.is_set():
            snapshot = model.snapshot()
            hosts = {e.host for e in snapshot.all("instance")}
            found = {h: len(snapshot.by("instance", "host", h)) for h in hosts}
            if len(hosts) > 1 or sum(found.values()) != snapshot.count("instance"):
                torn.append((hosts, found))
            seen_generations.add(snapshot.generation)

    readers = [threading.Thread(target=read, daemon=True) for _ in range(3)]
    for reader in readers:
        reader.start()
    limit = Deadline(60)
    version = 0
    while (version < 60 or len(seen_generations) < 10) and not limit.is_over:
        version += 1
        facets = {"state": {}, "details": {"name": "x"}, "placement": {"host": f"host{version % 7}"}}
        play(
            model,
            dispatcher,
            [told(i, Upsert("instance", f"vm{i}", f"{version:06}", facets)) for i in range(150)],
        )
    stop.set()
    for reader in readers:
        reader.join(deadline(60))
    assert not torn
    assert len(seen_generations) >= 10


def test_readers_of_one_generation_share_one_snapshot_and_a_write_makes_a_new_one():
    model = new_model()
    first = model.snapshot()
    assert model.snapshot() is first
    play(model, telling(), [told(1, Upsert("instance", "vm", "1", {"state": {}, "details": {"name": "x"}}))])
    assert model.snapshot() is not first
    assert (first.generation, model.snapshot().generation) == (0, 1)


def test_the_newest_sign_of_life_wins_and_makes_no_generation():
    model = new_model()
    later = NOON.replace(hour=13)
    for time_heard in (NOON, later, NOON):
        play(model, telling(), [told(1, Seen("compute_node", "host1", time_heard))])
    assert model.generation == 0
    assert model.last_seen("compute_node") == {"host1": later}
    assert model.get("compute_node", "host1") is None
    play(model, telling(), [told(1, Upsert("compute_node", "host1", "1", {"service": {}}))])
    assert [row["last_heard"] for row in model.snapshot().dump("compute_node")] == [later]
