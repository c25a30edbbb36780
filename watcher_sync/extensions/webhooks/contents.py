# SPDX-License-Identifier: Apache-2.0
"""The changes of one subscription that no delivery contains yet, and the delivery that is made of them.

It does no I/O. For one thread.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence

from watcher_sync.extensions.webhooks.onap.documents import resource_document, resources_of
from watcher_sync.extensions.webhooks.onap.merging import Cache, Changes, Filter, ResourceChanges
from watcher_sync.extensions.webhooks.rows import GONE, NewDelivery, SubscriptionRow
from watcher_sync.extensions.webhooks.webhook_messages import MessageHead, content_type, encode
from watcher_sync.model.kinds import Entity, Kind, Kinds, project_of
from watcher_sync.model.model import Key, Model
from watcher_sync.model.visibility import Hidden
from watcher_sync.storage.writing.journal import JournalRow


class News:
    """What no delivery contains yet."""

    def __init__(self, resync: str = "", first: int | None = None) -> None:
        self.changes = Changes()
        """What changed."""
        self.later = Changes()
        """What changed while older rows are being read."""
        self.replayed: set[Key] = set()
        """(kind, id) of resources in ``changes`` whose state at the receiver is uncertain: they must not cancel out."""
        self.resync = resync
        """Why the next delivery has all resources, such as changes that were purged; empty: it has the changes."""
        self.first = first
        """At most the seq of the oldest change in it; None: it has none. ALL_RESOURCES: the journal has no such row."""
        self.since: datetime.datetime | None = None
        """When its oldest change was committed."""

    def add(self, kind: Kind, row: JournalRow, into: Changes) -> None:
        """Merge a row."""
        into.add(kind, row.entity_id, row.change, row.delta, row.seq)
        self.begin(row.seq, row.time)

    def add_created(self, found: Iterable[tuple[Kind, Entity]], row: JournalRow, into: Changes) -> None:
        """Merge entities that became resources with the workload of this row, which owns them."""
        for kind, entity in found:
            into.add(kind, entity.id, "created", {}, row.seq)
            self.replayed.add((kind.name, entity.id))  # a row before may have matched, too, as a modification

    def begin(self, seq: int, time: datetime.datetime | None = None) -> None:
        """There is something to tell since this seq, which was committed at this time."""
        self.first = seq if self.first is None else min(self.first, seq)
        self.since = self.since or time


def make_filter(row: SubscriptionRow, kinds: Kinds) -> Filter:
    """What a subscription admits, by its own filter and by the rights of the caller that wrote it."""
    wanted = row.filter
    hidden: dict[str, Hidden] = {}
    if not row.sees_admin_only:
        hidden = {name: kind.admin_only for name, kind in kinds.items() if kind.admin_only}
    return Filter(
        kinds=_set(wanted.get("kinds")) or _default_kinds(row, kinds),
        ids=_set(wanted.get("ids")),
        fields=_set(wanted.get("fields")),
        labels=wanted.get("labels") or {},
        project_id=row.project_id,
        full=row.payload == "full",
        hidden=hidden,
        unowned={} if row.sees_all_projects else kinds.hidden_unowned,
    )


def is_foreign(row: SubscriptionRow, instance: Entity | None) -> bool:
    """Whether the instance is of another project: its pods without a project would be admitted.

    :param instance: as it is now; None: it does not exist.
    """
    own = row.project_id
    return own is not None and instance is not None and project_of(instance) != own


def take_contents(
    news: News, model: Model, row: SubscriptionRow, wanted: Filter, ending: str, cache: Cache
) -> tuple[ResourceChanges, dict[str, object]]:
    """What a delivery tells now, and further members of its body; both are empty if all changes cancelled out.

    A replayed change that cancels out with a later one needs all resources: the receiver may have applied it before.
    Then ``resync`` of the news says so.

    :param ending: why the subscription ends; empty: it does not.
    """
    more: dict[str, object] = {}
    resources = news.changes.documents(model, model.kinds, wanted, cache)
    replayed = [key for key in news.replayed if wanted.selects(*key)]
    if replayed and not _keys(resources).issuperset(replayed):
        news.resync = news.resync or "a change that was delivered before was taken back"
    instance = model.get(row.instance_kind, row.instance_id)
    if news.resync:
        more["resync"] = news.resync
        resources = ResourceChanges(modified=_all_resources(model, row, wanted, instance))
    if row.instance_kind == "vnf_instance" and is_foreign(row, instance):
        resources = ResourceChanges()
    if ending:
        more |= {"state": GONE, "reason": ending}
    return resources, more


def new_delivery(row: SubscriptionRow, resources: ResourceChanges, head: MessageHead, max_bytes: int) -> NewDelivery:
    """Make a delivery of contents that are not empty.

    :param max_bytes: of the body.
    """
    return NewDelivery(
        webhook_id=head.webhook_id,
        subscription_id=row.id,
        purpose="resync" if "resync" in head.more else "changes",
        previous_sequence=head.previous_sequence,
        sequence=head.sequence,
        content_type=content_type(row),
        body=encode(row, resources.document(), head, max_bytes),
        created_at=head.time,
        next_attempt_at=head.time,
    )


def _all_resources(
    model: Model, row: SubscriptionRow, wanted: Filter, instance: Entity | None
) -> list[dict[str, object]]:
    """The documents of all resources that a subscription admits."""
    if instance is None or is_foreign(row, instance):
        return []
    return [
        resource_document(model.kinds[kind], entity, full=wanted.full, hidden=wanted.hidden_of(kind, entity))
        for kind, entity in resources_of(model, row.instance_kind, instance, wanted.kinds)
        if wanted.selects(kind, entity.id) and wanted.admits(kind, entity)
    ]


def _keys(resources: ResourceChanges) -> set[tuple[str, str]]:
    lists = (resources.created, resources.deleted, resources.modified)
    return {(each["kind"], each["id"]) for documents in lists for each in documents}


def _default_kinds(row: SubscriptionRow, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """A VNF instance has its workloads and pods; any other instance is its own resource."""
    if row.instance_kind == "vnf_instance":
        return frozenset(kinds) - {"vnf_instance"}
    return frozenset({row.instance_kind})


def _set(values: Sequence[str] | None) -> frozenset[str] | None:
    return frozenset(values) if values else None
