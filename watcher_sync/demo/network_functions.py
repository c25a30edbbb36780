# SPDX-License-Identifier: Apache-2.0
"""The workloads of a small cluster, and their registrations as VNF instances.

Each function shows one case: an aspect over two Deployments with a common name prefix, or steps of unequal size. One
has a StatefulSet with fixed pod names, and one has a DaemonSet that is not scaled.
Unregistered workloads run beside them. Pure data.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any, Final

import msgspec

from watcher_sync.testing.kubernetes import builders
from watcher_sync.testing.kubernetes.store import Object

CORE: Final = "core"
ACCESS: Final = "access"
"""Namespaces."""


class Function(msgspec.Struct, frozen=True, kw_only=True):
    """One network function, in the words of the registration."""

    name: str
    namespace: str
    vdus: dict[str, dict[str, Any]]
    aspects: dict[str, dict[str, Any]] = {}

    @property
    def id(self) -> str:
        """The same in every run."""
        return str(uuid.uuid5(uuid.NAMESPACE_DNS, f"{self.name}.{self.namespace}.example"))

    def registration(self, cluster: str) -> dict[str, Any]:
        """What is posted to ``/v1/vnf_instances``."""
        return {
            "id": self.id,
            "name": self.name,
            "cluster": cluster,
            "namespace": self.namespace,
            "vnfd_id": f"{self.name}-vnfd",
            "flavour_id": "simple",
            "vdus": self.vdus,
            "aspects": self.aspects,
        }

    def objects(self) -> Iterator[Object]:
        """Its workloads, at level 0."""
        for vdu in self.vdus.values():
            kind, name = vdu["workload"]["kind"], vdu["workload"]["name"]
            if kind == "DaemonSet":
                yield builders.daemon_set(name, namespace=self.namespace)
                continue
            make = builders.stateful_set if kind == "StatefulSet" else builders.deployment
            yield make(name, replicas=vdu["initial"], namespace=self.namespace)

    def levels(self, aspect: str) -> list[dict[str, int]]:
        """For each level from 0: VDU -> pods."""
        found = [{vdu: int(self.vdus[vdu]["initial"]) for vdu in self.aspects[aspect]["deltas"]}]
        for step in range(self.aspects[aspect]["max_scale_level"]):
            deltas = self.aspects[aspect]["deltas"].items()
            found.append({v: found[-1][v] + (d[step] if isinstance(d, list) else d) for v, d in deltas})
        return found


def _vdu(kind: str, name: str, initial: int, least: int, most: int) -> dict[str, Any]:
    return {"workload": {"kind": kind, "name": name}, "initial": initial, "min": least, "max": most}


FUNCTIONS: Final = (
    Function(
        name="amf",
        namespace=CORE,
        vdus={"worker": _vdu("Deployment", "amf", 2, 1, 6)},
        aspects={"workers": {"max_scale_level": 2, "deltas": {"worker": 2}}},
    ),
    Function(
        name="upf",
        namespace=CORE,
        vdus={"control": _vdu("Deployment", "upf", 1, 1, 4), "user": _vdu("Deployment", "upf-u", 1, 1, 6)},
        aspects={"sessions": {"max_scale_level": 3, "deltas": {"control": 1, "user": [1, 2, 2]}}},
    ),
    Function(
        name="udr",
        namespace=CORE,
        vdus={"shard": _vdu("StatefulSet", "udr", 2, 1, 4)},
        aspects={"shards": {"max_scale_level": 2, "deltas": {"shard": 1}}},
    ),
    Function(name="du-agent", namespace=ACCESS, vdus={"agent": _vdu("DaemonSet", "du-agent", 3, 0, 10)}),
)
"""The initial number of a DaemonSet's pods is that of the cluster's nodes."""


def strangers() -> Iterator[Object]:
    """Workloads that belong to no VNF instance."""
    yield builders.deployment("amf-probe", replicas=2, namespace=CORE)
    yield builders.job("backup", namespace=CORE)
