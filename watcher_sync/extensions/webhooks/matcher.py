# SPDX-License-Identifier: Apache-2.0
"""Finds the subscriptions that a journal row concerns, through indexes: never by a scan of the subscriptions.

A row concerns the instance that it is about. The row of a pod or workload concerns the VNF instances that name a
workload above it, before or after the change. The cost is the length of the owner chain, and the number found.

Kubernetes deletes owners before what they own. So the matcher remembers the last deleted workloads: uids are never used
again.

For one thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import Generic, TypeVar

from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.workloads import Getter
from watcher_sync.extensions.webhooks.onap.documents import InstanceIndex
from watcher_sync.model.kinds import Entity, Kind
from watcher_sync.model.model import Key, Model
from watcher_sync.storage.writing.journal import JournalRow

T = TypeVar("T")

_OWNED = ("pod", "workload")
"""Kinds that belong to VNF instances."""


_MAX_DELETED = 20_000
"""Deleted workloads that are remembered."""


class _Owners:
    """Finds the owners of pods and workloads: as they were before some rows, as they are, or as they were deleted."""

    def __init__(self, before: Mapping[Key, Entity | None], view: Getter, deleted: Mapping[str, Entity]) -> None:
        self._before = before
        self._view = view
        self._deleted = deleted

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """The entity, if it is known."""
        found = self._before.get((kind, entity_id)) or self._view.get(kind, entity_id)
        return found if found is not None or kind != "workload" else self._deleted.get(entity_id)


class Matcher(Generic[T]):
    """Instance -> what subscribed to it."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._index = InstanceIndex()
        self._deleted: OrderedDict[str, Entity] = OrderedDict()
        """Uid -> a deleted workload, the latest last."""
        self._subscribed: dict[Key, dict[str, T]] = {}
        """(kind, id) of an instance -> subscription id -> subscription."""

    def add(self, kind: str, instance_id: str, subscription_id: str, subscription: T) -> None:
        """Add a subscription, or replace it."""
        found = self._subscribed.setdefault((kind, instance_id), {})
        is_first = not found
        found[subscription_id] = subscription
        if is_first and kind == "vnf_instance":
            self.index(instance_id)

    def remove(self, kind: str, instance_id: str, subscription_id: str) -> None:
        """Remove a subscription."""
        found = self._subscribed.get((kind, instance_id), {})
        found.pop(subscription_id, None)
        if not found and self._subscribed.pop((kind, instance_id), None) is not None and kind == "vnf_instance":
            self._index.put(instance_id, None)

    def of_instance(self, kind: str, instance_id: str) -> Mapping[str, T]:
        """The subscriptions to an instance."""
        return self._subscribed.get((kind, instance_id), {})

    def index(self, instance_id: str) -> None:
        """Index a VNF instance as the model has it now, if it has subscriptions."""
        if ("vnf_instance", instance_id) in self._subscribed:
            entity = self._model.get("vnf_instance", instance_id)
            self._index.put(instance_id, entity if isinstance(entity, VnfInstance) else None)

    def match(self, row: JournalRow, before: Mapping[Key, Entity | None]) -> Iterator[T]:
        """The subscriptions that a row concerns. The model is at the row's seq or later.

        :param before: entities as they were before the rows that were read together.
        """
        kind = self._model.kinds.get(row.kind)
        if kind is None:
            return
        if row.kind not in _OWNED:
            yield from self._subscribed.get((row.kind, row.entity_id), {}).values()
            return
        key = (row.kind, row.entity_id)
        was, now = before.get(key), self._model.get(*key)
        if row.change != "updated":
            # It may have come and gone within the rows.
            known = entity_of(kind, row)
            was, now = was or (known if row.change == "deleted" else None), now or known
        if row.change == "deleted" and row.kind == "workload" and was is not None:
            self.remember(was)
        if not len(self._index):
            return
        found: set[Key] = set()
        left = row.delta.get("owner_uid", (None, None))[0] if row.change == "updated" else None
        if left is not None:
            # The owner before, also if the row is read again later.
            was = was or kind.cls(id=row.entity_id, **kind.from_json({"owner_uid": left}))
        for state, past in ((was, before), (now, {})):
            if state is not None:
                found |= self._index.concerned(*key, (state,), _Owners(past, self._model, self._deleted))
        for instance in found:
            yield from self._subscribed.get(instance, {}).values()

    def remember(self, workload: Entity) -> None:
        """Remember a deleted workload, so that the rows of what it owned find its instances."""
        self._deleted[workload.id] = workload
        while len(self._deleted) > _MAX_DELETED:
            self._deleted.popitem(last=False)

    def below(self, workload_id: str) -> Iterator[tuple[str, Entity]]:
        """(kind, entity) of what a workload owns: what arrived before it was of no instance until now.

        Owners may form a circle: each is found once.
        """
        view = self._model
        waiting = [workload_id]
        seen = {workload_id}
        while waiting:
            uid = waiting.pop()
            for pod in view.by("pod", "owner_uid", uid):
                yield "pod", pod
            for workload in view.by("workload", "owner_uid", uid):
                if workload.id not in seen:
                    seen.add(workload.id)
                    yield "workload", workload
                    waiting.append(workload.id)


def entity_of(kind: Kind, row: JournalRow) -> Entity:
    """The entity that a row created or deleted, as far as its delta has it."""
    side = 1 if row.change == "created" else 0
    values = kind.from_json({name: pair[side] for name, pair in row.delta.items() if pair[side] is not None})
    return kind.cls(id=row.entity_id, **values)
