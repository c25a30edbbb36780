# SPDX-License-Identifier: Apache-2.0
"""The status of a ReplicaSet in the model: whole objects, and metadata alone."""

from __future__ import annotations

import json
from typing import Any

import pytest

from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.handler.handler import KubernetesHandler
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

METADATA = {"uid": "u", "name": "vdu1", "namespace": "default", "resourceVersion": "7", "generation": 2}
STATUS = {"replicas": 2, "readyReplicas": 1, "observedGeneration": 2, "fullyLabeledReplicas": 2}


def workload(kind: str, **more: Any) -> Any:
    model = Model(builtin_kinds())
    transaction = Transaction(model)
    data = json.dumps({"kind": kind, "metadata": METADATA, **more}).encode()
    event = Event(
        id="1", type=f"kubernetes.{kind.lower()}.added", source="edge", origin="edge", data=data, sequence=(1, 1)
    )
    entry = Dispatcher([("kubernetes", KubernetesHandler())]).find(event.type)
    assert entry is not None
    assert entry.call is not None
    transaction.apply(event, entry.call(event, transaction) or ())
    model.publish(transaction)
    return model.get("workload", "u")


def test_a_replica_set_has_generation_observed_generation_replicas_and_ready_replicas() -> None:
    found = workload("ReplicaSet", spec={"replicas": 3}, status=STATUS)
    assert (found.generation, found.observed_generation, found.replicas, found.ready_replicas) == (2, 2, 3, 1)
    assert found.updated_replicas == 2, "all pods of a ReplicaSet are of its one template"


def test_of_a_replica_set_without_a_status_nothing_is_known() -> None:
    found = workload("ReplicaSet")
    assert (found.generation, found.observed_generation, found.ready_replicas, found.updated_replicas) == (
        2, None, None, None,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"])
def test_a_generation_that_the_status_lacks_was_not_observed_yet(kind: str) -> None:
    assert workload(kind, status={}).observed_generation == 0
