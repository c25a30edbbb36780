# SPDX-License-Identifier: Apache-2.0
"""Which VNF instances a pod or a workload concerns, as an index of full names.

An instance names its workloads by cluster, namespace, kind and name; those that it finds by labels have the name ``*``.
A change of a pod concerns the instances that name the pod itself or a workload above it in its owner chain. So the
look-up costs the length of the chain, whatever the number of instances.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from watcher_sync.extensions.kubernetes.kinds import Pod, Workload, full_name
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.model.kinds import Entity


class Getter(Protocol):
    """The part of a view that finds an entity by its id."""

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """Return the entity, or None if it does not exist."""


class WorkloadIndex:
    """Full name of a workload -> the instances that name it. For one thread."""

    def __init__(self) -> None:
        self._instances: dict[str, set[str]] = {}
        self._names: dict[str, set[str]] = {}
        """Instance -> full names of its workloads."""

    def __len__(self) -> int:
        """How many instances are indexed."""
        return len(self._names)

    def put(self, vnf_id: str, vnf: VnfInstance | None) -> None:
        """Index an instance again; None removes it."""
        names = workloads_of(vnf) if vnf is not None else set()
        known = self._names.pop(vnf_id, set())
        for name in known - names:
            instances = self._instances[name]
            instances.discard(vnf_id)
            if not instances:
                del self._instances[name]
        for name in names - known:
            self._instances.setdefault(name, set()).add(vnf_id)
        if vnf is not None:
            self._names[vnf_id] = names

    def concerned(self, names: Iterable[str]) -> set[str]:
        """The instances that name one of these workloads."""
        found: set[str] = set()
        for name in names:
            if name in self._instances:
                found |= self._instances[name]
        return found


def workloads_of(vnf: VnfInstance) -> set[str]:
    """The full names of the workloads that an instance names."""
    workloads = [vdu["workload"] for vdu in (vnf.vdus or {}).values()]
    return {full_name(vnf.cluster, vnf.namespace, w["kind"], w.get("name", "*")) for w in workloads}


def add_names_above(names: set[str], entity: Entity | None, view: Getter) -> None:
    """Add the full names of a pod or workload and of everything that controls it, as far as the view knows it.

    A name for any workload of the kind in its namespace is added, too.
    """
    seen: list[str] = []
    while isinstance(entity, (Pod, Workload)) and entity.id not in seen:
        if entity.full_name is not None:
            names.add(entity.full_name)
            names.add(entity.full_name.rpartition("/")[0] + "/*")
        seen.append(entity.id)
        entity = view.get("workload", entity.owner_uid) if entity.owner_uid is not None else None
