# SPDX-License-Identifier: Apache-2.0
"""Partial structs of Kubernetes objects.

The decoder skips every field that no handler uses. A number that an API server omits from a status is zero. Without a
status it is unknown, as in an object of a metadata-only request. A source may decode to these structs, and a handler
reads them: neither imports the other.

Source: the Kubernetes API reference, core/v1 and apps/v1.
"""

from __future__ import annotations

import datetime
import functools
import sys
from typing import Annotated

import msgspec

from watcher_sync.wire.fields import title_of
from watcher_sync.wire.limits import Count, Id, Text

Name = Annotated[str, msgspec.Meta(max_length=253)]

_MAX_TITLE_CHARS = 255
"""Of a title in the model."""


def is_below(version: str | None, other: str | None) -> bool:
    """Whether a resourceVersion is older than another one of the same resource.

    False unless both are numbers, as they are since Kubernetes 1.35; before, clients may not compare them.
    """
    if version is None or other is None or not all(each.isascii() and each.isdecimal() for each in (version, other)):
        return False
    # As numbers. int() refuses one of thousands of digits.
    one, two = version.lstrip("0"), other.lstrip("0")
    return (len(one), one) < (len(two), two)


@functools.lru_cache(maxsize=1024)
def _title(api_version: str, kind: str) -> str:
    """One string in memory for all objects of a kind."""
    return sys.intern(title_of(api_version.rpartition("/")[0], kind)[:_MAX_TITLE_CHARS])


class OwnerReference(msgspec.Struct, gc=False, rename="camel"):
    """Who owns an object; at most one of them controls it."""

    uid: Text
    kind: Text = ""
    api_version: Text = ""
    controller: bool | None = None

    @property
    def title(self) -> str:
        """Its kind with its group; see :func:`~watcher_sync.wire.fields.title_of`."""
        return _title(self.api_version, self.kind)


class FieldsEntry(msgspec.Struct, gc=False):
    """Who wrote fields of an object, and when; ManagedFieldsEntry."""

    manager: Text = ""
    time: Text = ""
    """RFC 3339, in UTC and whole seconds."""


class Metadata(msgspec.Struct, gc=False, rename="camel"):
    """ObjectMeta."""

    uid: Id
    name: Name | None = None
    namespace: Text | None = None
    labels: dict[str, str] | None = None
    owner_references: list[OwnerReference] | None = None
    creation_timestamp: datetime.datetime | None = None
    deletion_timestamp: datetime.datetime | None = None
    generation: Count | None = None
    resource_version: str | None = None
    """Opaque; of several clusters behind one API, as long as their number demands."""
    managed_fields: list[FieldsEntry] | None = None

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that controls it."""
        for owner in self.owner_references or ():
            if owner.controller:
                return owner
        return None


class Object(msgspec.Struct, gc=False):
    """Any object; only its metadata is decoded."""

    metadata: Metadata


class TypedObject(Object, gc=False, rename="camel"):
    """Any object that may say its kind, as in a watch event; the objects of a list need not."""

    kind: Text = ""
    api_version: Text = ""

    @property
    def group(self) -> str:
        """The group of its kind; empty for the core group."""
        return self.api_version.rpartition("/")[0]


class Waiting(msgspec.Struct, gc=False):
    """Why a container does not run."""

    reason: str | None = None


class Terminated(msgspec.Struct, gc=False, rename="camel"):
    """How a container ended."""

    exit_code: int = 0
    signal: int = 0
    reason: str | None = None


class ContainerState(msgspec.Struct, gc=False):
    """What a container does; neither: it runs, or nothing is known."""

    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(msgspec.Struct, gc=False, rename="camel"):
    """One container."""

    name: Text = ""
    ready: bool = False
    started: bool | None = None
    restart_count: Count = 0
    state: ContainerState | None = None


class Condition(msgspec.Struct, gc=False):
    """One condition of a pod."""

    type: str
    status: str
    reason: str | None = None


class InitContainer(msgspec.Struct, gc=False, rename="camel"):
    """What an init container shall be; a sidecar has the policy ``Always``."""

    name: Text = ""
    restart_policy: Text | None = None


class PodSpec(msgspec.Struct, gc=False, rename="camel"):
    """What a pod shall be."""

    node_name: Text | None = None
    init_containers: list[InitContainer] | None = None


class PodStatus(msgspec.Struct, gc=False, rename="camel"):
    """What a pod is."""

    phase: Text | None = None
    reason: str | None = None
    pod_ip: Text | None = msgspec.field(default=None, name="podIP")
    conditions: list[Condition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None


class PodObject(Object, gc=False):
    """core/v1 Pod."""

    spec: PodSpec | None = None
    status: PodStatus | None = None


class WorkloadSpec(msgspec.Struct, gc=False):
    """What a workload shall be."""

    replicas: Count | None = None


class WorkloadStatus(msgspec.Struct, gc=False, rename="camel"):
    """What a Deployment, ReplicaSet or StatefulSet is. A ReplicaSet has no ``updatedReplicas``."""

    replicas: Count = 0
    ready_replicas: Count = 0
    updated_replicas: Count = 0
    observed_generation: Count | None = 0


class WorkloadObject(Object, gc=False):
    """apps/v1 Deployment, ReplicaSet or StatefulSet."""

    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class DaemonSetStatus(msgspec.Struct, gc=False, rename="camel"):
    """What a DaemonSet is: it wants a pod on each node that fits, and counts otherwise."""

    desired: Count = msgspec.field(default=0, name="desiredNumberScheduled")
    ready: Count = msgspec.field(default=0, name="numberReady")
    updated: Count = msgspec.field(default=0, name="updatedNumberScheduled")
    observed_generation: Count | None = 0


class DaemonSetObject(Object, gc=False):
    """apps/v1 DaemonSet."""

    status: DaemonSetStatus | None = None
