# SPDX-License-Identifier: Apache-2.0
"""The objects and the history of their changes, with one resource version for all types.

Each write gets the next version, as in etcd, and is an event in the log of its type. The log covers
``history_limit`` versions of all types together. A watch or an exact list from before that is refused with 410. An
earlier state of a collection is computed by undoing the later events, so all pages of a list are of one snapshot.

An item is immutable: JSON bytes without ``apiVersion`` and ``kind``, and the fields that selectors and controllers
need. So a list of 100,000 pods is one join of bytes.

:attr:`Store.changed` guards everything here, and is notified after each write.
"""

from __future__ import annotations

import bisect
import collections
import copy
import itertools
import sys
import threading
from typing import Any, NamedTuple

import msgspec

from watcher_sync.testing.kubernetes import errors
from watcher_sync.testing.kubernetes.resources import ResourceType

Object = dict[str, Any]
"""An object of the API, decoded."""

SNAPSHOTS = 16
"""Number of cached snapshots; others are computed again."""


class Item:
    """One version of one object."""

    __slots__ = (
        "body", "deleting", "labels", "name", "namespace", "node", "owner", "phase", "ready", "resource", "uid",
        "version",
    )  # fmt: skip

    def __init__(self, resource: ResourceType, obj: Object, version: int) -> None:
        """Takes the object over, and writes the version into it."""
        metadata = obj["metadata"]
        metadata["resourceVersion"] = str(version)
        rest = {key: value for key, value in obj.items() if key not in ("apiVersion", "kind", "metadata")}
        self.body: bytes = msgspec.json.encode({"metadata": metadata, **rest})[1:]
        self.resource = resource
        self.version = version
        self.namespace: str = sys.intern(metadata.get("namespace", ""))
        self.name: str = metadata["name"]
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels") or {}
        self.deleting = "deletionTimestamp" in metadata
        self.owner: str = next((r["uid"] for r in metadata.get("ownerReferences") or () if r.get("controller")), "")
        """The uid of the object that controls this one; empty without one."""
        self.node: str = sys.intern((obj.get("spec") or {}).get("nodeName") or "")
        status = obj.get("status") or {}
        self.phase: str = sys.intern(status.get("phase") or "")
        self.ready = any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or ())

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    def encoded(self) -> bytes:
        """The whole object."""
        return b'{"kind":"%b","apiVersion":"%b",%b' % (
            self.resource.kind.encode(),
            self.resource.api_version.encode(),
            self.body,
        )

    def served_as(self, resource: ResourceType) -> Item:
        """The item as this version of its type shows it."""
        if self.resource == resource:
            return self
        shown = copy.copy(self)
        shown.resource = resource
        return shown

    def decoded(self) -> Object:
        """The whole object; the caller's own."""
        obj: Object = msgspec.json.decode(self.encoded())
        return obj


class Event(NamedTuple):
    """A change: from one item to another; None is "not there"."""

    version: int
    old: Item | None
    new: Item | None
    """For a deletion the last state, under the version of the deletion, is in ``last``."""
    last: Item


class Snapshot(NamedTuple):
    """A collection at one version, sorted by key."""

    version: int
    keys: list[str]
    items: list[Item]

    def of(self, namespace: str | None) -> tuple[list[str], list[Item]]:
        """What is in the namespace; everything for None."""
        if namespace is None:
            return self.keys, self.items
        begin = bisect.bisect_left(self.keys, f"{namespace}/")
        end = bisect.bisect_left(self.keys, f"{namespace}0")  # the character after the slash
        return self.keys[begin:end], self.items[begin:end]


class Saved(NamedTuple):
    """All objects at one version; see :meth:`Store.save`."""

    version: int
    items: dict[tuple[str, str], dict[str, Item]]


class _Collection:
    __slots__ = ("began", "items", "log")

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.log: list[Event] = []
        self.began = 0
        """The version at which its type was defined; its history reaches no further back."""


class Store:
    """See the module. Thread-safe."""

    def __init__(self, *, history_limit: int, first_version: int = 1000) -> None:
        self.changed = threading.Condition(threading.RLock())
        """Guards the store; notified after every write, and when something else may wake the watches."""
        self.version = first_version
        self.history_limit = history_limit
        self.removals = 0
        """How many items were removed so far."""
        self.bookmarks_asked = 0
        """How often :meth:`ask_for_bookmarks` was called."""
        self._compacted = first_version
        """Events up to here are gone."""
        self._collections: dict[tuple[str, str], _Collection] = collections.defaultdict(_Collection)
        self._snapshots: collections.OrderedDict[tuple[ResourceType, int], Snapshot] = collections.OrderedDict()

    @property
    def oldest(self) -> int:
        """The oldest version from which a watch can go on."""
        return max(self._compacted, self.version - self.history_limit)

    def ask_for_bookmarks(self) -> None:
        """A bookmark is due now on every watch that allows them."""
        with self.changed:
            self.bookmarks_asked += 1
            self.changed.notify_all()

    def compact(self) -> None:
        """Forget all history: the current version is the oldest."""
        with self.changed:
            self._compacted = self.version
            self._snapshots.clear()
            for collection in self._collections.values():
                collection.log.clear()

    def save(self) -> Saved:
        """Return all objects, as a snapshot of etcd has them."""
        with self.changed:
            return Saved(self.version, {resource: dict(found.items) for resource, found in self._collections.items()})

    def restore(self, saved: Saved) -> None:
        """Go back to what was saved. The versions go back, too, and the history is gone."""
        with self.changed:
            self.version = saved.version
            self.compact()
            for resource, found in self._collections.items():
                found.items = dict(saved.items.get(resource, {}))
            self.changed.notify_all()

    def get(self, resource: ResourceType, namespace: str, name: str) -> Item:
        """:raises ApiError: 404."""
        item = self.find(resource, namespace, name)
        if item is None:
            raise errors.not_found(resource, name)
        return item

    def find(self, resource: ResourceType, namespace: str, name: str) -> Item | None:
        with self.changed:
            item = self._collections[resource.collection].items.get(f"{namespace}/{name}")
            return item.served_as(resource) if item is not None else None

    def items(self, resource: ResourceType) -> list[Item]:
        """All of them, in the order of creation."""
        with self.changed:
            return list(self._collections[resource.collection].items.values())

    def count(self, resource: ResourceType) -> int:
        return len(self._collections[resource.collection].items)

    def put(self, resource: ResourceType, obj: Object) -> Item:
        """Write the object, new or not, as the next version. Takes it over."""
        with self.changed:
            item = Item(resource, obj, self.version + 1)
            self._append(resource, self._collections[resource.collection].items.get(item.key), item, item)
            self._collections[resource.collection].items[item.key] = item
            return item

    def remove(self, item: Item) -> Item:
        """Remove it; watches get its last state with the version of the removal."""
        with self.changed:
            current = self._collections[item.resource.collection].items.pop(item.key)
            self.removals += 1
            last = Item(item.resource, current.decoded(), self.version + 1)
            self._append(item.resource, current, None, last)
            return last

    def _append(self, resource: ResourceType, old: Item | None, new: Item | None, last: Item) -> None:
        collection = self._collections[resource.collection]
        self.version += 1
        collection.log.append(Event(self.version, old, new, last))
        if len(collection.log) > 2 * self.history_limit + 64:
            del collection.log[: bisect.bisect_right(collection.log, self.oldest, key=_version)]
        self.changed.notify_all()

    def events_after(self, resource: ResourceType, version: int) -> list[Event]:
        """What happened to objects of the type since the version.

        :raises ApiError: 410, when the history does not reach back so far.
        """
        with self.changed:
            oldest = max(self.oldest, self._collections[resource.collection].began)
            if version < oldest:
                raise errors.too_old(version, oldest)
            log = self._collections[resource.collection].log
            if not log or log[-1].version <= version:
                return []
            return log[bisect.bisect_right(log, version, key=_version) :]

    def begin(self, resource: ResourceType) -> None:
        """The type was defined, or defined again, which is a write, too: its history begins here."""
        with self.changed:
            self.version += 1
            self._collections[resource.collection].began = self.version

    def snapshot(self, resource: ResourceType, version: int | None = None) -> Snapshot:
        """The collection now, or as it was at the version.

        :raises ApiError: 410 for what the history does not reach, 504 for what is yet to come.
        """
        with self.changed:
            if version is None:
                version = self.version
            if version > self.version:
                raise errors.too_large(version, self.version)
            if version < self.oldest:
                raise errors.too_old(version, self.oldest)
            kept = self._snapshots.get((resource, version))
            if kept is not None:
                self._snapshots.move_to_end((resource, version))
                return kept
            made = self._snapshot(resource, version)
            self._snapshots[resource, version] = made
            while len(self._snapshots) > SNAPSHOTS:
                self._snapshots.popitem(last=False)
            return made

    def _snapshot(self, resource: ResourceType, version: int) -> Snapshot:
        collection = self._collections[resource.collection]
        at = collection.items
        since = self.events_after(resource, version)
        if since:
            at = dict(at)
            for event in reversed(since):
                if event.old is None:
                    del at[event.last.key]
                else:
                    at[event.old.key] = event.old
        keys = sorted(at)
        return Snapshot(version, keys, [at[key] for key in keys])

    def owned(self, resource: ResourceType) -> dict[str, list[Item]]:
        """Items by the uid of their controller, in the order of creation."""
        found: dict[str, list[Item]] = collections.defaultdict(list)
        for item in self.items(resource):
            if item.owner:
                found[item.owner].append(item)
        return found

    def everything(self) -> list[Item]:
        """All items of all types."""
        with self.changed:
            return list(itertools.chain.from_iterable(c.items.values() for c in self._collections.values()))


def _version(event: Event) -> int:
    return event.version
