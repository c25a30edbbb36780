# SPDX-License-Identifier: Apache-2.0
"""Drives a planner: a journal, a clock, a database that a restart survives, and a receiver."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from tests.simulated import NOON
from watcher_sync.extensions.kubernetes.kinds import full_name
from watcher_sync.extensions.webhooks.contents import make_filter
from watcher_sync.extensions.webhooks.deliveries import Attempt, Clock, DeliverySettings, Outgoing
from watcher_sync.extensions.webhooks.onap.documents import resource_document, resources_of
from watcher_sync.extensions.webhooks.planner import Planner
from watcher_sync.extensions.webhooks.rows import (
    ACTIVE,
    PENDING,
    NewDelivery,
    Progress,
    Row,
    SubscriptionRow,
    WorkerWrites,
)
from watcher_sync.extensions.webhooks.secrets import ActiveSecret, SecretBox, new_key
from watcher_sync.extensions.webhooks.subscription import reached_by
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Key, Model
from watcher_sync.storage.writing.journal import JournalRow, follow
from watcher_sync.testing.kinds import builtin_kinds

KINDS = builtin_kinds()
OK = Attempt(200, "HTTP 200 OK", 0.1)
FAILED = Attempt(500, "HTTP 500 Internal Server Error", 0.1)
GONE_FOREVER = Attempt(410, "HTTP 410 Gone", 0.1)
HOUR = 3600.0
DAY = 24 * HOUR

BOX = SecretBox([new_key()])
SECRET = ActiveSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")


class Time:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.monotonic = 1000.0
        self.ahead = 0.0
        """Seconds that the time of day is wrong by."""

    def now(self) -> datetime.datetime:
        """The time of day, which moves with the monotonic clock."""
        return NOON + datetime.timedelta(seconds=self.monotonic + self.ahead)


class JournalLog:
    """Journal rows as the database gives them, and the model at its head."""

    def __init__(self, time: Time) -> None:
        self.time = time
        self.model = Model(KINDS)
        self.rows: list[JournalRow] = []
        self.purged_upto = 0

    def write(self, kind: str, entity_id: str, /, **values: Any) -> None:
        """Create or change an entity."""
        old = self.model.get(kind, entity_id)
        if kind in ("pod", "workload"):
            values |= _place(kind, old, {"name": entity_id, "namespace": "n", "cluster": "c", **values})
        if old is None:
            new = KINDS[kind].cls(id=entity_id, **values)
            delta = {n: (None, v) for n in KINDS[kind].fields if (v := getattr(new, n)) is not None}
            self._append(kind, entity_id, "created", delta)
            return
        delta = {n: (getattr(old, n), v) for n, v in values.items() if getattr(old, n) != v}
        if delta:
            self._append(kind, entity_id, "updated", delta)

    def delete(self, kind: str, entity_id: str) -> None:
        """Delete an entity that exists."""
        old = self.model.get(kind, entity_id)
        assert old is not None
        delta = {n: (v, None) for n in KINDS[kind].fields if (v := getattr(old, n)) is not None}
        self._append(kind, entity_id, "deleted", delta)

    def _append(self, kind: str, entity_id: str, change: str, delta: dict[str, Any]) -> None:
        delta = msgspec.json.decode(msgspec.json.encode(delta))
        row = JournalRow(len(self.rows) + 1, self.time.now(), kind, entity_id, change, delta, {}, "e", "t", "s", 1)
        self.rows.append(row)
        follow(self.model, [row])

    @property
    def head(self) -> int:
        """The seq of the last row."""
        return len(self.rows)


def _place(kind: str, old: Entity | None, values: dict[str, Any]) -> dict[str, Any]:
    if old is not None:
        return {}
    kind_name = "Pod" if kind == "pod" else values.get("kind")
    return {
        "name": values["name"],
        "namespace": values["namespace"],
        "cluster": values["cluster"],
        "full_name": full_name(values["cluster"], values["namespace"], kind_name, values["name"]),
    }


class Tables:
    """The rows that a worker writes and the API writes, without SQL."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.deliveries: dict[str, tuple[NewDelivery, str]] = {}
        """webhook-id -> (delivery, state)."""
        self.sequence = 0
        self.revision = 0

    def write(self, writes: WorkerWrites) -> None:
        """What a transaction of a worker does."""
        for each in writes.planned:
            assert each.webhook_id not in self.deliveries
            self.deliveries[each.webhook_id] = (each, PENDING)
        for result in writes.results:
            delivery, _ = self.deliveries[result.webhook_id]
            delivery = msgspec.structs.replace(
                delivery, attempts=result.attempts, next_attempt_at=result.next_attempt_at
            )
            self.deliveries[result.webhook_id] = (delivery, result.state)
        for subscription_id, progress in writes.progress.items():
            self.rows[subscription_id] = (self.rows[subscription_id][0], progress)
        for change in writes.states:
            subscription, progress = self.rows[change.subscription_id]
            if subscription.revision == change.revision and subscription.state == ACTIVE:
                self.set(change.subscription_id, state=change.state, reason=change.reason)
        for subscription_id, since in writes.replayed:
            subscription, progress = self.rows[subscription_id]
            if subscription.replay_since == since:
                changed = msgspec.structs.replace(subscription, replay_since=None)
                self.rows[subscription_id] = (changed, progress)
        self.sequence = max(self.sequence, writes.sequence or 0)

    def set(self, subscription_id: str, **values: Any) -> None:
        """Change a subscription as the API does."""
        self.revision += 1
        subscription, progress = self.rows[subscription_id]
        subscription = msgspec.structs.replace(subscription, revision=self.revision, **values)
        self.rows[subscription_id] = (subscription, progress)

    def pending(self, subscription_id: str) -> list[NewDelivery]:
        """The stored deliveries of a subscription that have not ended."""
        found = [each for each, state in self.deliveries.values() if state == PENDING]
        return [each for each in found if each.subscription_id == subscription_id]


class Receiver:
    """What one callback has after it applied the deliveries in order of arrival."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        """Each delivery once."""
        self.ids: list[str] = []
        """The id of each attempt."""
        self.documents: dict[tuple[str, str], dict[str, Any]] = {}
        self.may_miss = False
        """Whether a delivery may have ended that it did not accept."""
        self._known: dict[str, bytes] = {}

    def receive(self, delivery: NewDelivery) -> None:
        """Apply a delivery; a repeated one is compared and ignored."""
        self.ids.append(delivery.webhook_id)
        known = self._known.setdefault(delivery.webhook_id, delivery.body)
        assert known == delivery.body
        if self.ids.count(delivery.webhook_id) > 1:
            assert self.ids[-2] == delivery.webhook_id, "an older delivery came again after a newer one"
            return
        if delivery.purpose == "test":
            return
        body = msgspec.json.decode(delivery.body)
        if self.bodies:
            last = self.bodies[-1]["sequence"]
            assert body["previous-sequence"] == last or (self.may_miss and body["previous-sequence"] > last)
            assert body["sequence"] >= self.bodies[-1]["sequence"]
        self.bodies.append(body)
        changes = body["resource-changes"]
        if "resync" in body:
            self.documents = {}
        for each in changes["deleted"]:
            self.documents.pop((each["kind"], each["id"]), None)
        for each in (*changes["created"], *changes["modified"]):
            self.documents[each["kind"], each["id"]] = each

    def ids_by_change(self) -> list[tuple[list[str], list[str], list[str]]]:
        """(created, deleted, modified) ids of each delivery."""
        found = []
        for body in self.bodies:
            changes = body["resource-changes"]
            created, deleted, modified = ([d["id"] for d in changes[n]] for n in ("created", "deleted", "modified"))
            found.append((created, deleted, modified))
        return found


Answer = Callable[[NewDelivery], Attempt]


class Driver:
    """One worker after another on one journal."""

    def __init__(self, settings: DeliverySettings | None = None, box: SecretBox = BOX) -> None:
        self.time = Time()
        self.log = JournalLog(self.time)
        self.tables = Tables()
        self.receivers: dict[str, Receiver] = {}
        self.answers: dict[str, Answer] = {}
        self.settings = settings or DeliverySettings()
        self.box = box
        self.chance = 0.5
        self.kinds = KINDS
        """Of the next worker."""
        self._ids = itertools.count(1)
        self._known_revision = 0
        self.under_way: list[Outgoing] = []
        """Attempts that have not begun."""
        self.restart()

    def restart(self, *, upto: int | None = None) -> None:
        """A new worker, which knows what the tables have.

        :param upto: the seq of its replica; the others follow.
        """
        self.model = Model(self.kinds)
        follow(self.model, self.log.rows[: self.log.head if upto is None else upto])
        clock = Clock(
            now=self.time.now,
            monotonic=lambda: self.time.monotonic,
            random=lambda: self.chance,
            new_id=lambda: f"msg_{next(self._ids)}",
        )
        self.planner = Planner(self.model, self.box, self.settings, clock, self.settings.max_body_bytes)
        self.planner.remember_deleted(self.log_of_deleted())
        self.under_way = []
        self._known_revision = self.tables.revision
        self._put(list(self.tables.rows.values()))

    def log_of_deleted(self) -> list[JournalRow]:
        """The deletions of workloads."""
        rows = self.log.rows[: self.model.generation]
        return [row for row in rows if row.kind == "workload" and row.change == "deleted"]

    def subscribe(self, kind: str = "instance", instance_id: str = "i", name: str = "s", **values: Any) -> Receiver:
        """Create a subscription; its id is its name. The receiver begins with what GET answers."""
        subscription = SubscriptionRow(
            **{
                "id": name,
                "instance_kind": kind,
                "instance_id": instance_id,
                "name": name,
                "project_id": None,
                "user_id": None,
                "sees_admin_only": True,
                "callback_url": f"https://{name}.example/hook",
                "min_notify_interval": 0.0,
                "secrets": BOX.seal([SECRET]),
                "start_after": self.log.head,
                "created_at": self.time.now(),
                "updated_at": self.time.now(),
                **values,
            }
        )
        progress = Progress(subscription_id=name, sequence=self.log.head)
        self.tables.rows[name] = (subscription, progress)
        self.tables.set(name)
        self.receivers[name] = receiver = Receiver()
        receiver.documents = self.existing(subscription)
        return receiver

    def existing(self, subscription: SubscriptionRow) -> dict[tuple[str, str], dict[str, Any]]:
        """The documents of the resources that exist, as a receiver has them."""
        view, wanted = self.log.model.snapshot(), make_filter(subscription, KINDS)
        instance = view.get(subscription.instance_kind, subscription.instance_id)
        if instance is None:
            return {}
        found = {
            (kind, entity.id): resource_document(
                KINDS[kind], entity, full=wanted.full, hidden=wanted.hidden_of(kind, entity)
            )
            for kind, entity in resources_of(view, subscription.instance_kind, instance, wanted.kinds)
            if wanted.selects(kind, entity.id) and wanted.admits(kind, entity)
        }
        decoded = msgspec.json.decode(msgspec.json.encode(list(found.values())))
        return dict(zip(found, decoded, strict=True))

    def put(self, name: str = "s", **values: Any) -> None:
        """The subscriber's PUT."""
        self.tables.set(name, state=ACTIVE, reason="", **values)
        subscription, progress = self.tables.rows[name]
        reset = msgspec.structs.replace(progress, failures=0, failing_since=None)
        self.tables.rows[name] = (subscription, reset)

    def add_test(self, name: str = "s") -> None:
        """The subscriber asks for a test message."""
        self.tables.set(name)
        webhook_id = f"test_{next(self._ids)}"
        delivery = NewDelivery(
            webhook_id=webhook_id,
            subscription_id=name,
            purpose="test",
            previous_sequence=0,
            sequence=0,
            content_type="application/json",
            body=b"{}",
            created_at=self.time.now(),
            next_attempt_at=self.time.now(),
        )
        self.tables.deliveries[webhook_id] = (delivery, PENDING)

    # The steps of a session

    def read_registry(self) -> None:
        """Take what was written to subscriptions."""
        rows = [row for row in self.tables.rows.values() if row[0].revision > self._known_revision]
        self._known_revision = self.tables.revision
        self._put(rows)

    def _put(self, rows: Sequence[Row]) -> None:
        reached = max((reached_by(row, self.tables.sequence) for row in rows), default=0)
        self._follow_to(min(reached, self.log.head))
        put, sequence, pending = self.planner.put, self.tables.sequence, self.tables.pending
        waiting = [older for row in rows if (older := put(row, sequence, pending(row[0].id))) is not None]
        if not waiting:
            return
        upto = self.model.generation
        self.before_reading()
        position = min(each.after for each in waiting)
        if position < self.log.purged_upto:
            self.planner.end_older(waiting, purged=True)
            return
        for start in range(position, upto, 2):
            self.planner.add_older_rows(self.log.rows[start : min(start + 2, upto)], waiting)
            self.while_reading()
        self.planner.end_older(waiting)

    def before_reading(self) -> None:
        """What happens between a put and the begin of its pass; tests replace it."""

    def while_reading(self) -> None:
        """What happens within a pass; tests replace it."""

    def follow(self, chunk: int = 1000) -> None:
        """Read what is new in the journal."""
        self._follow_to(self.log.head, chunk)

    def _follow_to(self, seq: int, chunk: int = 1000) -> None:
        while self.model.generation < seq:
            rows = self.log.rows[self.model.generation : min(self.model.generation + chunk, seq)]
            before: dict[Key, Entity | None] = {}
            follow(self.model, rows, before)
            self.planner.add_rows(rows, before)

    def write(self, *, checkpoint: bool = True) -> None:
        """Plan, and write; what was planned is under way once it is written."""
        self.planner.plan()
        writes, planned = self.planner.take_writes(checkpoint=checkpoint)
        self.tables.write(writes)
        self.under_way += planned
        self.under_way += self.planner.take_due()

    def send(self) -> None:
        """Make the attempts that are under way, and record their results."""
        under_way, self.under_way = self.under_way, []
        for outgoing in under_way:
            self.planner.attempted(outgoing, self.attempt(outgoing))

    def attempt(self, outgoing: Outgoing) -> Attempt:
        """One request. A receiver has what it accepts."""
        name = outgoing.delivery.subscription_id
        attempt = self.answers.get(name, lambda _: OK)(outgoing.delivery)
        if attempt.ok:
            self.receivers[name].receive(outgoing.delivery)
        return attempt

    def step(self) -> None:
        """Everything that is to be done now."""
        self.read_registry()
        self.follow()
        self.write()
        self.send()
        self.write()
        while self.under_way:
            self.send()
            self.write()

    def run(self, seconds: float) -> None:
        """Let time pass, with all that is due in it."""
        end = self.time.monotonic + seconds
        while True:
            self.step()
            due = self.planner.next_due()
            if due is None or due > end:
                self.time.monotonic = end
                self.step()
                return
            self.time.monotonic = max(due, self.time.monotonic)

    def subscription(self, name: str = "s") -> SubscriptionRow:
        """As the API shows it."""
        return self.tables.rows[name][0]

    def progress(self, name: str = "s") -> Progress:
        """As the API shows it."""
        return self.tables.rows[name][1]

    def states(self) -> list[str]:
        """The states of all deliveries, in the order of their making."""
        return [state for _, state in self.tables.deliveries.values()]


def vnf(**values: Any) -> Driver:
    """A VNF instance with one deployment and an interval of 60 s."""
    driver = Driver()
    driver.log.write("workload", "d", kind="Deployment", replicas=1)
    vdus = {"v": {"workload": {"kind": "Deployment", "name": "d"}}}
    driver.log.write("vnf_instance", "v", cluster="c", namespace="n", vdus=vdus)
    driver.subscribe("vnf_instance", "v", **{"min_notify_interval": 60.0, **values})
    driver.step()
    return driver
