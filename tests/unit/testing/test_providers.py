# SPDX-License-Identifier: Apache-2.0
"""The simulated providers: the same every time, everything in them, and the truth independent of what they say."""

from __future__ import annotations

import json
import random
from collections import Counter

import msgspec

from tests.providers import Player
from watcher_sync.testing.comparison import compare
from watcher_sync.testing.dcm import publisher
from watcher_sync.testing.dcm.providers import UNTOLD, Message, ProviderSimulator, Row
from watcher_sync.testing.disorder import dropped


def messages_of(steps):
    return [step for step in steps if isinstance(step, Message)]


def test_one_seed_is_one_history_and_another_is_another():
    first, again, other = (ProviderSimulator(seed=s, instances=20).history(300) for s in (1, 1, 2))
    assert first == again
    assert first != other


def test_every_publisher_and_every_service_type_speaks_and_agents_too():
    simulator = ProviderSimulator(seed=3, instances=200, providers=40)
    steps = simulator.history(2_000)
    subjects = Counter(m.subject for m in messages_of(steps))
    assert set(subjects) == {publisher.subject(s) for s in publisher.STATUSES} | {publisher.SUBJECT_HEALTH}
    providers = {step.body["provider_name"].rpartition("-")[0] for step in steps if isinstance(step, Row)}
    assert providers == {p.name.replace(" ", "-") for p in publisher.PUBLISHERS}


def test_some_rows_are_made_before_and_some_after_their_first_event():
    told, early, late = set(), 0, 0
    for step in ProviderSimulator(seed=4, instances=100, late=0.5).history(500):
        if isinstance(step, Message):
            told.add(step.body)
        elif any(step.body["id"].encode() in body for body in told):
            late += 1
        else:
            early += 1
    assert early > 20
    assert late > 20


def test_sequences_are_the_order_of_publication_without_a_gap():
    messages = messages_of(ProviderSimulator(seed=5, instances=10).history(100))
    assert [m.sequence[1] for m in messages] == list(range(1, 101))


def test_a_model_that_missed_a_third_of_the_history_is_found_out():
    simulator = ProviderSimulator(seed=6, instances=10)
    steps = simulator.history(300)
    player = Player()
    player.steps(dropped(steps, random.Random(6), 0.3))
    assert list(compare(simulator.truth(), player.model.snapshot(), ignored=UNTOLD))


def test_what_the_model_makes_of_it_in_order_is_the_truth():
    simulator = ProviderSimulator(seed=7, instances=50)
    steps = simulator.history(1_000)
    player = Player()
    player.steps(steps)
    assert player.reasons == []
    assert list(compare(simulator.truth(), player.model.snapshot(), ignored=UNTOLD)) == []


def test_the_truth_speaks_of_rows_that_are_made_only():
    simulator = ProviderSimulator(seed=8, instances=50, late=1.0)
    stream = simulator.steps()
    for _ in range(30):
        next(stream)
    rows = simulator.truth()["service_type_instance"]
    made = [step for step in simulator.settle() if isinstance(step, Row)]
    assert made
    assert not {step.body["id"] for step in made} & set(rows)


def test_an_event_in_binary_mode_is_the_same_event():
    headers, body = publisher.binary(publisher.status())
    assert headers["ce-type"] == "dcm.status.vm"
    assert json.loads(body) == publisher.status()["data"]


def test_the_contracts_event_is_as_the_contract_has_it():
    document = msgspec.json.decode(publisher.body_of(publisher.status(output_spec={"ip": "a"})))
    assert set(document) == {"specversion", "id", "source", "type", "subject", "time", "datacontenttype", "data"}
    assert set(document["data"]) == {"id", "status", "message", "timestamp", "output_spec"}
