# SPDX-License-Identifier: Apache-2.0
"""One subscription of a worker: what it has to deliver, and how far it is."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from watcher_sync.model.kinds import PROJECT_FIELD, Entity, Kind
from watcher_sync.model.onap.merging import Changes, Filter
from watcher_sync.model.staged import Key
from watcher_sync.model.visibility import Hidden
from watcher_sync.webhooks.rows import NewDelivery
from watcher_sync.webhooks.subscription_rows import ACTIVE, ALL_RESOURCES, Progress, Subscription

_NOT_BEGUN: Final = object()
"""The pass of a subscription whose older rows are to be read."""


class Outgoing(msgspec.Struct, eq=False):
    """A delivery until it has ended."""

    delivery: NewDelivery
    live: Live
    due: float
    """When the next attempt begins, by the monotonic clock."""
    attempts: list[dict[str, object]] = msgspec.field(default_factory=list)
    is_sending: bool = False
    """Whether it waits for its host, or is being sent."""

    @property
    def first_seq(self) -> int:
        """The first seq whose change the receiver lacks if it does not accept the delivery."""
        delivery = self.delivery
        return ALL_RESOURCES if delivery.purpose == "resync" else delivery.previous_sequence + 1

    @property
    def is_test(self) -> bool:
        """Whether it is a test message: sent once, beside the deliveries of changes."""
        return self.delivery.purpose == "test"


class Live:
    """An active subscription. For the thread of its planner.

    At most one delivery of changes is under way, so a callback gets them in order. Changes that come meanwhile are
    merged into the next one.
    """

    def __init__(
        self, subscription: Subscription, progress: Progress, shard_sequence: int, kinds: Mapping[str, Kind]
    ) -> None:
        """:param shard_sequence: the seq up to which the worker before has planned."""
        self.progress = progress
        self.floor = max(shard_sequence, progress.sequence)
        """No delivery is planned while the replica is behind this seq: a worker before has planned up to it."""
        self.secrets: Sequence[tuple[bytes, datetime.datetime | None]] = ()
        """(secret, when it ceases to sign) of each, the newest first."""
        self.trouble = ""
        """Why nothing can be sent, such as secrets that no key decrypts."""
        self.after = effective_after(subscription, progress, shard_sequence)
        """The journal's rows up to this seq are in deliveries already."""
        self.done = progress.sequence
        """The changes up to this seq were delivered, or cancelled out."""
        self.changes = Changes()
        """What no delivery contains yet."""
        self.replayed: set[Key] = set()
        """(kind, id) of resources in ``changes`` whose state at the receiver is uncertain: they must not cancel out."""
        self.reading: object | None = None
        """The pass that reads older rows for it; None: nothing is being read."""
        self.later = Changes()
        """The changes that came while older rows are being read."""
        self.since: datetime.datetime | None = None
        """When the oldest change was committed that no delivery contains."""
        self.earliest = -math.inf
        """When the next delivery may be planned, by the monotonic clock."""
        self.paused_until = -math.inf
        """Not before that either: an earlier delivery was not accepted. A PUT or a replay ends the pause."""
        self.timer: float | None = None
        """When its planner checks it again."""
        self.delivery: Outgoing | None = None
        self.tests: set[str] = set()
        """The ids of its test messages that are known."""
        self.is_held = progress.held_since is not None
        """Whether the database knows that there are changes in no delivery."""
        self.resync = ""
        """Why the next delivery has all resources, such as changes that were purged; empty: it has the changes."""
        self.ending = ""
        """Why the subscription ends with the next delivery; empty: it does not."""
        self.ended_at = 0
        """The seq of the deletion of its instance."""
        self.is_ending_planned = False
        """Whether a planned delivery says that the subscription ends."""
        self.sending = 0
        """Its requests under way, test messages too."""
        self.noted_at: int | None = None
        """The seq of the row that made it resync or end; ALL_RESOURCES: no row did."""
        self.rewrite(subscription, kinds)

    def rewrite(self, subscription: Subscription, kinds: Mapping[str, Kind]) -> None:
        """Take what the subscriber wrote."""
        self.subscription = subscription
        self.filter = make_filter(subscription, kinds)

    @property
    def id(self) -> str:
        """The id of the subscription."""
        return self.subscription.id

    @property
    def is_active(self) -> bool:
        """Whether it is neither suspended nor gone."""
        return self.subscription.state == ACTIVE

    def is_foreign(self, instance: Entity | None) -> bool:
        """Whether the instance is of another project: its pods without a project would be admitted.

        :param instance: as it is now; None: it does not exist.
        """
        own = self.subscription.project_id
        return own is not None and instance is not None and getattr(instance, PROJECT_FIELD, None) != own

    @property
    def has_news(self) -> bool:
        """Whether there may be something to deliver."""
        return bool(self.resync or self.ending) or not self.changes.is_empty()

    def note(self, seq: int, *, resync: str = "", ending: str = "") -> None:
        """Have the next delivery tell all resources, or be the last one."""
        self.resync = resync or self.resync
        self.ending = ending or self.ending
        self.noted_at = seq if self.noted_at is None else min(self.noted_at, seq)
        if ending:
            self.ended_at = max(self.ended_at, seq)
            self.is_ending_planned = False

    def await_older_rows(self) -> None:
        """New rows wait from now on, until older rows were merged. Nothing is planned meanwhile."""
        self.reading = _NOT_BEGUN
        self.later = Changes()

    def first_seq(self) -> int | None:
        """The seq of the oldest change that is in no delivery; None: there is none."""
        unread = self.after + 1 if self.reading is not None else None
        seqs = [seq for seq in (self.changes.first_seq or None, self.noted_at, unread) if seq is not None]
        return min(seqs) if seqs else None

    def take(self) -> Changes:
        """Remove and return the merged changes."""
        taken, self.changes = self.changes, Changes()
        self.replayed = set()
        self.since = None
        return taken


def effective_after(subscription: Subscription, progress: Progress, shard_sequence: int) -> int:
    """The seq up to which all changes of a subscription are in deliveries.

    :param shard_sequence: the seq up to which the worker before has planned.
    """
    if progress.held_since is not None:
        return progress.held_since - 1
    return max(shard_sequence, progress.sequence, subscription.start_after)


def make_filter(subscription: Subscription, kinds: Mapping[str, Kind]) -> Filter:
    """What a subscription admits, by its own filter and by the rights of the caller that wrote it."""
    wanted = subscription.filter
    hidden: dict[str, Hidden] = {}
    if not subscription.sees_admin_only:
        hidden = {name: kind.admin_only for name, kind in kinds.items() if kind.admin_only}
    return Filter(
        kinds=_set(wanted.get("kinds")) or _default_kinds(subscription, kinds),
        ids=_set(wanted.get("ids")),
        fields=_set(wanted.get("fields")),
        labels=wanted.get("labels") or {},
        project_id=subscription.project_id,
        full=subscription.payload == "full",
        hidden=hidden,
    )


def _default_kinds(subscription: Subscription, kinds: Mapping[str, Kind]) -> frozenset[str]:
    """A VNF instance has its workloads and pods; any other instance is its own resource."""
    if subscription.instance_kind == "vnf_instance":
        return frozenset(kinds) - {"vnf_instance"}
    return frozenset({subscription.instance_kind})


def _set(values: Sequence[str] | None) -> frozenset[str] | None:
    return frozenset(values) if values else None
