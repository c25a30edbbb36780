# SPDX-License-Identifier: Apache-2.0
"""The law of ordering, over whole clouds: whatever a transport does to a legal history, what the model
shows afterwards is what is true."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import batches, cloud, new_model, nova, play, shown, whole
from watcher_sync.model.changes import Outcome

pytestmark = pytest.mark.slow

SEEDS = st.integers(0, 2**32)


def versions(model):
    return {
        # A late host of an aggregate appends a + to the version, which a repetition in order does not.
        kind: {i: [v.rstrip("+") for v in bookkeeping[1]] for i, bookkeeping in found["bookkeeping"].items()}
        for kind, found in whole(model).items()
        if kind != "generation"
    }


def indexes(model):
    return {kind: found["indexes"] for kind, found in whole(model).items() if kind != "generation"}


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 50), n=st.integers(1, 400))
def test_a_history_in_order_ends_in_the_truth(seed, n):
    events, truth = cloud(seed, n)
    model = new_model()
    play(model, nova(), events)
    assert shown(model.snapshot()) == truth


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 20), n=st.sampled_from([30, 150, 500]), disorder=SEEDS, repeated=st.floats(0, 1))
def test_any_order_repetition_and_batching_ends_in_the_truth(seed, n, disorder, repeated):
    events, truth = cloud(seed, n)
    rng = random.Random(disorder)
    delivered = [*events, *rng.sample(events, round(n * repeated))]
    rng.shuffle(delivered)
    model, dispatcher = new_model(), nova()
    for batch in batches(delivered, rng, most=rng.choice([1, 7, n])):
        play(model, dispatcher, batch)
    assert shown(model.snapshot()) == truth

    straight = new_model()
    play(straight, dispatcher, events)
    assert versions(model) == versions(straight)
    assert indexes(model) == indexes(straight)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 20), disorder=SEEDS)
def test_what_was_committed_and_comes_again_changes_nothing_and_is_no_applied_event(seed, disorder):
    events, truth = cloud(seed, 200)
    rng = random.Random(disorder)
    model, dispatcher = new_model(), nova()
    play(model, dispatcher, rng.sample(events, len(events)))
    before = whole(model)
    for batch in batches(rng.sample(events, len(events)), rng, most=50):
        outcomes = play(model, dispatcher, batch)
        assert set(outcomes) <= {Outcome.STALE, Outcome.DUPLICATE, Outcome.IGNORED}
    assert whole(model) == before
    assert shown(model.snapshot()) == truth


def test_the_histories_have_everything_that_the_law_speaks_of():
    """The property above proves nothing about what its histories do not hold."""
    types = {e.type for seed in range(21) for n in (30, 150, 500) for e in cloud(seed, n)[0]}
    assert {"service.update", "service.delete", "aggregate.add_host.end", "aggregate.remove_host.end"} <= types
    assert {"instance.delete.end", "instance.live_migration_post_dest.end", "instance.lock"} <= types
    nodes = [n for seed in range(21) for n in cloud(seed, 500)[1]["compute_node"].values()]
    assert any(n["gone"] for n in nodes)
    assert any(n["discovered"] for n in nodes)
    assert any(n["last_heard"] for n in nodes)
    assert len({n["availability_zone"] for n in nodes}) > 2
