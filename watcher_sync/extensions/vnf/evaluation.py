# SPDX-License-Identifier: Apache-2.0
"""Evaluates VNF instances inside the commit cycle of an engine that leads.

A pod or workload that a commit touches marks the instances that name a workload above it, before or after the change.
So do a registration, a complete listing, and rows of other writers. A new leader marks all instances.

Guaranteed:

* After the last change of its pods an instance is evaluated once more, by this engine or the next leader.
* Pod and instance are written in one transaction, if the instance may be evaluated then.
* An instance whose lease an operation holds is not written, and retried every second.
* An instance that fails costs the others nothing.

Threads: the cycle's; :meth:`collect` and :meth:`report` for any.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Protocol

from oslo_log import log as logging
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from watcher_sync.commit.evaluation import Evaluated, Retries
from watcher_sync.exceptions import OperationRunning, RowRefused
from watcher_sync.extensions.kubernetes.kinds import Cluster
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.extensions.vnf.handler import KIND, VnfHandler
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.evaluation import Observation, Unlisted, unknown_in
from watcher_sync.extensions.vnf.model.workloads import WorkloadIndex, add_names_above
from watcher_sync.model.changes import WRITTEN_HERE, Version
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.model import Key, Model, Snapshot, Staged
from watcher_sync.model.transaction import Transaction
from watcher_sync.model.view import View

LOG = logging.getLogger(__name__)

COALESCE_SECONDS: Final = 0.2
"""Between two evaluations of one instance: a storm of pod events costs at most five a second."""
MAX_EVALUATIONS: Final = 100
"""Instances that are evaluated in one commit."""
_RETRY_SECONDS: Final = 1.0
"""After which an instance is retried that an operation holds."""
_MAX_RETRY_SECONDS: Final = 60.0
"""After which an instance is retried that fails again and again."""
_MAX_REPORTED: Final = 50
"""Instances that a report names."""

_REGISTRATION: Final = kind_of(VnfInstance).facet_position["registration"]
_SYNC: Final = kind_of(Cluster).facet_position["sync"]


class SyncListener(Protocol):
    """Where notifications about syncs go; see :class:`watcher_sync.extensions.vnf.notifications.VnfNotifications`."""

    def sync_start(self, vnf: VnfInstance) -> None:
        """A sync begins to write."""

    def sync_end(self, vnf: VnfInstance, results: Mapping[str, str], pods: Mapping[str, int]) -> None:
        """It is committed."""

    def sync_error(self, vnf: VnfInstance, why: str) -> None:
        """It failed."""


class VnfEvaluation:
    """See the module. It is an evaluator of the cycle and a background service of the engine.

    :param targets: cluster -> its target; instances of other clusters are never evaluated.
    """

    kind = KIND
    title = "VNF instances"

    def __init__(
        self,
        targets: Mapping[str, ClusterTarget],
        *,
        handler: VnfHandler,
        notifications: SyncListener | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._targets = dict(targets)
        self._handler = handler
        self._notifications = notifications
        self._clock = clock
        self._leads = False
        self._drains = False
        self._index: WorkloadIndex | None = None
        """None: to be built from the model, and all instances are to be marked."""
        self._waiting: dict[str, None] = {}
        """Marked instances, in the order of their marks. What may not be evaluated at all does not wait."""
        self._retries = Retries(_RETRY_SECONDS, _MAX_RETRY_SECONDS)
        self._due: dict[str, float] = {}
        """Instance -> when time alone may change its state, by the clock."""
        self._held: dict[str, str] = {}
        """Instance -> the lease that keeps it out, as the log has it."""
        self._isolated: set[str] = set()
        """Instances of a commit that the database refused. Each is evaluated in a commit of its own."""

    # A background service of the engine

    def start(self) -> None:
        """Begin with all instances."""
        self._waiting.clear()
        self._due.clear()
        self._held.clear()
        self._isolated.clear()
        self._retries.clear()
        self._index = None
        self._drains = False
        self._leads = bool(self._targets)

    def begin_stop(self) -> None:
        """Evaluate only what the batches still touch. The next leader begins with all instances."""
        self._drains = True

    def join(self, timeout: float) -> None:
        """End."""
        self._leads = False

    def collect(self) -> Iterable[Metric]:
        """The metrics of this moment."""
        waiting = GaugeMetricFamily(
            "watcher_sync_vnf_instances_waiting", "VNF instances that changed and are not synced yet."
        )
        waiting.add_metric([], len(self._waiting))
        yield waiting

    def report(self) -> Mapping[str, Any]:
        """The clusters, and which instances wait."""
        return {
            "clusters": ", ".join(sorted(self._targets)) or "none",
            "waiting": ", ".join(sorted(list(self._waiting)[:_MAX_REPORTED])) or "none",
            "held by operations": ", ".join(sorted(list(self._held)[:_MAX_REPORTED])) or "none",
        }

    # An evaluator of the cycle

    def evaluate_into(self, transaction: Transaction, below: Evaluated | None = None) -> Evaluated:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        evaluated = Evaluated(self._clock())
        if not self._leads:
            return evaluated
        index = self._index
        if index is None:
            model = transaction.model
            assert isinstance(model, Model)  # only an engine evaluates, over its replica
            index = self._build(model.snapshot())
        for vnf_id, at in self._due.items():
            if at <= evaluated.at:
                self._waiting[vnf_id] = None
        for staged in transaction.staged():
            self._mark_staged(staged, transaction, evaluated)
        evaluated.marked |= index.concerned(evaluated.names)
        if evaluated.marked or self._waiting:
            for vnf_id in self._candidates(transaction, evaluated, below):
                self._evaluate(vnf_id, transaction, evaluated)
        return evaluated

    def published(self, evaluated: Evaluated) -> None:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        if self._index is None:
            return
        for vnf_id, vnf in evaluated.registered.items():
            self._register(vnf_id, vnf)
        # By name again: a registration may have come between the dispatch and this.
        for vnf_id in evaluated.marked | self._index.concerned(evaluated.names):
            if evaluated.registered.get(vnf_id, ...) is not None:
                self._waiting[vnf_id] = None
        for vnf_id in evaluated.skipped:
            self._waiting.pop(vnf_id, None)
            self._held.pop(vnf_id, None)
        for vnf_id, staged in evaluated.done.items():
            self._waiting.pop(vnf_id, None)
            self._due.pop(vnf_id, None)
            self._held.pop(vnf_id, None)
            self._isolated.discard(vnf_id)
            self._retries.succeed(vnf_id)
            self._retries.delay(vnf_id, evaluated.at + COALESCE_SECONDS)
            if staged is not None:
                vnf, observation = staged
                report_sync(vnf, observation, self._notifications)
        self._due.update(evaluated.due)
        for vnf, error in evaluated.failed.values():
            self._fail(vnf, error)

    def held(self, leases: Mapping[str, Any]) -> None:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        later = self._clock() + _RETRY_SECONDS
        for vnf_id, lease in leases.items():
            if self._held.get(vnf_id) != lease.id:
                LOG.info("VNF instance %s is not synced (SKIPPED_LCM) for now: %s", vnf_id, OperationRunning(lease))
            self._held[vnf_id] = lease.id
            self._waiting[vnf_id] = None
            self._retries.delay(vnf_id, later)

    def refused(self, evaluated: Evaluated, error: RowRefused) -> bool:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        written = evaluated.written()
        if len(written) == 1 and self._isolated.issuperset(written):
            self._fail(evaluated.done[written[0]][0], error)
        else:
            self._isolated.update(written)
            self._waiting.update(dict.fromkeys(written))
        return bool(written)

    def wants_own_commit(self) -> bool:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        if not self._isolated or not self._leads or self._drains:
            return False
        now = self._clock()
        return any(i in self._waiting and self._retries.not_before(i) <= now for i in self._isolated)

    def followed(self, before: Mapping[Key, Entity | None], model: Model) -> None:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        if self._index is None or not self._leads:
            return
        names: set[str] = set()
        earlier = _Earlier(before, model)
        for (kind, entity_id), old in before.items():
            new = model.get(kind, entity_id)
            if kind in ("pod", "workload"):
                add_names_above(names, old, earlier)
                add_names_above(names, new, model)
            elif kind == KIND and _is_written(old, new, _REGISTRATION):
                self._register(entity_id, new)
                if new is not None:
                    self._waiting[entity_id] = None
            elif kind == "cluster" and new is not None and _is_written(old, new, _SYNC):
                self._waiting.update(dict.fromkeys(model.indexed_ids(KIND, "cluster", entity_id)))
        self._waiting.update(dict.fromkeys(self._index.concerned(names)))

    def reset(self) -> None:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        self._index = None

    def seconds_until_due(self) -> float:
        """See :class:`~watcher_sync.commit.evaluation.Evaluator`."""
        if not self._leads or self._drains:
            return math.inf
        if self._index is None:
            return 0.0
        due = min((self._retries.not_before(vnf_id) for vnf_id in self._waiting), default=math.inf)
        for vnf_id, at in self._due.items():
            if at < due and vnf_id not in self._waiting:
                due = at
        return max(due - self._clock(), 0.0)

    # Its own

    def _build(self, snapshot: Snapshot) -> WorkloadIndex:
        """Index and mark all instances of the model."""
        index = self._index = WorkloadIndex()
        self._waiting.clear()
        self._due.clear()
        for vnf in snapshot.all(KIND):
            assert isinstance(vnf, VnfInstance)
            index.put(vnf.id, vnf)
            self._waiting[vnf.id] = None
        return index

    def _mark_staged(self, staged: Staged, transaction: Transaction, evaluated: Evaluated) -> None:
        """Mark what one staged entity concerns, before and after the batch."""
        kind, old, new = staged.kind.name, staged.base, staged.entity
        if kind in ("pod", "workload"):
            if old is not None:
                add_names_above(evaluated.names, old, transaction.below)
            if new is not None:
                add_names_above(evaluated.names, new, transaction)
        elif kind == KIND and _is_written(old, new, _REGISTRATION):
            evaluated.registered[staged.id] = new
            if new is not None:
                evaluated.marked.add(staged.id)
        elif kind == "cluster" and new is not None and _is_written(old, new, _SYNC):
            evaluated.marked |= transaction.indexed_ids(KIND, "cluster", staged.id)

    def _candidates(self, transaction: Transaction, evaluated: Evaluated, below: Evaluated | None) -> list[str]:
        """The instances that may be evaluated now, those of the batch first."""
        now = evaluated.at
        recent = below.done if below is not None and now < below.at + COALESCE_SECONDS else {}
        found: dict[str, None] = {}
        alone: list[str] = []
        for vnf_id in (*evaluated.marked, *(() if self._drains else self._waiting)):
            if vnf_id in recent or self._retries.not_before(vnf_id) > now:
                continue
            if vnf_id in self._isolated:
                alone.append(vnf_id)
            else:
                found[vnf_id] = None
                if len(found) == MAX_EVALUATIONS:
                    break
        if not found and below is None and not transaction.staged():
            return alone[:1]
        return list(found)

    def _evaluate(self, vnf_id: str, transaction: Transaction, evaluated: Evaluated) -> None:
        vnf = transaction.get(KIND, vnf_id)
        target = self._target(vnf, transaction)
        if not isinstance(vnf, VnfInstance) or target is None:
            evaluated.skipped.add(vnf_id)
            return
        try:
            observation = self._handler.evaluate(transaction, vnf, self._unknown(vnf, target, transaction))
            if observation.changed:
                version = Version(f"{WRITTEN_HERE}{transaction.head + 1:020d}")
                cause, change = self._handler.change(vnf, observation, version, source=target.source)
                transaction.apply(cause, (change,))
            evaluated.done[vnf_id] = (vnf, observation) if observation.changed else None
            if observation.due_in is not None:
                evaluated.due[vnf_id] = evaluated.at + observation.due_in
        except Exception as exc:  # noqa: BLE001 - the supervised edge of one instance
            evaluated.failed[vnf_id] = vnf, exc

    def _target(self, vnf: Entity | None, view: View) -> ClusterTarget | None:
        """The target of an instance's cluster; None unless the model knows all that there is for the instance."""
        if not isinstance(vnf, VnfInstance):
            return None
        target = self._targets.get(vnf.cluster or "")
        if target is None or not target.follows(vnf.namespace):
            return None
        cluster = view.get("cluster", target.cluster)
        return target if isinstance(cluster, Cluster) and cluster.has_synced else None

    @staticmethod
    def _unknown(vnf: VnfInstance, target: ClusterTarget, view: View) -> dict[str, Unlisted]:
        """Kind of objects -> why the model does not know which ones exist in the instance's namespace."""
        cluster = view.get("cluster", target.cluster)
        assert isinstance(cluster, Cluster)
        unlisted = {key: Unlisted(**why) for key, why in (cluster.unlisted or {}).items()}
        return unknown_in(vnf.namespace, unlisted, target.unfollowed)

    def _register(self, vnf_id: str, vnf: Entity | None) -> None:
        """Index an instance after its registration was written; None: it was deleted."""
        assert self._index is not None
        self._index.put(vnf_id, vnf if isinstance(vnf, VnfInstance) else None)
        if vnf is None:
            self._waiting.pop(vnf_id, None)
            self._due.pop(vnf_id, None)
            self._held.pop(vnf_id, None)
            self._isolated.discard(vnf_id)
            self._retries.forget((vnf_id,))

    def _fail(self, vnf: VnfInstance, error: Exception) -> None:
        """Report the first failure in a row, and retry later."""
        self._waiting[vnf.id] = None
        if self._retries.fail(vnf.id, self._clock()) > 1:
            return
        LOG.error("VNF instance %s cannot be synced; retrying: %s", vnf.id, error, exc_info=error)
        if self._notifications is not None:
            self._notifications.sync_start(vnf)
            self._notifications.sync_error(vnf, str(error))


class _Earlier:
    """The model before it followed the journal, as far as owner chains need it."""

    def __init__(self, before: Mapping[Key, Entity | None], model: Model) -> None:
        self._before = before
        self._model = model

    def get(self, kind: str, entity_id: str) -> Entity | None:
        """Return the entity as it was, or None."""
        key = (kind, entity_id)
        return self._before[key] if key in self._before else self._model.get(kind, entity_id)


def report_sync(vnf: VnfInstance, observation: Observation, notifications: SyncListener | None) -> None:
    """Log what a committed sync wrote, and notify of its start and end.

    :param vnf: the instance before.
    """
    for change in observation.pods:
        LOG.info("VNF instance %s, %s: vnfc %s: pod %s -> %s", vnf.id, change.vdu, change.vnfc, change.old, change.new)
    before, levels = vnf.scale_level or {}, observation.values["scale_level"]
    for aspect, level in levels.items():
        if before.get(aspect) != level:
            LOG.info("VNF instance %s: %s: level %s -> %s", vnf.id, aspect, before.get(aspect), level)
    if vnf.state != observation.values["state"]:
        LOG.info("VNF instance %s: %s -> %s", vnf.id, vnf.state, observation.values["state"])
    if notifications is not None:
        results = {vdu: result.value for vdu, result in observation.results.items()}
        notifications.sync_start(vnf)
        notifications.sync_end(vnf, results, observation.values["observed"])


def _is_written(old: Entity | None, new: Entity | None, facet: int) -> bool:
    """Whether a facet was written, or its entity created or deleted, between two states."""
    return old is None or new is None or old.versions[facet] != new.versions[facet]
