# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes clusters and of the VNF instances in them; it takes the place of Kubernetes' own.

A VNF instance drifted if its evaluation on the listing differs from what is stored. A run syncs each drifted instance
under its lease, from what the tables say then.

If the delete guard refuses deletions of a kind that is no custom one, the run syncs no VNF instance. Gone and new
objects are often sides of one replacement.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Actor
from watcher_sync.exceptions import InvalidEvent, OperationRunning, RowRefused, StaleToken, SyncHeldBack
from watcher_sync.extensions.kubernetes.reconcile.compare import Comparison
from watcher_sync.extensions.kubernetes.reconcile.reconciler import Dependents, KubernetesReconciler
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.extensions.vnf.handler import KIND, VnfHandler
from watcher_sync.extensions.vnf.instance_sync import VnfSync, reported, vnf_differences
from watcher_sync.extensions.vnf.kinds import VnfInstance
from watcher_sync.extensions.vnf.model.evaluation import Observation, Unlisted, VnfSyncReport, unknown_in
from watcher_sync.extensions.vnf.notifications import VnfNotifications
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, FieldDifference
from watcher_sync.storage.drifts import list_drifts

LOG = logging.getLogger(__name__)

_MAX_DRIFTS: Final = 100_000
"""Stored drifts of one source that are read."""

_SYNC_TIMEOUT_SECONDS: Final = 20.0
"""Limit of a sync that a caller waits for.

It is below the 30 seconds that our client waits for an answer, so the client receives the reason."""


class VnfClusterReconciler(KubernetesReconciler):
    """Compares clusters and their VNF instances with the model, and repairs the model."""

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        context: Context,
        *,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        """:raises ConfigError: naming the option that is wrong, of a source or of the policy."""
        super().__init__(conf, context, now=now, wait=wait)
        self._handler = VnfHandler(conf.reconcile, now=now)
        self.notifications = VnfNotifications(context.notifications)
        self._sync = VnfSync(context.writes, context.operations, self._handler, notifications=self.notifications)

    def dependents(self, target: ClusterTarget, base: View) -> Dependents:
        """Return the VNF instances of a cluster."""
        return _ClusterInstances(self, target, base)

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
        target = self.target_of(instance.cluster)
        lease = None if dry_run else self.context.operations.running(entity_id)
        if lease is not None:
            raise OperationRunning(lease)
        if instance.failed_operation is not None:
            if not dry_run:
                raise SyncHeldBack(instance.failed_operation)
            instance = msgspec.structs.replace(instance, failed_operation=None)
        deadline = time.monotonic() + _SYNC_TIMEOUT_SECONDS
        comparison = self.compare_namespace(target, base, instance.namespace, deadline)
        observation: Observation | None = self.evaluate(target, instance, comparison)
        if not dry_run:
            self.repair_namespace(target, comparison, instance.namespace, deadline, actor)
            observation = self.sync(target, instance, comparison, actor)
        if observation is None:
            raise KeyError(entity_id)
        return reported(instance, observation)

    def evaluate(self, target: ClusterTarget, vnf: VnfInstance, comparison: Comparison) -> Observation:
        """Compare an instance with the listing."""
        return self._handler.evaluate(comparison.live, vnf, _unknown(target, vnf, comparison))

    def sync(
        self, target: ClusterTarget, vnf: VnfInstance, comparison: Comparison, actor: Actor | None = None
    ) -> Observation | None:
        """Write what the tables say of an instance; see
        :meth:`~watcher_sync.extensions.vnf.instance_sync.VnfSync.sync`."""
        unknown = _unknown(target, vnf, comparison)
        return self._sync.sync(vnf.id, unknown=unknown, source=target.source, actor=actor)


class _ClusterInstances(Dependents):
    """The VNF instances of one cluster in one run."""

    kinds: ClassVar[Collection[str]] = (KIND,)

    def __init__(self, reconciler: VnfClusterReconciler, target: ClusterTarget, base: View) -> None:
        self._reconciler = reconciler
        self._context = reconciler.context
        self._target = target
        self._instances = [v for v in base.by(KIND, "cluster", target.cluster) if isinstance(v, VnfInstance)]
        self._policy = policies(reconciler.conf).get(KIND, HEAL)
        self._drifted: list[VnfInstance] = []
        self._differences: list[tuple[VnfInstance, list[FieldDifference]]] = []
        """Of those that no operation holds. What a running operation causes is no drift: the instance is evaluated
        when it ends."""

    def compare(self, comparison: Comparison) -> list[FieldDifference]:
        """Return the differences of the instances that were not written since the listing."""
        target = self._target
        followed = [vnf for vnf in self._instances if target.follows(vnf.namespace)]
        evaluated = [(vnf, self._reconciler.evaluate(target, vnf, comparison)) for vnf in followed]
        drifted = [(vnf, observation) for vnf, observation in evaluated if observation.changed]
        if drifted:
            if not comparison.found:
                self._reconciler.wait_for_events()
            now = self._context.view()
            drifted = [(vnf, observation) for vnf, observation in drifted if _is_unwritten(vnf, now)]
        operated = self._context.operations.running_on([vnf.id for vnf, _ in drifted]) if drifted else {}
        self._drifted = [vnf for vnf, _ in drifted]
        self._differences = [
            (vnf, vnf_differences(vnf, seen, self._policy)) for vnf, seen in drifted if vnf.id not in operated
        ]
        return [difference for _, found in self._differences for difference in found]

    def write(self, comparison: Comparison, refused: Collection[str]) -> int:
        """Notify of the drifts, and sync the instances if the policy allows it."""
        self._notify()
        custom = {resource.title for resource in self._target.resources if resource.custom}
        if self._policy != HEAL or not custom.issuperset(refused):
            return 0
        return sum(self._sync(vnf, comparison) for vnf in self._drifted)

    def _notify(self) -> None:
        """Send a notification for each instance that has a difference which is not stored yet."""
        if not self._differences:
            return
        drifts = list_drifts(self._context.store.database, kind=KIND, source=self._target.source, limit=_MAX_DRIFTS)
        known = {(drift.entity_id, drift.field) for drift in drifts}
        for vnf, found in self._differences:
            if any((each.entity_id, each.field) not in known for each in found):
                self._reconciler.notifications.drift(vnf, found)

    def _sync(self, vnf: VnfInstance, comparison: Comparison) -> bool:
        try:
            observation = self._reconciler.sync(self._target, vnf, comparison)
        except OperationRunning as exc:
            LOG.info("VNF instance %s is not synced (SKIPPED_LCM): %s", vnf.id, exc)
            return False
        except (InvalidEvent, RowRefused, StaleToken) as exc:
            LOG.warning("VNF instance %s cannot be synced: %s", vnf.id, exc)
            return False
        return observation is not None and observation.changed


def _unknown(target: ClusterTarget, vnf: VnfInstance, comparison: Comparison) -> dict[str, Unlisted]:
    """Return kind of objects -> why it is not known which ones exist in the instance's namespace."""
    unlisted = {key: Unlisted(why) for key, why in comparison.unlisted.items()}
    return unknown_in(vnf.namespace, unlisted, target.unfollowed)


def _is_unwritten(vnf: VnfInstance, now: View) -> bool:
    known = now.get(KIND, vnf.id)
    return known is not None and known.versions == vnf.versions
