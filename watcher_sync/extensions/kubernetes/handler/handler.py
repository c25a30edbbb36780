# SPDX-License-Identifier: Apache-2.0
"""Objects of Kubernetes become changes of pods, workloads, custom objects and clusters.

The version is the sequence that the source counts. An object that is older than a ``listed`` event and not in it is
deleted. No deletion is final: etcd may be restored, and objects may return to a selector. An object that equals
what an earlier life of the source wrote is a duplicate.

``workload_uid`` follows from a pod and its ReplicaSet, which arrive in any order. The handler computes it when either
changes. It reads the view after it yields a change, so a stale event has no further effect.

Guaranteed: any permutation and repetition of other events ends in the same model. Pure; for any thread.
"""

from __future__ import annotations

import functools
import hashlib
import operator
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from watcher_sync.events import KUBERNETES_WATCH, NATIVE, Actor, Event
from watcher_sync.exceptions import InvalidEvent
from watcher_sync.extensions.kubernetes.conf.namespaces import namespace_projects
from watcher_sync.extensions.kubernetes.handler.custom_kinds import read_custom_kinds
from watcher_sync.extensions.kubernetes.handler.payloads import ClusterState, Listed, read
from watcher_sync.extensions.kubernetes.handler.pod_states import has_condition, read_containers
from watcher_sync.extensions.kubernetes.kinds import CustomObject, Pod, Workload
from watcher_sync.extensions.kubernetes.wire.custom_kinds import CustomKind, NamedKind
from watcher_sync.extensions.kubernetes.wire.kubernetes import (
    DaemonSetObject,
    Metadata,
    Object,
    PodObject,
    TypedObject,
    WorkloadObject,
    is_below,
)
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Upsert, Version, after, is_after
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.scopes import EntityScope
from watcher_sync.model.texts import for_people
from watcher_sync.model.view import View
from watcher_sync.wire.fields import title_of
from watcher_sync.wire.limits import MAX_TEXT_CHARS

if TYPE_CHECKING:
    from oslo_config import cfg

_KINDS = {
    "deployment": "Deployment",
    "replicaset": "ReplicaSet",
    "statefulset": "StatefulSet",
    "daemonset": "DaemonSet",
}
_POD_STATE = kind_of(Pod).facet_position["state"]
_POD_WORKLOAD = kind_of(Pod).facet_position["workload"]
_WORKLOAD_STATE = kind_of(Workload).facet_position["state"]
_OBJECT_STATE = kind_of(CustomObject).facet_position["state"]
_OBJECTS = (Pod, Workload, CustomObject)


class KubernetesHandler(Handler):
    """The handler of ``kubernetes``."""

    events: ClassVar[Mapping[str, str | None]] = {
        "kubernetes.pod.added": "on_pod",
        "kubernetes.pod.modified": "on_pod",
        "kubernetes.pod.deleted": "on_pod_deleted",
        "kubernetes.pod.absent": "on_pod_deleted",
        "kubernetes.pod.listed": "on_pods_listed",
        **{f"kubernetes.{kind}.{what}": "on_workload" for kind in _KINDS for what in ("added", "modified")},
        **{f"kubernetes.daemonset.{what}": "on_daemon_set" for what in ("added", "modified")},
        "kubernetes.*.added": "on_other_object",
        "kubernetes.*.modified": "on_other_object",
        "kubernetes.*.deleted": "on_workload_deleted",
        "kubernetes.*.absent": "on_workload_deleted",
        "kubernetes.*.listed": "on_workloads_listed",
        "kubernetes.cluster.connected": "on_cluster",
        "kubernetes.cluster.disconnected": "on_cluster",
        "kubernetes.cluster.synced": "on_cluster_synced",
        "kubernetes.*.bookmark": None,
        "kubernetes.*.error": None,
    }
    drivers: ClassVar[Collection[str]] = ("kubernetes",)
    # The origin is the cluster, so it comes from a configuration: a CloudEvent could name any cluster.
    envelopes: ClassVar[Collection[str]] = (NATIVE, KUBERNETES_WATCH)
    reserved: ClassVar[Collection[str]] = (
        "kubernetes.*.absent",
        "kubernetes.*.listed",
        "kubernetes.cluster.connected",
        "kubernetes.cluster.disconnected",
        "kubernetes.cluster.synced",
    )

    custom_kinds: Mapping[tuple[str, str], NamedKind] = MappingProxyType({})
    """(cluster, title in lower case) -> the kind as the option ``resources`` or ``kinds`` names it."""
    namespace_projects: Mapping[tuple[str, str], str] = MappingProxyType({})
    """(cluster, namespace) -> project."""

    def configure(self, conf: cfg.ConfigOpts) -> None:
        """Read which kinds the sources follow, and the projects of namespaces.

        :raises ConfigError: naming the option that is wrong.
        """
        self.namespace_projects = namespace_projects(conf)
        self.custom_kinds = read_custom_kinds(conf)

    def scopes(self, origin: str) -> list[EntityScope]:
        """The objects of the cluster, and the cluster. The VNF instances are those of the REST API."""
        fields = {"pod": "cluster", "workload": "cluster", "custom_object": "cluster", "cluster": "id"}
        return [EntityScope(kind=kind, field=field, value=origin) for kind, field in fields.items()] if origin else []

    def on_pod(self, event: Event, view: View) -> Iterator[Change]:
        """A pod as it is now, and the workload at the top of its owners.

        :raises InvalidEvent: naming the field that is wrong.
        """
        pod = read(event, PodObject)
        uid, version = pod.metadata.uid, _version(event)
        fields = _pod(event, pod)
        fields["project_id"] = self._project(event, pod.metadata)
        yield _upsert("pod", pod.metadata, version, fields, view.get("pod", uid), _POD_STATE)
        now = view.get("pod", uid)
        if isinstance(now, Pod) and (traced := _trace(now, version, view)) is not None:
            yield traced

    def on_pod_deleted(self, event: Event, view: View) -> Iterable[Change]:
        """A pod exists no more, known or not; or a listing lacks it.

        :raises InvalidEvent: naming the field that is wrong.
        """
        return (_deletion("pod", event, view, _version(event)),)

    def on_pods_listed(self, event: Event, view: View) -> Iterator[Change]:
        """Pods that are not in a complete listing do not exist.

        :raises InvalidEvent: naming the field that is wrong.
        """
        listed, version = read(event, Listed), _version(event)
        for pod in view.by("pod", "cluster", event.origin):
            if pod.id not in listed.uids and _older(pod, listed, _POD_STATE, version):
                yield Delete("pod", pod.id, version)

    def on_workload(self, event: Event, view: View) -> Iterator[Change]:
        """A Deployment, ReplicaSet or StatefulSet as it is now, and the pods that are traced through it.

        :raises InvalidEvent: naming the field that is wrong.
        """
        kind, workload = _KINDS.get(title := _title(event), title), read(event, WorkloadObject)
        fields: dict[str, Any] = {"replicas": workload.spec.replicas if workload.spec is not None else None}
        if (status := workload.status) is not None:
            fields["ready_replicas"] = status.ready_replicas
            # A ReplicaSet has one template, so all its pods are of the newest one.
            fields["updated_replicas"] = status.replicas if kind == "ReplicaSet" else status.updated_replicas
            fields["observed_generation"] = status.observed_generation
        fields["project_id"] = self._project(event, workload.metadata)
        return _workload(event, ("apps", kind), workload.metadata, fields, view)

    def on_daemon_set(self, event: Event, view: View) -> Iterator[Change]:
        """A DaemonSet as it is now.

        :raises InvalidEvent: naming the field that is wrong.
        """
        workload = read(event, DaemonSetObject)
        fields: dict[str, Any] = {}
        if (status := workload.status) is not None:
            fields["replicas"] = status.desired
            fields["ready_replicas"] = status.ready
            fields["updated_replicas"] = status.updated
            fields["observed_generation"] = status.observed_generation
        fields["project_id"] = self._project(event, workload.metadata)
        return _workload(event, ("apps", "DaemonSet"), workload.metadata, fields, view)

    def on_other_object(self, event: Event, view: View) -> Iterator[Change]:
        """An object of a kind that is followed by option; the meaning of its replicas is unknown.

        :raises InvalidEvent: naming the field that is wrong.
        """
        found = read(event, TypedObject)
        if (custom := self._custom_kind(event)) is not None:
            return self._custom_object(event, custom, found.metadata, view)
        fields: dict[str, Any] = {"project_id": self._project(event, found.metadata)}
        return _workload(event, self._group_and_kind(event, found), found.metadata, fields, view)

    def on_workload_deleted(self, event: Event, view: View) -> Iterator[Change]:
        """A workload or a custom object exists no more, known or not, or a listing lacks it.

        The pods of a workload lose it.

        :raises InvalidEvent: naming the field that is wrong.
        """
        version = _version(event)
        if self._custom_kind(event) is not None:
            yield _deletion("custom_object", event, view, version)
            return
        deletion = _deletion("workload", event, view, version)
        yield deletion
        yield from _trace_all(deletion.id, version, view)

    def on_workloads_listed(self, event: Event, view: View) -> Iterator[Change]:
        """Workloads or custom objects of one kind that are not in a complete listing do not exist.

        :raises InvalidEvent: naming the field that is wrong.
        """
        listed, version = read(event, Listed), _version(event)
        title = _title(event)
        if self._custom_kind(event) is not None:
            for each in view.by("custom_object", "cluster", event.origin):
                assert isinstance(each, CustomObject)
                if (
                    each.id not in listed.uids
                    and each.title.lower() == title
                    and _older(each, listed, _OBJECT_STATE, version)
                ):
                    yield Delete("custom_object", each.id, version)
            return
        for workload in view.by("workload", "cluster", event.origin):
            assert isinstance(workload, Workload)
            if (
                workload.id not in listed.uids
                and workload.title.lower() == title
                and _older(workload, listed, _WORKLOAD_STATE, version)
            ):
                yield Delete("workload", workload.id, version)
                yield from _trace_all(workload.id, version, view)

    def on_cluster(self, event: Event, view: View) -> Iterable[Change]:
        """Whether the cluster's API server answers.

        :raises InvalidEvent: naming the field that is wrong.
        """
        cluster = read(event, ClusterState)
        state: dict[str, Any] = {"state": cluster.state, "detail": cluster.detail}
        if cluster.version is not None:
            state["version"] = cluster.version
        return (Upsert("cluster", event.origin, _version(event), {"state": state}),)

    def on_cluster_synced(self, event: Event, view: View) -> Iterable[Change]:
        """When all was listed, how much there was, and what cannot be listed. A listing proves a connection.

        :raises InvalidEvent: naming the field that is wrong.
        """
        cluster = read(event, ClusterState)
        sync: dict[str, Any] = {"has_synced": cluster.has_synced, "unlisted": cluster.unlisted}
        if cluster.last_sync_at is not None:
            sync |= {"last_sync_at": cluster.last_sync_at, "counts": cluster.counts}
        if view.get("cluster", event.origin) is None and cluster.last_sync_at is not None:
            return (Upsert("cluster", event.origin, _version(event), {"state": {"state": "connected"}, "sync": sync}),)
        return (Upsert("cluster", event.origin, _version(event), {"sync": sync}),)

    def _project(self, event: Event, metadata: Metadata) -> str | None:
        """The project that the object's namespace is mapped to."""
        projects = self.namespace_projects
        if not projects or metadata.namespace is None:
            return None
        return projects.get((event.origin, metadata.namespace))

    def _custom_kind(self, event: Event) -> CustomKind | None:
        """What the option says of the object's kind; None: the object is a workload."""
        kinds = self.custom_kinds
        named = kinds.get((event.origin, _title(event))) if kinds else None
        return named if isinstance(named, CustomKind) else None

    def _group_and_kind(self, event: Event, found: TypedObject) -> tuple[str, str]:
        """The kind as the API spells it: as the option names it, else as the object does, else in lower case."""
        title = _title(event)
        if (named := self.custom_kinds.get((event.origin, title))) is not None:
            return named.group, named.kind
        if title_of(found.group, found.kind).lower() == title:
            return found.group, found.kind
        kind, _, group = title.partition(".")
        return group, kind

    def _custom_object(self, event: Event, custom: CustomKind, metadata: Metadata, view: View) -> Iterator[Change]:
        """An object as it is now, with the values at the paths of its kind.

        :raises InvalidEvent: the object is no JSON, or another cluster has one with its uid.
        """
        document = event.read()
        fields = _metadata(event, metadata) | {"api_group": custom.group, "kind": custom.kind}
        if custom.owner is not None:
            fields |= {"owner_uid": custom.owner.read_text(document), "owner_kind": None}
        scope = metadata.namespace if custom.scope is None else custom.scope.read_text(document)
        fields["project_id"] = self.namespace_projects.get((event.origin, scope)) if scope is not None else None
        fields["state"] = custom.state.read_text(document) if custom.state is not None else None
        fields["properties"] = custom.read_properties(document)
        known = view.get("custom_object", metadata.uid)
        yield _upsert("custom_object", metadata, _version(event), fields, known, _OBJECT_STATE)


# Objects


def _pod(event: Event, pod: PodObject) -> dict[str, Any]:
    fields = _metadata(event, pod.metadata)
    fields["deleted_at"] = pod.metadata.deletion_timestamp
    node = pod.spec.node_name if pod.spec is not None else None
    fields["node"] = _intern(node) if node is not None else None
    if (status := pod.status) is not None:
        fields["phase"] = _intern(status.phase) if status.phase is not None else None
        containers = read_containers(pod, status)
        reason = containers.reason
        fields["reason"] = _intern(for_people(reason, MAX_TEXT_CHARS)) if reason is not None else None
        fields["ip_address"] = status.pod_ip
        fields["ready"] = has_condition(status, "Ready")
        fields["restarts"], fields["crash_looping"] = containers.restarts, containers.crash_looping
    return fields


def _workload(
    event: Event, named: tuple[str, str], metadata: Metadata, fields: dict[str, Any], view: View
) -> Iterator[Change]:
    """:param named: the group and the kind."""
    uid, version = metadata.uid, _version(event)
    fields |= _metadata(event, metadata)
    fields["api_group"], fields["kind"] = map(_intern, named)
    fields["generation"] = metadata.generation
    fields["deleted_at"] = metadata.deletion_timestamp
    yield _upsert("workload", metadata, version, fields, view.get("workload", uid), _WORKLOAD_STATE)
    if named == ("apps", "ReplicaSet"):
        yield from _trace_all(uid, version, view)


def _metadata(event: Event, metadata: Metadata) -> dict[str, Any]:
    owner, namespace, version = metadata.controller, metadata.namespace, metadata.resource_version
    if version is not None and len(version) > MAX_TEXT_CHARS:
        version = hashlib.sha256(version.encode()).hexdigest()  # only equality counts
    return {
        "name": metadata.name,
        "namespace": _intern(namespace) if namespace is not None else None,
        "cluster": _intern(event.origin),
        "owner_uid": owner.uid if owner is not None else None,
        "owner_kind": owner.title if owner is not None else None,
        "labels": _interned(tuple(metadata.labels.items())) if metadata.labels else metadata.labels,
        "created_at": metadata.creation_timestamp,
        "resource_version": version,
    }


def _deletion(kind: str, event: Event, view: View, version: Version) -> Delete:
    uid = read(event, Object).metadata.uid
    known = view.get(kind, uid)
    if isinstance(known, _OBJECTS) and known.cluster != event.origin:
        raise _uid_of_another(known)
    return Delete(kind, uid, version)


def _uid_of_another(known: Pod | Workload | CustomObject) -> InvalidEvent:
    """Two clusters that were restored from one snapshot have objects with equal uids. The model has those of one."""
    return InvalidEvent(f"metadata.uid: belongs to an object of the cluster {known.cluster}")


def _upsert(
    kind: str, metadata: Metadata, version: Version, fields: dict[str, Any], known: Entity | None, position: int
) -> Upsert:
    """The change; under the version that the model has, and so a duplicate, where it would change nothing.

    That is so if an earlier life of the source wrote the version. A deletion of this life may come late, and is older.

    :raises InvalidEvent: another cluster has an object with this uid.
    """
    if isinstance(known, _OBJECTS) and known.cluster != fields["cluster"]:
        raise _uid_of_another(known)
    if known is not None and fields["resource_version"] is not None:
        written = known.versions[position]
        if version > written and not written.startswith(version[:_EPOCH_CHARS]):
            for name, value in fields.items():
                if getattr(known, name) != value:
                    break
            else:
                version = written
    writers = metadata.managed_fields
    manager = max(writers, key=_WRITTEN_AT).manager if writers else ""
    return Upsert(kind, metadata.uid, version, {"state": fields}, actor=Actor(manager) if manager else None)


_WRITTEN_AT = operator.attrgetter("time")
"""The manager that wrote last. An update of the status counts, such as one by ``kubelet``."""


# The workload at the top of a pod's owners


def _trace_all(owner_uid: str, version: Version, view: View) -> Iterator[Change]:
    for pod in view.by("pod", "owner_uid", owner_uid):
        assert isinstance(pod, Pod)
        if (traced := _trace(pod, version, view)) is not None:
            yield traced


def _trace(pod: Pod, version: Version, view: View) -> Upsert | None:
    """The pod's workload, where it is another one than the model says."""
    top = pod.owner_uid
    if pod.owner_kind == "ReplicaSet" and top is not None:
        found = view.get("workload", top)
        top = (found.owner_uid or found.id) if isinstance(found, Workload) and found.cluster == pod.cluster else None
    if top == pod.workload_uid:
        return None
    return Upsert("pod", pod.id, _after(pod.versions[_POD_WORKLOAD], version), {"workload": {"workload_uid": top}})


def _after(written: Version, version: Version) -> Version:
    """A version that is newer than the written one: the event's own, or else the one just after it."""
    return version if version > written else after(written)


# Versions


def _version(event: Event) -> Version:
    """The event's place in the order of its source.

    :raises InvalidEvent: it has none.
    """
    if event.sequence is None:
        raise InvalidEvent("sequence: missing, so the event has no order among its cluster's events")
    epoch, number = event.sequence
    version: Version = f"{_epoch(epoch)}.{str(number).zfill(12)}"  # type: ignore[assignment]  # Version() would be a call
    return version


_EPOCH_CHARS = 17


@functools.lru_cache(maxsize=64)
def _epoch(epoch: int) -> str:
    """How the versions of one life of a source begin."""
    return f"{epoch:0{_EPOCH_CHARS}d}"


def _older(entity: Entity, listed: Listed, position: int, version: Version) -> bool:
    """Whether an entity is in the scope of a listing, and was last written before it.

    What a reconciliation wrote has no place in the order of the source: the resourceVersions decide. So a listing says
    that an object is gone only if it could have seen it. After a restore of etcd they decide nothing.
    """
    inside = listed.namespace is None or listed.namespace == getattr(entity, "namespace", None)
    written = entity.versions[position]
    if not inside or written >= version:
        return False
    if not is_after(written) or listed.restored:
        return True
    read_at: str | None = getattr(entity, "resource_version", None)
    return read_at is not None and (read_at == listed.resource_version or is_below(read_at, listed.resource_version))


def _title(event: Event) -> str:
    """The object's kind in lower case, with its group unless that is the core group or ``apps``."""
    return event.type[len("kubernetes.") : event.type.rindex(".")]


_intern = sys.intern
"""One string in memory for all that are equal."""


@functools.lru_cache(maxsize=4096)
def _interned(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """One dictionary in memory for all objects with the same labels.

    A cache of bounded size that saves memory; entities are immutable.
    """
    return {_intern(key): _intern(value) for key, value in pairs}
