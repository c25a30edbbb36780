# SPDX-License-Identifier: Apache-2.0
"""What an instance of the dialect is, which resources it has, and which instances a changed entity concerns.

A VNF instance has the workloads that it names, every workload that these control, and their pods. Any other instance
is its own only resource. Only uids and full names decide, as in the evaluation of VNF instances. An entity is a
resource exactly if the instance names it or something above it in its owner chain.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from watcher_sync.model.kinds import Entity
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.view import View
from watcher_sync.model.vnf.workloads import Getter, WorkloadIndex, add_names_above, workloads_of

INSTANCE_KINDS: Final = ("vnf_instance", "service_type_instance", "instance")
"""The kinds of instances, in the order in which an id is looked up."""


def find_instance(view: View, instance_id: str) -> tuple[str, Entity] | None:
    """Return the kind and the entity of an instance; None where no kind has the id."""
    for kind in INSTANCE_KINDS:
        entity = view.get(kind, instance_id)
        if entity is not None:
            return kind, entity
    return None


def resources_of(
    view: View, kind: str, instance: Entity, kinds: Collection[str] | None = None
) -> list[tuple[str, Entity]]:
    """Return (kind, entity) of an instance's resources, sorted by kind and id. O(number found).

    :param kind: the kind of the instance.
    :param kinds: only resources of these kinds. With ``vnf_instance`` among them, a VNF instance is a resource of
        itself, too. None: all but the VNF instance itself.
    """
    if not isinstance(instance, VnfInstance):
        return [(kind, instance)] if kinds is None or kind in kinds else []
    found = [*_below(view, instance), *([(kind, instance)] if kinds is not None else [])]
    return sorted((each for each in found if kinds is None or each[0] in kinds), key=lambda each: (each[0], each[1].id))


def _below(view: View, vnf: VnfInstance) -> list[tuple[str, Entity]]:
    """The workloads and pods that a VNF instance names or that these control, in no order."""
    workloads: dict[str, Entity] = {}
    pods: dict[str, Entity] = {}
    waiting: list[Entity] = []
    for name in workloads_of(vnf):
        waiting.extend(view.by("workload", "full_name", name))
        pods.update({pod.id: pod for pod in view.by("pod", "full_name", name)})
    while waiting:
        workload = waiting.pop()
        if workload.id not in workloads:
            workloads[workload.id] = workload
            waiting.extend(view.by("workload", "owner_uid", workload.id))
            pods.update({pod.id: pod for pod in view.by("pod", "owner_uid", workload.id)})
    return [*(("workload", each) for each in workloads.values()), *(("pod", each) for each in pods.values())]


class InstanceIndex:
    """Changed entity -> the instances that it concerns. It indexes the VNF instances of its user. For one thread."""

    def __init__(self) -> None:
        self._workloads = WorkloadIndex()

    def __len__(self) -> int:
        """How many VNF instances are indexed."""
        return len(self._workloads)

    def put(self, vnf_id: str, vnf: VnfInstance | None) -> None:
        """Index a VNF instance again; None removes it."""
        self._workloads.put(vnf_id, vnf)

    def concerned(
        self, kind: str, entity_id: str, states: Iterable[Entity | None], view: Getter
    ) -> set[tuple[str, str]]:
        """Return (instance kind, instance id) of the instances that an entity concerns. O(length of its owner chain).

        The owners are those of the view. If a batch deleted an owner, too, the state before needs a call of its own
        with the view before.

        :param states: the entity before and after its change; None is skipped.
        """
        if kind in INSTANCE_KINDS:
            return {(kind, entity_id)}
        names: set[str] = set()
        for state in states:
            add_names_above(names, state, view)
        return {("vnf_instance", vnf_id) for vnf_id in self._workloads.concerned(names)} if names else set()
