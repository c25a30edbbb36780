# SPDX-License-Identifier: Apache-2.0
"""The kinds of Kubernetes: clusters, workloads, pods and custom objects.

Only uids define ownership. ``owner_uid`` is the uid of the owner reference with ``controller: true``. A pod has
a ReplicaSet, StatefulSet or DaemonSet there, a ReplicaSet has its Deployment. Names are cut, and one may begin
another. A registered workload is found by its full name.

No reference here has effects. A field that followed from all pods of a cluster would cost as much as there are pods,
at every event.

A deleted uid may be alive again: etcd is restored, or an object returns to a selector. Names of clusters may be used
again, too.
"""

from __future__ import annotations

import datetime
from typing import Annotated, Any, Literal

import msgspec

from watcher_sync.model.kinds import (
    AdminOnly,
    Count,
    Derived,
    Doc,
    Entity,
    In,
    LongText,
    Reference,
    Text,
    Vocabulary,
    kind,
)
from watcher_sync.model.view import View
from watcher_sync.wire.fields import title_of

FullName = Annotated[str, msgspec.Meta(max_length=768)]
"""``cluster/namespace/title/name``; MariaDB indexes no longer text."""

_PROJECT_DOC = "Project (tenant) that the configuration maps its namespace to; null: none."

ObjectName = Annotated[str, msgspec.Meta(max_length=253)]
"""A name as Kubernetes allows it (RFC 1123 subdomain)."""


_IN_CLUSTER = Reference("cluster", "cluster", "runs_on")
_OF_OWNER = Reference("owner_uid", "workload", "owned_by", or_kinds=("custom_object",))
_OWNER_KIND = "Kind of what controls it; with its group unless that is the core group or apps."


def full_name(cluster: str | None, namespace: str | None, title: str | None, name: str | None) -> str:
    """What an object is looked up by: its cluster, namespace, kind with group, and name; unique at any time.

    :param title: as :func:`~watcher_sync.wire.fields.title_of` gives it.
    """
    return f"{cluster or ''}/{namespace or ''}/{title or ''}/{name or ''}"


def _name_of_workload(_view: View, workload: Workload) -> str:
    return full_name(workload.cluster, workload.namespace, workload.title, workload.name)


def _name_of_pod(_view: View, pod: Pod) -> str:
    return full_name(pod.cluster, pod.namespace, "Pod", pod.name)


@kind("cluster", plural="clusters", ids_reused=True)
class Cluster(Entity, frozen=True, kw_only=True, gc=False):
    """A cluster of Kubernetes. Id: the name that the configuration gives it."""

    state: Annotated[
        Literal["connected", "disconnected", "unknown"], In("state"), Doc("Whether its API server answers.")
    ] = "unknown"
    detail: Annotated[LongText | None, In("state"), Doc("Why it is not connected.")] = None
    version: Annotated[Text | None, In("state"), Doc("Version of its API server.")] = None
    has_synced: Annotated[
        bool | None, In("sync"), Doc("Whether every listing was complete at least once, but for those in unlisted.")
    ] = None
    unlisted: Annotated[
        dict[str, Any] | None,
        In("sync"),
        Doc("Kind, or namespace/kind -> since when its objects cannot be listed, and why; null: all can be."),
    ] = None
    last_sync_at: Annotated[
        datetime.datetime | None, In("sync"), Doc("When the model last had all that the cluster has.")
    ] = None
    counts: Annotated[
        dict[str, Any] | None, In("sync"), Doc("Kind -> objects that the cluster has; some seconds old.")
    ] = None


@kind(
    "workload",
    plural="workloads",
    ids_reused=True,
    indexes=("cluster", "namespace", "owner_uid", "full_name"),
    filter_indexes=("cluster", "name", "namespace", "project_id"),
    references=(_IN_CLUSTER, _OF_OWNER),
    derived=(
        Derived(
            "full_name", _name_of_workload, alone=True, reads=("cluster", "namespace", "api_group", "kind", "name")
        ),
    ),
    shown_unowned=("cluster", "namespace", "name", "api_group", "kind", "replicas", "ready_replicas"),
)
class Workload(Entity, frozen=True, kw_only=True, gc=False):
    """What makes pods: a Deployment, ReplicaSet, StatefulSet or DaemonSet. Id: its uid."""

    api_group: Annotated[Text | None, In("state"), Doc("API group of its kind; empty: the core group.")] = None
    kind: Annotated[
        Text | None, In("state"), Doc("Deployment, ReplicaSet, StatefulSet, DaemonSet, or a kind watched by option.")
    ] = None
    name: Annotated[ObjectName | None, In("state"), Doc("Its name.")] = None
    namespace: Annotated[Text | None, In("state"), Doc("Its namespace.")] = None
    cluster: Annotated[Text | None, In("state"), Doc("Its cluster.")] = None
    project_id: Annotated[Text | None, In("state"), Doc(_PROJECT_DOC)] = None
    full_name: Annotated[
        FullName | None, Doc("cluster/namespace/kind/name; the kind as Job.batch unless its group is apps or the core.")
    ] = None
    owner_uid: Annotated[Text | None, In("state"), Doc("Uid of what controls it: a ReplicaSet's Deployment.")] = None
    owner_kind: Annotated[Text | None, In("state"), Doc(_OWNER_KIND)] = None
    replicas: Annotated[Count | None, In("state"), Doc("Pods wanted.")] = None
    ready_replicas: Annotated[Count | None, In("state"), Doc("Pods ready.")] = None
    updated_replicas: Annotated[Count | None, In("state"), Doc("Pods of the newest template.")] = None
    generation: Annotated[Count | None, In("state"), Doc("Grows with every change of what is wanted.")] = None
    observed_generation: Annotated[
        Count | None, In("state"), Doc("The generation its controller has seen; null: unknown.")
    ] = None
    deleted_at: Annotated[
        datetime.datetime | None, In("state"), Doc("When its deletion was asked for; it waits for its pods.")
    ] = None
    labels: Annotated[dict[str, Any] | None, In("state"), Doc("Its labels.")] = None
    created_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was created.")] = None
    resource_version: Annotated[Text | None, In("state"), Doc("Opaque; of what is shown.")] = None

    @property
    def title(self) -> str:
        """Its kind with its group; see :func:`~watcher_sync.wire.fields.title_of`."""
        return title_of(self.api_group or "", self.kind or "")


_PHASES = Vocabulary(("Pending", "Running", "Succeeded", "Failed", "Unknown"))


@kind(
    "pod",
    plural="pods",
    ids_reused=True,
    indexes=("cluster", "namespace", "owner_uid", "workload_uid", "full_name"),
    filter_indexes=("cluster", "name", "namespace", "node", "phase", "project_id", "ready"),
    references=(_IN_CLUSTER, _OF_OWNER, Reference("workload_uid", "workload", "owned_by", or_kinds=("custom_object",))),
    derived=(Derived("full_name", _name_of_pod, alone=True, reads=("cluster", "namespace", "name")),),
    shown_unowned=("cluster", "namespace", "name", "phase"),
)
class Pod(Entity, frozen=True, kw_only=True, gc=False):
    """A pod. Id: its uid."""

    name: Annotated[ObjectName | None, In("state"), Doc("Its name.")] = None
    namespace: Annotated[Text | None, In("state"), Doc("Its namespace.")] = None
    cluster: Annotated[Text | None, In("state"), Doc("Its cluster.")] = None
    project_id: Annotated[Text | None, In("state"), Doc(_PROJECT_DOC)] = None
    full_name: Annotated[FullName | None, Doc("cluster/namespace/Pod/name.")] = None
    node: Annotated[Text | None, In("state"), AdminOnly(), Doc("The node that it was bound to.")] = None
    phase: Annotated[Text | None, In("state"), _PHASES, Doc("Its phase.")] = None
    reason: Annotated[Text | None, In("state"), Doc("Why it is in its phase: Evicted, Unschedulable, Init:Error.")] = (
        None
    )
    ready: Annotated[bool | None, In("state"), Doc("Whether its condition Ready is true.")] = None
    restarts: Annotated[
        Count | None, In("state"), Doc("Restarts of its containers; of init containers, until they are done.")
    ] = None
    crash_looping: Annotated[bool | None, In("state"), Doc("Whether a container waits in CrashLoopBackOff.")] = None
    deleted_at: Annotated[datetime.datetime | None, In("state"), Doc("When its deletion was asked for.")] = None
    ip_address: Annotated[Text | None, In("state"), Doc("Its address.")] = None
    owner_uid: Annotated[Text | None, In("state"), Doc("Uid of what controls it.")] = None
    owner_kind: Annotated[Text | None, In("state"), Doc(_OWNER_KIND)] = None
    workload_uid: Annotated[
        Text | None, In("workload"), Doc("Uid at the top of its owner chain: of a Deployment, not its ReplicaSet.")
    ] = None
    labels: Annotated[dict[str, Any] | None, In("state"), Doc("Its labels.")] = None
    created_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was created.")] = None
    resource_version: Annotated[Text | None, In("state"), Doc("Opaque; of what is shown.")] = None


@kind(
    "custom_object",
    plural="custom_objects",
    ids_reused=True,
    indexes=("cluster", "owner_uid"),
    filter_indexes=("cluster", "kind", "name", "namespace", "project_id", "state"),
    references=(_IN_CLUSTER, Reference("owner_uid", "custom_object", "owned_by", or_kinds=("workload",))),
)
class CustomObject(Entity, frozen=True, kw_only=True, gc=False):
    """An object of a kind that the option ``kinds`` of a source names. Id: its uid.

    The entry of its kind says where its state, its owner, its scope and its properties are in the object.
    """

    api_group: Annotated[Text | None, In("state"), Doc("API group of its kind; empty: the core group.")] = None
    kind: Annotated[Text | None, In("state"), Doc("Its kind, such as VirtualMachine.")] = None
    name: Annotated[ObjectName | None, In("state"), Doc("Its name.")] = None
    namespace: Annotated[Text | None, In("state"), Doc("Its namespace; null: its kind has none.")] = None
    cluster: Annotated[Text | None, In("state"), Doc("Its cluster.")] = None
    project_id: Annotated[Text | None, In("state"), Doc(_PROJECT_DOC)] = None
    state: Annotated[Text | None, In("state"), Doc("The text at the path of its state; null: none.")] = None
    owner_uid: Annotated[Text | None, In("state"), Doc("Uid of what controls it, or the text at the path.")] = None
    owner_kind: Annotated[Text | None, In("state"), Doc(f"{_OWNER_KIND} Null: only a uid is known.")] = None
    properties: Annotated[
        dict[str, Any] | None, In("state"), Doc("Name -> value at its path; null: there is none, or it is too large.")
    ] = None
    labels: Annotated[dict[str, Any] | None, In("state"), Doc("Its labels.")] = None
    created_at: Annotated[datetime.datetime | None, In("state"), Doc("When it was created.")] = None
    resource_version: Annotated[Text | None, In("state"), Doc("Opaque; of what is shown.")] = None

    @property
    def title(self) -> str:
        """Its kind with its group; see :func:`~watcher_sync.wire.fields.title_of`."""
        return title_of(self.api_group or "", self.kind or "")
