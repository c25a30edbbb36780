# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes: each cluster that a configured source follows is one scope.

A run compares the cluster with the model and writes what notifications lost::

    compare  ->  delete guard  ->  repair  ->  evaluate the VNF instances that drifted

A VNF instance drifted if its evaluation on the listing differs from what is stored. A run syncs each drifted instance
under its lease, from what the tables say then.

The delete guard counts each kind of object by itself. If it refuses deletions, the run creates no object of that kind.
If the kind is no custom one, the run syncs no VNF instance. Gone and new objects are often sides of one replacement.

If nothing differs, a run writes only the time of the full sync in the source's status.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Actor
from watcher_sync.exceptions import (
    InvalidEvent,
    OperationRunning,
    ReconcileError,
    RowRefused,
    SourceError,
    StaleToken,
    SyncHeldBack,
)
from watcher_sync.handlers.vnf import KIND, VnfHandler
from watcher_sync.model.vnf.evaluation import Observation, VnfSyncReport, unknown_in
from watcher_sync.model.vnf.kinds import VnfInstance
from watcher_sync.reconcile.base import Context, Reconciler, Report
from watcher_sync.reconcile.kubernetes.compare import ClusterComparer, Comparison, kind_of_object
from watcher_sync.reconcile.kubernetes.vnf_sync import VnfSync, reported, vnf_differences
from watcher_sync.reconcile.repair import Healer
from watcher_sync.sources.kubernetes.source import cluster_targets
from watcher_sync.sources.kubernetes.target import ClusterTarget
from watcher_sync.storage.drifts import FieldDifference, list_drifts, replace_drifts
from watcher_sync.storage.groups import source_status

LOG = logging.getLogger(__name__)

_MAX_DRIFTS: Final = 100_000
"""Stored drifts of one source that are read."""

_SYNC_TIMEOUT_SECONDS: Final = 20.0
"""Limit of a sync that a caller waits for.

It is below the 30 seconds that our client waits for an answer, so the client receives the reason."""

_UNCONFIRMED_SECONDS: Final = 10.0
"""Interval until a run has confirmed what an earlier one created."""


class KubernetesReconciler(Reconciler):
    """Compares clusters with the model, and repairs the model."""

    name: ClassVar[str] = "kubernetes"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        context: Context,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """:raises ConfigError: naming the option that is wrong, of a source or of the policy."""
        super().__init__(conf, context)
        self._now = now
        policies(conf, context.store.kinds)
        self._healer = Healer(context.writes, context.dispatcher, context.store.kinds)
        handler = VnfHandler(conf.reconcile, now=now)
        self._comparer = ClusterComparer(context, handler, wait=wait)
        self._sync = VnfSync(context.writes, context.operations, handler, notifications=context.notifications)
        self._targets = cluster_targets(conf)
        self._connections = {cluster: target.connect() for cluster, target in self._targets.items()}
        self._unconfirmed: dict[str, set[str]] = {}
        """Cluster -> kinds of objects that a run created and no later listing has confirmed."""

    def scopes(self) -> Sequence[str]:
        """Return the names of the clusters."""
        return list(self._targets)

    def interval(self, scope: str) -> float | None:
        """Return a short interval while created objects are unconfirmed; None: ``[reconcile] interval``."""
        if not self._unconfirmed.get(scope):
            return None
        return min(_UNCONFIRMED_SECONDS, float(self.conf.reconcile.interval))

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one cluster; see :class:`~watcher_sync.reconcile.base.Reconciler`.

        The next run begins soon if this one cannot confirm what it creates.
        """
        began = time.monotonic()
        target = self._targets[scope]
        base = self.context.view()
        instances = [v for v in base.by(KIND, "cluster", target.cluster) if isinstance(v, VnfInstance)]
        comparison = self._comparer.compare(target, self._connections[target.cluster], base, None, deadline)
        drifted = self._comparer.drifted_instances(
            target, [v for v in instances if target.follows(v.namespace)], comparison
        )
        policy = policies(self.conf)
        refused = {} if allow_deletes else self._refused_deletes(comparison)
        differences = [d for what, _ in comparison.found for d in what.differences(policy.get(what.kind, HEAL))]
        # What a running operation causes is no drift: the instance is evaluated when it ends.
        operated = self.context.operations.running_on([vnf.id for vnf, _ in drifted]) if drifted else {}
        for instance, observation in ((vnf, seen) for vnf, seen in drifted if vnf.id not in operated):
            differences += vnf_differences(instance, observation, policy.get(KIND, HEAL))
        written = deleted = 0
        if not dry_run:
            created = {kind_of_object(what) for what, _ in comparison.found if what.model is None}
            self._unconfirmed[scope] = self._unconfirmed.get(scope, set()) | created
            written, deleted = self._heal(target, comparison, refused, policy, deadline)
            self._notify(target, [found for found in drifted if found[0].id not in operated], policy.get(KIND, HEAL))
            written += self._sync_drifted(target, comparison, drifted, refused, policy.get(KIND, HEAL))
            self._record(target, comparison, differences)
            self._unconfirmed[scope] &= comparison.failed_kinds
        return Report(
            scope=scope,
            dry_run=dry_run,
            complete=not comparison.failures,
            differences=tuple(differences),
            written=written,
            deleted=deleted,
            refused_deletes=refused,
            sizes=comparison.sizes,
            requests=comparison.requests,
            seconds=time.monotonic() - began,
            failures=comparison.failures,
            unknown=comparison.unknown,
        )

    def sync_now(self, entity_id: str, *, dry_run: bool, actor: Actor | None = None) -> VnfSyncReport:
        """Compare one VNF instance with its cluster, and correct the model.

        :param dry_run: write nothing, and ignore the instance's lease and failed operation.
        :param actor: recorded as the writer of the changes.
        :raises KeyError: when there is no such instance.
        :raises OperationRunning: when a life-cycle operation holds it; never in a dry run.
        :raises SyncHeldBack: when a failed operation holds its sync back; never in a dry run.
        :raises SourceError: when no configured source follows its cluster, or the cluster cannot be listed.
        """
        base = self.context.view()
        instance = base.get(KIND, entity_id)
        if not isinstance(instance, VnfInstance):
            raise KeyError(entity_id)
        target = self._targets.get(instance.cluster or "")
        if target is None:
            raise SourceError(f"no source that is configured here follows the cluster {instance.cluster}")
        lease = None if dry_run else self.context.operations.running(entity_id)
        if lease is not None:
            raise OperationRunning(lease)
        if instance.failed_operation is not None:
            if not dry_run:
                raise SyncHeldBack(instance.failed_operation)
            instance = msgspec.structs.replace(instance, failed_operation=None)
        deadline = time.monotonic() + _SYNC_TIMEOUT_SECONDS
        try:
            comparison = self._comparer.compare(
                target, self._connections[target.cluster], base, instance.namespace, deadline
            )
        except ReconcileError as exc:
            raise SourceError(str(exc)) from None
        observation: Observation | None = self._comparer.evaluate(target, instance, comparison)
        if not dry_run:
            if self._refused_deletes(comparison):
                raise SourceError(
                    f"too much of the namespace {instance.namespace} is gone to believe it ([reconcile] "
                    f"max_delete_percent); watcher-sync-manage reconcile --allow-deletes {target.cluster} says that "
                    "it is so"
                )
            self._healer.heal(comparison.found, since=comparison.since, actor=actor)
            self._delete_created_but_gone(target, comparison, instance.namespace, deadline, actor)
            unknown = unknown_in(instance.namespace, comparison.unlisted, target.unfollowed)
            observation = self._sync.sync(entity_id, unknown=unknown, source=target.source, actor=actor)
        if observation is None:
            raise KeyError(entity_id)
        return reported(instance, observation)

    def _refused_deletes(self, comparison: Comparison) -> dict[str, int]:
        return comparison.refused_deletes(self.conf.reconcile.max_delete_percent)

    def _heal(
        self,
        target: ClusterTarget,
        comparison: Comparison,
        refused: Collection[str],
        policy: Mapping[str, str],
        deadline: float,
    ) -> tuple[int, int]:
        """Write the differences that policy and delete guard allow. Return how many were written, and deleted.

        :param refused: kinds of objects whose deletions are refused; their creations wait, too.
        """
        written, deleted = self._healer.heal(
            [
                (what, event)
                for what, event in comparison.found
                if policy.get(what.kind, HEAL) == HEAL
                and not (None in (what.model, what.live) and kind_of_object(what) in refused)
            ],
            since=comparison.since,
        )
        return written, deleted + self._delete_created_but_gone(target, comparison, None, deadline)

    def _delete_created_but_gone(
        self,
        target: ClusterTarget,
        comparison: Comparison,
        namespace: str | None,
        deadline: float,
        actor: Actor | None = None,
    ) -> int:
        """Delete what was created from the listing and is gone meanwhile. Return how many were deleted."""
        connection = self._connections[target.cluster]
        gone = self._comparer.created_but_gone(comparison, target, connection, namespace, deadline)
        return self._healer.heal(gone, since=comparison.since, actor=actor)[1]

    # VNF instances

    def _sync_drifted(
        self,
        target: ClusterTarget,
        comparison: Comparison,
        drifted: Sequence[tuple[VnfInstance, Observation]],
        refused: Collection[str],
        policy: str,
    ) -> int:
        """Sync the instances if the policy allows it. Return how many changed."""
        custom = {resource.title for resource in target.resources if resource.custom}
        if policy != HEAL or not custom.issuperset(refused):
            return 0
        return sum(self._sync_one(vnf, target, comparison) for vnf, _ in drifted)

    def _notify(self, target: ClusterTarget, drifted: Sequence[tuple[VnfInstance, Observation]], policy: str) -> None:
        """Send a notification for each instance that has a difference which is not stored yet."""
        if self.context.notifications is None or not drifted:
            return
        known = self._known_drifts(target)
        for instance, observation in drifted:
            found = vnf_differences(instance, observation, policy)
            if any((d.entity_id, d.field) not in known for d in found):
                self.context.notifications.drift(instance, found)

    def _known_drifts(self, target: ClusterTarget) -> set[tuple[str, str]]:
        """Return (instance, field) of the drifts that an earlier run stored."""
        drifts = list_drifts(self.context.store.database, kind=KIND, source=target.source, limit=_MAX_DRIFTS)
        return {(drift.entity_id, drift.field) for drift in drifts}

    def _sync_one(self, vnf: VnfInstance, target: ClusterTarget, comparison: Comparison) -> bool:
        unknown = unknown_in(vnf.namespace, comparison.unlisted, target.unfollowed)
        try:
            observation = self._sync.sync(vnf.id, unknown=unknown, source=target.source)
        except OperationRunning as exc:
            LOG.info("VNF instance %s is not synced (SKIPPED_LCM): %s", vnf.id, exc)
            return False
        except (InvalidEvent, RowRefused, StaleToken) as exc:
            LOG.warning("VNF instance %s cannot be synced: %s", vnf.id, exc)
            return False
        return observation is not None and observation.changed

    def _record(self, target: ClusterTarget, comparison: Comparison, differences: Iterable[FieldDifference]) -> None:
        """Store the drifts of the kinds that were compared completely, and the time of a full sync."""
        database, now = self.context.store.database, self._now()
        drifts = [d for d in differences if d.kind in comparison.complete]
        replace_drifts(database, drifts, source=target.source, kinds=comparison.complete, now=now)
        if not comparison.failures:
            source_status.record_full_sync(database, target.source, now)
