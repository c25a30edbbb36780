# SPDX-License-Identifier: Apache-2.0
"""What an instance of the dialect is, its resources, and their documents: ``InstanceStatus`` of ONAP's k8splugin. Pure.

A document has the status part of an entity, or the whole entity. It has neither nulls nor hidden fields, and no Secret
data. A member of an object at any depth, whose name looks like that of a secret, has the value ``***``. So has the
``value`` next to such a ``name``, and the data of an object whose ``kind`` is Secret. A secret under an innocent name
is not recognised. Members that a VNF instance's own VDUs and aspects name are not masked: they are names, not secrets.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

from watcher_sync.extensions.kubernetes.kinds import CustomObject, Pod, Workload
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.workloads import Getter, WorkloadIndex, add_names_above, workloads_of
from watcher_sync.model.kinds import Entity, Kind, Kinds, Reference
from watcher_sync.model.view import View
from watcher_sync.model.visibility import Hidden, seen

INSTANCE_KINDS: Final = ("vnf_instance", "service_type_instance", "instance", "custom_object")
"""The kinds of instances of this package, in the order in which an id is looked up."""


def instance_kinds(kinds: Iterable[str]) -> tuple[str, ...]:
    """Return all kinds of instances: those of plugins follow, in their order."""
    return (*INSTANCE_KINDS, *sorted(set(kinds).difference(STATUS_FIELDS)))


def resource_kinds(instance_kind: str) -> tuple[str, ...]:
    """Return the kinds that the resources of an instance may have, if they are asked for by their kinds."""
    return ("pod", "vnf_instance", "workload") if instance_kind == "vnf_instance" else (instance_kind,)


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

    A VNF instance has the workloads that it names, every workload that these control, and their pods. Any other
    instance is its own only resource. Only uids and full names decide, as in the evaluation of VNF instances. An entity
    is a resource exactly if the instance names it or something above it in its owner chain.

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


STATUS_FIELDS: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({
    "aggregate": ("hosts", "availability_zone"),
    "cluster": ("state", "detail", "version", "has_synced", "unlisted"),
    "compute_node": (
        "status", "disabled_reason", "forced_down", "liveness", "liveness_reason", "liveness_since", "state",
    ),
    "custom_object": ("state", "properties"),
    "instance": (
        "state", "task_state", "power_state", "locked", "locked_reason", "host", "node", "source_host",
        "availability_zone", "ip_addresses", "launched_at", "fault_type", "fault_message",
    ),
    "pod": ("phase", "reason", "ready", "restarts", "crash_looping", "deleted_at", "ip_address", "node"),
    "provider": ("state", "reason"),
    "provider_binding": ("provider_name", "source"),
    "service_type_instance": ("status", "status_message", "output_spec", "provider_state"),
    "vnf_instance": (
        "state", "scale_level", "nearest_level", "observed", "vdu_results", "vnfc_resource_info", "vnfc_info", "vacant",
        "workload_uids", "pod_uids",
    ),
    "workload": ("replicas", "ready_replicas", "updated_replicas", "observed_generation", "deleted_at"),
})  # fmt: skip
"""Kind -> the fields of its status part. All public fields of any other kind are its status.

Identity, labels, what was asked for, and times of writing are no status. The wanted number of pods is: the ready number
says nothing without it.
"""

MASK: Final = "***"
"""The value of what is not shown because it may be a secret."""

_READY_STATUSES: Final = frozenset({"ACTIVE", "AVAILABLE", "READY", "RUNNING"})
"""Statuses of service type instances, and states of plugins' entities, that are in use."""

_ENDED_PHASES: Final = frozenset({"Failed", "Succeeded"})
"""A pod in such a phase never becomes ready; its workload replaces it or does not need it."""

_GROUPS: Final[Mapping[str, tuple[str, str, str]]] = {
    "aggregate": ("compute", "v1alpha1", "Aggregate"),
    "cluster": ("kubernetes", "v1alpha1", "Cluster"),
    "compute_node": ("compute", "v1alpha1", "ComputeNode"),
    "instance": ("compute", "v1alpha1", "Instance"),
    "pod": ("", "v1", "Pod"),
    "provider": ("dcm", "v1alpha1", "Provider"),
    "provider_binding": ("dcm", "v1alpha1", "ProviderBinding"),
    "service_type_instance": ("dcm", "v1alpha1", "ServiceTypeInstance"),
    "vnf_instance": ("vnf", "v1alpha1", "VnfInstance"),
}

_APPS: Final = frozenset({"DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"})
"""Kinds of workload of the group ``apps``."""

_NAME_FIELDS: Final = ("name", "instance_name")
_PLACE_FIELDS: Final = ("cluster", "namespace")

_KEYED_BY_NAMES: Final[Mapping[str, frozenset[str]]] = {
    "vnf_instance": frozenset({"vdus", "aspects", "scale_level", "nearest_level", "observed", "vdu_results"}),
}
"""Kind -> fields whose members are named after VDUs and aspects, and hold numbers and results only."""

_SECRET_NAME: Final = re.compile(
    r"pass(?:word|wd|phrase)|secret|token|credential|kubeconfig|(?:private|api|access|client|ssh)[^a-z0-9]*key",
    re.IGNORECASE,
)


def group_version_kind(kind: str, entity: Entity) -> dict[str, str]:
    """Return ``{"Group", "Version", "Kind"}`` of an entity.

    A workload and a custom object have the group and the kind of the object. The model does not store the version of
    a kind that an option names: it is empty.
    """
    if isinstance(entity, (CustomObject, Workload)):
        version = "v1" if entity.title in _APPS else ""
        return {"Group": entity.api_group or "", "Version": version, "Kind": entity.kind or ""}
    group, version, name = _GROUPS.get(kind, ("watcher_sync", "v1alpha1", kind))
    return {"Group": group, "Version": version, "Kind": name}


def resource_document(kind: Kind, entity: Entity, *, full: bool, hidden: Hidden) -> dict[str, Any]:
    """Return the document of a resource: name, GVK, kind, id, place, references and status, as far as it has them.

    The references are what the resource depends on, by its declared references.

    Secret data are masked, as the module describes. Times are aware datetimes; the JSON encoder writes ISO 8601.

    :param full: whether ``status`` has all public fields instead of the status part.
    :param hidden: what the reader does not see of this kind.
    """
    document: dict[str, Any] = {
        "name": entity.id,
        "GVK": group_version_kind(kind.name, entity),
        "kind": kind.name,
        "id": entity.id,
    }
    for field in _head_fields(kind):
        value = getattr(entity, field)
        if value is not None and hidden.get(field) != ():
            document["name" if field in _NAME_FIELDS else field] = value
    references = []
    for each in _needed(kind):
        value = getattr(entity, each.field)
        if value and hidden.get(each.field) != ():
            edge = {"field": each.field, "relation": each.relation, "kind": each.kind}
            references += [edge | {"id": one} for one in ((value,) if value.__class__ is str else value)]
    if references:
        document["references"] = references
    status = {}
    for field in status_fields(kind, full):
        value = getattr(entity, field)
        if value is not None:
            status[field] = shown(kind, field, value) if isinstance(value, (dict, list)) else value
    document["status"] = seen(status, hidden) if hidden else status
    return document


@functools.cache
def status_fields(kind: Kind, full: bool) -> tuple[str, ...]:
    """Return the fields that a document's ``status`` may have, in order."""
    return kind.public if full else STATUS_FIELDS.get(kind.name, kind.public)


@functools.cache
def document_fields(kind: Kind, full: bool) -> frozenset[str]:
    """Return the fields that any part of a document follows from: those of its status, name, place and references."""
    return frozenset(status_fields(kind, full)).union(_head_fields(kind), (r.field for r in _needed(kind)))


@functools.cache
def _needed(kind: Kind) -> tuple[Reference, ...]:
    """Return the references to what an entity depends on, but for those that its place tells."""
    return tuple(r for r in kind.references if not r.lists_dependents and r.field not in _PLACE_FIELDS)


@functools.cache
def _head_fields(kind: Kind) -> tuple[str, ...]:
    name = next((field for field in _NAME_FIELDS if field in kind.fields), None)
    return (*([name] if name is not None else []), *(field for field in _PLACE_FIELDS if field in kind.fields))


def shown(kind: Kind, field: str, value: Any) -> Any:
    """Return the value of a field with Secret data masked; the value itself stays as it is."""
    return value if field in _KEYED_BY_NAMES.get(kind.name, ()) else _masked(value)


def _masked(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("kind") == "Secret":
            return {name: MASK if name in ("data", "stringData") else _member(name, v) for name, v in value.items()}
        named = value.get("name")
        if "value" in value and isinstance(named, str) and _is_secret(named):
            return {name: MASK if name == "value" else _member(name, v) for name, v in value.items()}
        return {name: _member(name, each) for name, each in value.items()}
    if isinstance(value, list):
        return [_masked(each) for each in value]
    return value


def _member(name: str, value: Any) -> Any:
    if _is_secret(name):
        return MASK
    return _masked(value) if isinstance(value, (dict, list)) else value


@functools.lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    return _SECRET_NAME.search(name) is not None


def is_ready(kind: str, entity: Entity) -> bool:
    """Whether an entity does what it is there for; unknown is not ready.

    An entity of a plugin's kind is ready in the same states or statuses as an instance of a service type. So is a
    custom object, and if its state is the status ``True`` of a condition.
    """
    value: Any = entity
    match kind:
        case "pod":
            return bool(value.ready) and value.deleted_at is None
        case "workload":
            return value.replicas == 0 or (value.replicas is not None and value.ready_replicas == value.replicas)
        case "instance":
            return bool(value.state == "active")
        case "service_type_instance":
            return value.status in _READY_STATUSES
        case "custom_object":
            return str(value.state).upper() in (*_READY_STATUSES, "TRUE")
        case "vnf_instance":
            return bool(value.state == "SYNCED")
    if kind in STATUS_FIELDS:
        return False
    return str(getattr(value, "state", None) or getattr(value, "status", None)).upper() in _READY_STATUSES


def status_document(
    view: View,
    kinds: Kinds,
    kind: str,
    instance: Entity,
    *,
    full: bool,
    hidden_of: Callable[[str, Entity], Hidden],
    only: Collection[str] | None = None,
) -> dict[str, Any]:
    """Return the InstanceStatus of an instance: request, ready, resourceCount and resourcesStatus.

    It is ready if the instance and all its workloads and pods are; pods that ended or are being deleted do not count.

    :param kind: the kind of the instance.
    :param full: whether each resource is shown whole.
    :param hidden_of: (kind, entity) -> what the reader does not see of it.
    :param only: show resources of these kinds only, as in :func:`resources_of`; it does not influence ``ready``.
    """
    every = resources_of(view, kind, instance)
    resources = every if only is None else resources_of(view, kind, instance, only)
    documents = [resource_document(kinds[k], each, full=full, hidden=hidden_of(k, each)) for k, each in resources]
    itself = resource_document(kinds[kind], instance, full=False, hidden=hidden_of(kind, instance))
    return {
        "request": {"instance-id": instance.id, "kind": kind, "name": itself["name"]},
        "ready": is_ready(kind, instance) and all(is_ready(k, each) for k, each in every if not _has_ended(each)),
        "resourceCount": len(documents),
        "resourcesStatus": documents,
    }


def _has_ended(entity: Entity) -> bool:
    return isinstance(entity, Pod) and (entity.deleted_at is not None or entity.phase in _ENDED_PHASES)
