# SPDX-License-Identifier: Apache-2.0
"""The garbage collector: deletes or releases the objects of a deleted owner.

Background: objects are deleted after their owner. Foreground: they are deleted first, and the owner after the last of
them. Orphan: they lose the reference and remain. A deleted namespace deletes all of its objects.
"""

from __future__ import annotations

import collections

from watcher_sync.testing.kubernetes.resources import NAMESPACES
from watcher_sync.testing.kubernetes.store import Item, Store
from watcher_sync.testing.kubernetes.writes import FOREGROUND, ORPHAN, Writes


class Collector:
    """Every method runs under the store's lock."""

    def __init__(self, store: Store, writes: Writes) -> None:
        self._store = store
        self._writes = writes
        self._seen = -1

    def turn(self) -> None:
        everything = self._store.everything()
        dying = [item for item in everything if item.deleting]
        if not dying and self._seen == self._store.removals:
            return
        self._seen = self._store.removals
        dependents: dict[str, list[Item]] = collections.defaultdict(list)
        for item in everything:
            if item.owner:
                dependents[item.owner].append(item)
        for owner in dying:
            self._release(owner, dependents[owner.uid], everything)
        alive = {item.uid for item in everything}
        self._writes.delete_all(
            item for owner, items in dependents.items() if owner not in alive for item in items if not item.deleting
        )

    def _release(self, owner: Item, dependents: list[Item], everything: list[Item]) -> None:
        """The next step towards the end of an object that waits for others."""
        finalizers = owner.decoded()["metadata"].get("finalizers") or ()
        if ORPHAN in finalizers:
            for item in dependents:
                self._orphan(item)
            self._take_off(owner, ORPHAN)
        elif FOREGROUND in finalizers:
            self._writes.delete_all(item for item in dependents if not item.deleting)
            if not dependents:
                self._take_off(owner, FOREGROUND)
        elif owner.resource == NAMESPACES and "kubernetes" in finalizers:
            inside = [item for item in everything if item.namespace == owner.name]
            self._writes.delete_all(item for item in inside if not item.deleting)
            if not inside:
                self._take_off(owner, "kubernetes")

    def _orphan(self, item: Item) -> None:
        obj = item.decoded()
        references = obj["metadata"]["ownerReferences"]
        obj["metadata"]["ownerReferences"] = [each for each in references if each["uid"] != item.owner]
        self._writes.update(item.resource, item.namespace, item.name, obj)

    def _take_off(self, owner: Item, finalizer: str) -> None:
        obj = owner.decoded()
        obj["metadata"]["finalizers"] = [each for each in obj["metadata"]["finalizers"] if each != finalizer]
        self._writes.update(owner.resource, owner.namespace, owner.name, obj)
