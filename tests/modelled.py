# SPDX-License-Identifier: Apache-2.0
"""Models that hold exactly what a simulated cluster says of itself."""

from __future__ import annotations

import itertools

import msgspec

from tests.simulated import NOON
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model import matching
from watcher_sync.extensions.vnf.model.evaluation import EvaluationContext, evaluate_inputs
from watcher_sync.model.model import Model, Snapshot, Written
from watcher_sync.testing.kinds import builtin_kinds
from watcher_sync.testing.ledger import Truth


def model_of(truth: Truth, *, observed: bool = True) -> Model:
    """A model of exactly this and, unless ``observed`` is false, of what follows from it for the VNF instances."""
    kinds = builtin_kinds()
    model = Model(kinds)
    model.write(
        [
            Written(name, row["id"], kinds[name].cls(seq=1, versions=kinds[name].no_versions, **row), None)
            for name, rows in truth.items()
            for row in rows.values()
        ],
        1,
    )
    if observed:
        snapshot = model.snapshot()
        model.write([_observed(snapshot, entity_id) for entity_id in truth["vnf_instance"]], 2)
    return model


def _observed(snapshot: Snapshot, entity_id: str) -> Written:
    vnf = snapshot.get("vnf_instance", entity_id)
    assert isinstance(vnf, VnfInstance)
    inputs = {
        name: matching.read_vdu(snapshot, cluster="edge", namespace=vnf.namespace or "", workload=vdu["workload"])
        for name, vdu in (vnf.vdus or {}).items()
    }
    numbers = itertools.count()
    context = EvaluationContext(NOON, 300, lambda: f"vnfc-{next(numbers)}")
    values = evaluate_inputs(vnf, inputs, context).values
    return Written("vnf_instance", entity_id, msgspec.structs.replace(vnf, **values), None)
