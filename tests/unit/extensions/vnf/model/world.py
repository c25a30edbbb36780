# SPDX-License-Identifier: Apache-2.0
"""A namespace of workloads and pods in a model, and an instance that is registered on it."""

from __future__ import annotations

import datetime
import itertools
import json
from typing import Any

from tests.simulated import NOON
from watcher_sync.events import Event
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.evaluation import EvaluationContext, Observation, Unlisted, evaluate_inputs
from watcher_sync.extensions.vnf.model.levels import check
from watcher_sync.extensions.vnf.model.matching import read_vdu
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.testing.kinds import builtin_kinds

DEPLOYMENT = {"workload": {"kind": "Deployment", "name": "vdu1"}, "initial": 1, "min": 1, "max": 3}
ASPECT = {"max_scale_level": 2, "deltas": {"VDU1": 1}}


class World:
    """What a cluster's listings said, as the model has it."""

    def __init__(self) -> None:
        self.model = Model(builtin_kinds())
        self._count = itertools.count(1)

    def _write(self, change: Any) -> None:
        transaction = Transaction(self.model)
        transaction.apply(Event(id="1", type="test", source="test"), [change])
        self.model.publish(transaction)

    def _version(self) -> str:
        return f"{next(self._count):010d}"

    def workload(self, uid: str, kind: str, name: str, **fields: Any) -> str:
        """Make or change one."""
        values = {"kind": kind, "name": name, "namespace": "default", "cluster": "edge", **fields}
        self._write(Upsert("workload", uid, self._version(), {"state": values}))
        return uid

    def deployment(self, name: str = "vdu1", replicas: int = 1, **fields: Any) -> str:
        """A Deployment and its ReplicaSet; the uid of the latter."""
        uid = self.workload(f"d-{name}", "Deployment", name, replicas=replicas, **fields)
        return self.workload(f"rs-{name}", "ReplicaSet", f"{name}-5d8f", owner_uid=uid, replicas=replicas)

    def pod(self, name: str, owner: str | None, *, uid: str | None = None, age: int = 0, **fields: Any) -> str:
        """Make or change one; the younger, the smaller its age in seconds."""
        values = {
            "name": name, "namespace": "default", "cluster": "edge", "owner_uid": owner, "phase": "Running",
            "created_at": NOON - datetime.timedelta(seconds=age), **fields,
        }  # fmt: skip
        self._write(Upsert("pod", uid or f"uid-{name}", self._version(), {"state": values}))
        return uid or f"uid-{name}"

    def gone(self, uid: str, kind: str = "pod") -> None:
        """It exists no more."""
        self._write(Delete(kind, uid, self._version()))

    def inputs(self, vnf: VnfInstance) -> dict[str, Any]:
        """The input of each VDU."""
        view = self.model.snapshot()
        return {
            name: read_vdu(view, cluster="edge", namespace="default", workload=vdu["workload"])
            for name, vdu in vnf.vdus.items()
        }


def registered(vdus: Any = None, aspects: Any = None, **fields: Any) -> VnfInstance:
    """An instance as it was registered."""
    vdus = vdus if vdus is not None else {"VDU1": DEPLOYMENT}
    aspects = aspects if aspects is not None else {"vdu1_aspect": ASPECT}
    check(vdus, aspects)
    return VnfInstance(
        id="vnf", vnfd_id="vnfd", cluster="edge", namespace="default", vdus=vdus, aspects=aspects, **fields
    )


class Sync:
    """An instance that is observed again and again."""

    def __init__(self, world: World, vnf: VnfInstance) -> None:
        self.world = world
        self.vnf = vnf
        self.now = NOON
        self._ids = itertools.count(1)

    def __call__(self, **failed: None) -> Observation:
        """Observe, and keep what is to be written as a database would."""
        import msgspec

        unlisted = {name: Unlisted("the listing failed") for name in failed}
        context = EvaluationContext(self.now, 300, lambda: f"vnfc-{next(self._ids)}")
        observation = evaluate_inputs(self.vnf, {**self.world.inputs(self.vnf), **unlisted}, context)
        values = json.loads(json.dumps(dict(observation.values)))
        assert values == dict(observation.values), "the values are plain JSON"
        self.vnf = msgspec.structs.replace(self.vnf, **values)
        return observation

    @property
    def pods(self) -> dict[str, str]:
        """vnfc -> its pod."""
        return {v["id"]: v["computeResource"]["resourceId"] for v in self.vnf.vnfc_resource_info}
