# SPDX-License-Identifier: Apache-2.0
"""What one delivery of a subscription contains, as of the replica's state. It does no I/O."""

from __future__ import annotations

import datetime

from watcher_sync.model.model import Model
from watcher_sync.model.onap.documents import resource_document
from watcher_sync.model.onap.instances import resources_of
from watcher_sync.model.onap.merging import Cache, ResourceChanges
from watcher_sync.webhooks.live import Live
from watcher_sync.webhooks.rows import NewDelivery
from watcher_sync.webhooks.subscription_rows import GONE
from watcher_sync.wire.webhook_messages import MessageHead, content_type, encode


def take_contents(model: Model, live: Live, cache: Cache) -> tuple[ResourceChanges, dict[str, object]]:
    """What a delivery tells now, and further members of its body; takes the merged changes.

    A replayed change that cancels out with a later one needs all resources: the receiver may have applied it before.
    """
    more: dict[str, object] = {}
    replayed = [key for key in live.replayed if live.filter.selects(*key)]
    resources = live.take().documents(model.snapshot(), model.kinds, live.filter, cache)
    if replayed and not _keys(resources).issuperset(replayed):
        live.resync = live.resync or "a change that was delivered before was taken back"
    if live.resync:
        more["resync"] = live.resync
        resources = ResourceChanges(modified=all_resources(model, live))
    instance = model.get(live.subscription.instance_kind, live.subscription.instance_id)
    if live.subscription.instance_kind == "vnf_instance" and live.is_foreign(instance):
        resources = ResourceChanges()
    if live.ending:
        more |= {"state": GONE, "reason": live.ending}
    return resources, more


def _keys(resources: ResourceChanges) -> set[tuple[str, str]]:
    lists = (resources.created, resources.deleted, resources.modified)
    return {(each["kind"], each["id"]) for documents in lists for each in documents}


def all_resources(model: Model, live: Live) -> list[dict[str, object]]:
    """The documents of all resources that a subscription admits."""
    subscription, wanted = live.subscription, live.filter
    kinds, view = model.kinds, model.snapshot()
    instance = view.get(subscription.instance_kind, subscription.instance_id)
    if instance is None or live.is_foreign(instance):
        return []
    return [
        resource_document(kinds[kind], entity, full=wanted.full, hidden=wanted.hidden.get(kind, {}))
        for kind, entity in resources_of(view, subscription.instance_kind, instance, wanted.kinds)
        if wanted.selects(kind, entity.id) and wanted.admits(entity)
    ]


def new_delivery(
    live: Live,
    resources: ResourceChanges,
    more: dict[str, object],
    *,
    webhook_id: str,
    sequence: int,
    time: datetime.datetime,
    max_bytes: int,
) -> NewDelivery:
    """Make the delivery after the last one of a subscription.

    :param sequence: the replica's seq.
    :param max_bytes: of the body.
    """
    subscription = live.subscription
    head = MessageHead(
        webhook_id=webhook_id, sequence=sequence, previous_sequence=live.progress.sequence, time=time, more=more
    )
    return NewDelivery(
        webhook_id=webhook_id,
        subscription_id=live.id,
        purpose="resync" if live.resync else "changes",
        previous_sequence=head.previous_sequence,
        sequence=sequence,
        content_type=content_type(subscription),
        body=encode(subscription, resources.document(), head, max_bytes),
        created_at=time,
        next_attempt_at=time,
    )
