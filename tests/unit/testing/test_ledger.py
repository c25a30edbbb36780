# SPDX-License-Identifier: Apache-2.0
"""What the ledger says notifications can tell is what the model holds after them, in any order."""

from __future__ import annotations

import copy
import functools
import pickle
import random
from typing import Any

import pytest

from tests.simulated import new_model, nova
from watcher_sync.events import Event
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.comparison import ModelDifference, compare
from watcher_sync.testing.ledger import ANYTHING, Truth
from watcher_sync.testing.nova.cloud import CloudSimulator
from watcher_sync.wire.envelopes import read_document

pytestmark = pytest.mark.slow

SEEDS = range(6)


class History:
    """Some events of one cloud, and what the cloud and its ledger are after them."""

    def __init__(self, seed: int, n: int, **options: Any) -> None:
        cloud = CloudSimulator(seed=seed, hosts=5, instances=10, undeclared=0.3, legacy=0.2, failures=0.1, **options)
        documents = copy.deepcopy(cloud.history(n))
        self.events = [read_document(d, source="nova", number=i) for i, d in enumerate(documents)]
        self.told: Truth = cloud.reported()
        self.truth: Truth = cloud.truth()
        self.doubtful = cloud.doubtful()


@functools.cache
def history(seed: int, *, updates: bool, skew: float = 0.0) -> History:
    return History(seed, 1_500, notify_on_state_change=updates, clock_skew=skew)


def played(events: list[Event]) -> tuple[Model, set[str]]:
    """The model after the events, one at a time, and the instances that the handler marked as doubtful."""
    model, dispatcher, marked = new_model(), nova(), set()
    for event in events:
        entry = dispatcher.find(event.type)
        if entry is None or entry.call is None:
            continue
        transaction = Transaction(model)
        transaction.apply(event, entry.call(event, transaction) or ())
        marked |= {entity_id for kind, entity_id in transaction.doubtful if kind == "instance"}
        model.publish(transaction)
    return model, marked


def differences(told: Truth, model: Model) -> list[ModelDifference]:
    return list(compare(told, model.snapshot()))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("updates", [True, False])
def test_the_model_has_what_is_reported_in_order_and_shuffled(seed: int, updates: bool) -> None:
    known = history(seed, updates=updates)
    shuffled = random.Random(seed).sample(known.events, len(known.events))
    for events in (known.events, shuffled):
        assert [str(d) for d in differences(known.told, played(events)[0])] == []


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("updates", [True, False])
def test_with_clocks_half_a_second_apart_only_doubtful_instances_are_wrong(seed: int, updates: bool) -> None:
    known = history(seed, updates=updates, skew=0.5)
    model, marked = played(known.events)
    wrong = differences(known.told, model)
    assert {d.entity_id for d in wrong} <= known.doubtful
    assert {d.entity_id for d in wrong if d.field in ("host", "node", "state", "task_state", None)} <= marked


def test_clocks_apart_contradict_the_order_of_some_instances_and_not_of_most() -> None:
    doubtful = sum(len(history(seed, updates=True, skew=0.5).doubtful) for seed in SEEDS)
    instances = sum(len(history(seed, updates=True, skew=0.5).told["instance"]) for seed in SEEDS)
    assert 0 < doubtful < instances / 2
    assert not any(history(seed, updates=True).doubtful for seed in SEEDS)


@pytest.mark.parametrize("updates", [True, False])
def test_what_is_reported_of_an_instance_is_true(updates: bool) -> None:
    for seed in SEEDS:
        known = history(seed, updates=updates)
        for uuid, row in known.told["instance"].items():
            true = {**known.truth["instance"][uuid], "pinned_zone": None}
            assert [f for f, v in row.items() if v is not ANYTHING and v != true[f]] == []


def test_nova_hides_by_default_what_it_tells_with_updates() -> None:
    def untold(*, updates: bool) -> set[str]:
        """The fields that some instance at rest has, and that notifications did not tell."""
        return {
            field
            for seed in SEEDS
            for uuid, row in history(seed, updates=updates).told["instance"].items()
            if history(seed, updates=updates).truth["instance"][uuid]["task_state"] is None
            for field, value in row.items()
            if value is ANYTHING
        }

    assert {"name", "metadata", "state", "host", "updated_at"} <= untold(updates=False)
    hidden = {"updated_at", "fault_type", "fault_message", "source_host", "availability_zone", "request_id"}
    assert untold(updates=True) <= hidden


def test_the_truth_knows_what_notifications_never_name() -> None:
    cloud = CloudSimulator(seed=4, hosts=10, instances=20, undeclared=1.0)
    told, truth = cloud.reported(), cloud.truth()
    assert told["compute_node"] == {}
    assert len(truth["compute_node"]) == 9  # one is spare, and its service is created in sight of the bus
    for node in truth["compute_node"].values():
        assert node["vcpus"] >= 32
        assert node["state"] == "up"
        assert node["uuid"]


def test_allocations_are_those_of_the_hosts_and_of_the_resizes_under_way() -> None:
    cloud = CloudSimulator(seed=9, hosts=6, instances=30, failures=0.1)
    seen = 0
    for _ in range(40):
        cloud.history(200)
        held = cloud.database.allocations
        for server in cloud.database.servers:
            assert server.host is None or server.host.name in {name for name, _ in server.claims}
            assert all(consumer in held[name] for name, consumer in server.claims)
            if server.source_host is not None:
                seen += 1
                assert any(consumer != server.uuid for _, consumer in server.claims)
        for uuid, gone in cloud.database.deleted.items():
            assert gone.record["deleted_at"]
            assert not any(uuid in consumers for consumers in held.values())
    assert seen > 10


def test_anything_equals_everything_and_stays_itself_in_copies() -> None:
    for value in (None, "", 0, [], {}, "text"):
        assert value == ANYTHING
        assert not value != ANYTHING  # noqa: SIM202 - the other operator
    assert copy.deepcopy(ANYTHING) is ANYTHING
    assert pickle.loads(pickle.dumps(ANYTHING)) is ANYTHING
