# SPDX-License-Identifier: Apache-2.0
"""A transaction that lies on one which is not published yet does what it would do after it."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.simulated import batches, cloud, new_model, nova, shown, told, whole
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.transaction import Transaction


def instance(entity_id, version="1", *, host):
    facets = {"state": {}, "details": {"name": entity_id}, "placement": {"host": host}}
    return Upsert("instance", entity_id, version, facets)


def played(transaction, dispatcher, events):
    """The events' outcomes."""
    outcomes = []
    for event in events:
        entry = dispatcher.find(event.type)
        if entry is None or entry.call is None:
            continue
        try:
            outcomes.append(transaction.apply(event, entry.call(event, transaction) or ()))
        except InvalidEvent as exc:
            outcomes.append(str(exc))
    return outcomes


def written(transaction):
    return [(s.kind.name, s.id, s.seq, s.change(), s.delta(), s.merged) for s in transaction.staged()]


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 20), n=st.sampled_from([30, 150, 400]), disorder=st.integers(0, 2**32))
def test_one_upon_the_other_ends_as_one_after_the_other(seed, n, disorder):
    events, truth = cloud(seed, n)
    rng = random.Random(disorder)
    delivered = [*events, *rng.sample(events, n // 3)]
    rng.shuffle(delivered)
    dispatcher = nova()
    straight, stacked = new_model(), new_model()
    under = None
    for batch in list(batches(delivered, rng, most=rng.choice([5, 40, n]))):
        plain = Transaction(straight)
        outcomes = played(plain, dispatcher, batch)
        expected = written(plain)
        straight.publish(plain)

        upper = Transaction(stacked, on=under)
        assert played(upper, dispatcher, batch) == outcomes
        assert written(upper) == expected
        assert upper.head == straight.generation
        if under is not None:
            stacked.publish(under)
            upper.published()
        under = upper
    stacked.publish(under)
    assert whole(stacked) == whole(straight)
    assert shown(stacked.snapshot()) == truth


def test_it_sees_what_lies_under_it_in_every_way_of_asking_and_the_model_sees_neither():
    model = new_model()
    first = Transaction(model)
    first.apply(told(1), [instance("a", host="one"), instance("b", host="one")])
    model.publish(first)

    under = Transaction(model)
    under.apply(told(2), [instance("a", "2", host="two"), Delete("instance", "b", "2"), instance("c", host="two")])
    upper = Transaction(model, on=under)
    assert upper.get("instance", "a").host == "two"
    assert upper.get("instance", "b") is None
    assert "2" in upper.tombstone("instance", "b").versions
    assert (upper.get("compute_node", "two").discovered, upper.get("compute_node", "one")) == (True, None)
    assert {e.id for e in upper.by("instance", "host", "two")} == {"a", "c"}
    assert list(upper.by("instance", "host", "one")) == []
    upper.apply(told(3), [instance("c", "2", host="one")])
    assert {e.id for e in upper.by("instance", "host", "two")} == {"a"}
    assert {e.id for e in upper.by("instance", "host", "one")} == {"c"}
    assert {e.id for e in under.by("instance", "host", "two")} == {"a", "c"}
    assert model.get("instance", "a").host == "one"
    assert model.get("instance", "c") is None
    assert (model.get("compute_node", "one") is None, model.get("compute_node", "two")) == (False, None)

    model.publish(under)
    upper.published()
    assert {e.id for e in upper.by("instance", "host", "one")} == {"c"}
    model.publish(upper)
    assert {e.id for e in model.snapshot().by("instance", "host", "one")} == {"c"}
    assert {e.id for e in model.snapshot().by("instance", "host", "two")} == {"a"}


def test_an_event_that_fails_in_it_puts_back_to_what_lies_under_it():
    model = new_model()
    under = Transaction(model)
    under.apply(told(1), [instance("a", host="one")])
    upper = Transaction(model, on=under)
    for _ in range(2):
        try:
            upper.apply(told(2), [instance("a", "2", host="two"), Upsert("instance", "a", "3", {"state": {"no": 1}})])
        except InvalidEvent:
            assert upper.get("instance", "a").host == "one"
            assert {e.id for e in upper.by("instance", "host", "one")} == {"a"}
            assert (upper.get("compute_node", "one").discovered, upper.get("compute_node", "two")) == (True, None)
            assert list(upper.staged()) == []
        else:
            raise AssertionError("it should have failed")
