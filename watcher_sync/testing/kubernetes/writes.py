# SPDX-License-Identifier: Apache-2.0
"""Writes: names and uids, conflicts, generations, subresources and deletions.

Guarantees of the API: an update with an outdated ``resourceVersion`` is a conflict, and so is a delete whose
preconditions fail. An update without a change writes nothing. ``generation`` counts changes of the spec. Uids are
never used again. A pod on a node is deleted in two steps: it gets a ``deletionTimestamp``, and the kubelet
(:mod:`.kubelet`) removes it. An object with finalizers is removed after the last of them.

Runs in the thread of the request, under the store's lock.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterable
from typing import Any

from watcher_sync.testing.kubernetes import errors, patches
from watcher_sync.testing.kubernetes.resources import NAMESPACES, PODS, Registry, ResourceType
from watcher_sync.testing.kubernetes.store import Item, Object, Store

KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "namespace",
        "name", "selfLink")  # fmt: skip
"""Metadata that an update does not change."""

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
DEFAULT_GRACE = 30

LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Of generated names: none that could make a word."""


class Writes:
    """The write half of the API."""

    def __init__(self, store: Store, registry: Registry, *, clock: Callable[[], str], rng: random.Random) -> None:
        """
        :param clock: the time as RFC 3339 text.
        :param rng: where generated names and uids come from.
        """
        self._store = store
        self._registry = registry
        self._clock = clock
        self._rng = rng

    def suffix(self, length: int = 5) -> str:
        """Of a generated name."""
        return "".join(self._rng.choices(LETTERS, k=length))

    def new_uid(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def create(self, resource: ResourceType, namespace: str, obj: Object, *, keep_status: bool = False) -> Item:
        """:raises ApiError: 400 for an object that does not fit the path, 403 for a namespace that is being
        deleted, 404 for one that is not there, 409 for a name that is taken, 422 for no name at all."""
        self._check_kind(resource, obj)
        metadata = dict(obj.get("metadata") or {})
        if resource.namespaced:
            if metadata.get("namespace", namespace) != namespace:
                raise errors.bad_request("the namespace of the provided object does not match the request's")
            metadata["namespace"] = namespace
        else:
            metadata.pop("namespace", None)
        if not metadata.get("name"):
            if not metadata.get("generateName"):
                raise errors.invalid(f'{resource.kind} "" is invalid: metadata.name: Required value')
            metadata["name"] = metadata["generateName"] + self.suffix()
        metadata = {**metadata, "uid": self.new_uid(), "creationTimestamp": self._clock()}
        for key in ("resourceVersion", "deletionTimestamp", "generation"):
            metadata.pop(key, None)
        if resource.has_generation:
            metadata["generation"] = 1
        made = {**obj, "metadata": metadata}
        if not keep_status:
            made.pop("status", None)
        _default(resource, made)
        with self._store.changed:
            if resource.namespaced and self._store.get(NAMESPACES, "", namespace).deleting:
                raise errors.terminating(namespace)
            if self._store.find(resource, metadata.get("namespace", ""), metadata["name"]) is not None:
                raise errors.already_exists(resource, metadata["name"])
            return self._store.put(resource, made)

    def update(
        self, resource: ResourceType, namespace: str, name: str, obj: Object, *, subresource: str | None = None
    ) -> Item:
        """Replace it.

        :param subresource: ``status`` writes the status alone; None everything but the status; ``all``
            both, which only the server itself may do.
        :raises ApiError: 404; 409 when it was changed since, or is another object of that name.
        """
        self._check_kind(resource, obj)
        with self._store.changed:
            item = self._store.get(resource, namespace, name)
            old = item.decoded()
            given = obj.get("metadata") or {}
            if given.get("name", name) != name:
                raise errors.bad_request(f"the name of the object ({given['name']}) does not match the request's")
            if given.get("resourceVersion") not in (None, "", str(item.version)):
                raise errors.conflict(resource, name)
            if given.get("uid") not in (None, "", item.uid):
                raise errors.conflict(resource, name, f"Precondition failed: UID in object meta: {item.uid}")
            new = _replaced(old, obj, subresource)
            if resource.has_generation and new.get("spec") != old.get("spec"):
                new["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
            if new == old:
                return item
            done = item.deleting and not new["metadata"].get("finalizers") and old["metadata"].get("finalizers")
            written = self._store.put(resource, new)
            if done and not _grace(new):
                return self._store.remove(written)
            return written

    def patch(
        self,
        resource: ResourceType,
        namespace: str,
        name: str,
        media_type: str,
        patch: Any,
        *,
        subresource: str | None = None,
    ) -> Item:
        """Change part of it; an apply creates what is not there. :raises ApiError: as :meth:`update`."""
        with self._store.changed:
            item = self._store.find(resource, namespace, name)
            if item is None:
                if media_type != "application/apply-patch+yaml":
                    raise errors.not_found(resource, name)
                return self.create(resource, namespace, patch)
            changed = patches.apply(media_type, item.decoded(), patch)
            return self.update(resource, namespace, name, changed, subresource=subresource)

    def get_scale(self, resource: ResourceType, namespace: str, name: str) -> Object:
        """The scale subresource."""
        return _scale(self._store.get(resource, namespace, name))

    def put_scale(
        self, resource: ResourceType, namespace: str, name: str, change: Callable[[Object], Object]
    ) -> Object:
        """Write the scale subresource. :raises ApiError: as :meth:`update`, and 422 for less than 0."""
        with self._store.changed:
            item = self._store.get(resource, namespace, name)
            scale = change(_scale(item))
            replicas = (scale.get("spec") or {}).get("replicas", 0)
            if not isinstance(replicas, int) or replicas < 0:
                raise errors.invalid(f'Scale.autoscaling "{name}" is invalid: spec.replicas: must not be negative')
            obj = item.decoded()
            obj["spec"] = {**obj.get("spec", {}), "replicas": replicas}
            obj["metadata"]["resourceVersion"] = (scale.get("metadata") or {}).get("resourceVersion")
            return _scale(self.update(resource, namespace, name, obj))

    def delete(self, item: Item, options: Object | None = None) -> tuple[Item, bool]:
        """Delete it, or begin to.

        :param options: DeleteOptions: ``gracePeriodSeconds``, ``propagationPolicy``, ``preconditions``.
        :returns: its last state, and whether it is gone.
        :raises ApiError: 404; 409 when the preconditions do not hold.
        """
        options = options or {}
        resource = item.resource
        with self._store.changed:
            item = self._store.get(resource, item.namespace, item.name)
            wanted = options.get("preconditions") or {}
            if wanted.get("uid", item.uid) != item.uid:
                raise errors.conflict(resource, item.name, f"Precondition failed: UID in object meta: {item.uid}")
            if wanted.get("resourceVersion", str(item.version)) != str(item.version):
                raise errors.conflict(resource, item.name, "Precondition failed: ResourceVersion in object meta")
            obj = item.decoded()
            metadata = obj["metadata"]
            finalizers = set(metadata.get("finalizers") or ())
            match options.get("propagationPolicy") or ("Orphan" if options.get("orphanDependents") else ""):
                case "Foreground":
                    finalizers.add(FOREGROUND)
                case "Orphan":
                    finalizers.add(ORPHAN)
            grace = options.get("gracePeriodSeconds")
            grace = DEFAULT_GRACE if grace is None else grace
            if resource != PODS or not item.node or item.phase in ("Succeeded", "Failed"):
                grace = 0
            if resource == NAMESPACES:
                finalizers.add("kubernetes")
                obj["status"] = {"phase": "Terminating"}
            if not grace and not finalizers:
                return self._store.remove(item), True
            metadata["deletionTimestamp"] = metadata.get("deletionTimestamp") or self._clock()
            metadata["deletionGracePeriodSeconds"] = min(grace, metadata.get("deletionGracePeriodSeconds", grace))
            if finalizers:
                metadata["finalizers"] = sorted(finalizers)
            if resource.has_generation and not item.deleting:
                metadata["generation"] = metadata.get("generation", 0) + 1
            if obj == item.decoded():
                return item, False
            return self._store.put(resource, obj), False

    def delete_all(self, items: Iterable[Item], options: Object | None = None) -> list[Item]:
        """Delete each of them that is still there."""
        done = []
        for item in items:
            with self._store.changed:
                if self._store.find(item.resource, item.namespace, item.name) is not None:
                    done.append(self.delete(item, options)[0])
        return done

    def _check_kind(self, resource: ResourceType, obj: Object) -> None:
        if not isinstance(obj, dict):
            raise errors.bad_request("the body of the request is not an object")
        given = (obj.get("apiVersion", resource.api_version), obj.get("kind", resource.kind))
        if given != (resource.api_version, resource.kind):
            raise errors.bad_request(f"{given[1]} in version {given[0]!r} cannot be handled as a {resource.kind}")


def _grace(obj: Object) -> int:
    return int(obj["metadata"].get("deletionGracePeriodSeconds") or 0)


def _replaced(old: Object, obj: Object, subresource: str | None) -> Object:
    """Return the object after the update."""
    if subresource == "status":
        new = {**old, "status": obj.get("status") or {}}
    else:
        new = {**obj, "apiVersion": old["apiVersion"], "kind": old["kind"]}
        if subresource is None:
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
    metadata = dict((old if subresource == "status" else obj).get("metadata") or {})
    for key in (*KEPT, "resourceVersion"):
        metadata.pop(key, None)
    kept = {key: old["metadata"][key] for key in (*KEPT, "resourceVersion") if key in old["metadata"]}
    return {**new, "metadata": {**metadata, **kept}}


def _scale(item: Item) -> Object:
    obj = item.decoded()
    matched = ((obj.get("spec") or {}).get("selector") or {}).get("matchLabels") or {}
    metadata = obj["metadata"]
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            key: metadata[key]
            for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
            if key in metadata
        },
        "spec": {"replicas": (obj.get("spec") or {}).get("replicas", 0)},
        "status": {
            "replicas": (obj.get("status") or {}).get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in sorted(matched.items())),
        },
    }


def _default(resource: ResourceType, obj: Object) -> None:
    """What the server fills in."""
    if resource.scalable:
        obj["spec"] = {"replicas": 1, **(obj.get("spec") or {})}
    if resource == PODS:
        obj["status"] = {"phase": "Pending", **(obj.get("status") or {})}
    if resource == NAMESPACES:
        obj["status"] = {"phase": "Active"}
