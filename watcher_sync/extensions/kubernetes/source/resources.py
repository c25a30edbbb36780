# SPDX-License-Identifier: Apache-2.0
"""The resources that a source can follow, and the names that operators use for them.

The five resources that pods come from have known plurals. An operator names any other as ``group/Kind`` or
``group/version/Kind`` (``version/Kind`` in the core group), in the option ``resources`` or in ``kinds``. Discovery then
finds its plural, whether it is namespaced, and the version if the name has none. Pure; any thread.
"""

from __future__ import annotations

import functools
from typing import Final

import msgspec

from watcher_sync.extensions.kubernetes.wire.custom_kinds import CustomKind, split_name
from watcher_sync.extensions.kubernetes.wire.kubernetes import DaemonSetObject, Object, PodObject, WorkloadObject
from watcher_sync.wire.fields import title_of

WHOLE: Final = "application/json"


class Resource(msgspec.Struct, frozen=True):
    """One group, version and kind."""

    group: str
    """Empty for the core group."""
    version: str
    """Empty before discovery, if the operator named none."""
    kind: str
    plural: str = ""
    """The name in paths; empty before discovery."""
    namespaced: bool = True
    read_as: type[Object] | None = None
    """The type that handlers read its objects as; None: unknown."""
    custom: CustomKind | None = None
    """How its objects become custom objects; None: they do not."""

    @property
    def base(self) -> str:
        """The path of its group and version, at which discovery finds it; of its group, without a version."""
        return (f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}").rstrip("/")

    @property
    def title(self) -> str:
        """Its kind, with its group where the kind may not be unique."""
        return title_of(self.group, self.kind)

    @property
    def name(self) -> str:
        """For log lines: the plural, else the kind."""
        return self.plural or self.kind

    def path(self, namespace: str | None) -> str:
        """The path of the collection.

        :param namespace: None: all namespaces.
        """
        inside = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{self.base}{inside}/{self.plural}"

    def event_type(self, what: str) -> str:
        """The type of an event about one of its objects, such as ``kubernetes.pod.added``."""
        return _event_type(self.title, what)


@functools.lru_cache(maxsize=256)
def _event_type(title: str, what: str) -> str:
    """Cached, so that all events of a type share one string."""
    return f"kubernetes.{title.lower()}.{what}"


def key_of(resource: Resource, namespace: str | None) -> str:
    """How the model names what could not be listed: its title, or ``namespace/title`` if only a namespace was asked."""
    return f"{namespace}/{resource.title}" if namespace else resource.title


KNOWN: Final = {
    resource.plural: resource
    for resource in (
        Resource("", "v1", "Pod", "pods", read_as=PodObject),
        Resource("apps", "v1", "Deployment", "deployments", read_as=WorkloadObject),
        Resource("apps", "v1", "ReplicaSet", "replicasets", read_as=WorkloadObject),
        Resource("apps", "v1", "StatefulSet", "statefulsets", read_as=WorkloadObject),
        Resource("apps", "v1", "DaemonSet", "daemonsets", read_as=DaemonSetObject),
    )
}


def parse(name: str) -> Resource:
    """Return the resource that an operator named.

    :raises ValueError: the name is invalid; says what is allowed.
    """
    if (known := KNOWN.get(name.lower())) is not None:
        return known
    named = split_name(name)
    if named is None:
        raise ValueError(f"{name!r} is neither one of {', '.join(KNOWN)} nor group/Kind or group/version/Kind")
    return Resource(*named)


def of_custom_kind(custom: CustomKind) -> Resource:
    """Return the resource of an entry of the option ``kinds``."""
    return Resource(custom.group, custom.version, custom.kind, custom=custom)
