# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes: each cluster that a configured source follows is one scope.

A run compares the cluster with the model and writes what notifications lost::

    compare  ->  delete guard  ->  repair  ->  write what follows from the objects

The delete guard counts each kind of object by itself. If it refuses deletions, the run creates no object of that kind.

If nothing differs, a run writes only the time of the full sync in the source's status. The entry point ``kubernetes``
is the subclass in :mod:`watcher_sync.extensions.vnf.reconcile`, which syncs the VNF instances of the cluster, too.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, Final

from oslo_config import cfg

from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Actor
from watcher_sync.exceptions import ReconcileError, SourceError
from watcher_sync.extensions.kubernetes.reconcile.compare import ClusterComparer, Comparison, kind_of_object
from watcher_sync.extensions.kubernetes.source.source import cluster_targets
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget
from watcher_sync.model.view import View
from watcher_sync.reconcile.base import Context, FieldDifference, Reconciler, Report
from watcher_sync.reconcile.repair import Healer
from watcher_sync.storage.drifts import replace_drifts
from watcher_sync.storage.groups import source_status

_UNCONFIRMED_SECONDS: Final = 10.0
"""Interval until a run has confirmed what an earlier one created."""


class Dependents:
    """Entities that follow from the objects of one cluster, in one run. Here there are none."""

    kinds: ClassVar[Collection[str]] = ()
    """Their kinds, whose drifts the run records."""

    def compare(self, comparison: Comparison) -> list[FieldDifference]:
        """Return where they differ from the listing."""
        return []

    def write(self, comparison: Comparison, refused: Collection[str]) -> int:
        """Write them after the repair of the objects. Return how many changed.

        :param refused: kinds of objects whose deletions the delete guard refuses.
        """
        return 0


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
        self._comparer = ClusterComparer(context, wait=wait)
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
        dependents = self.dependents(target, base)
        comparison = self._comparer.compare(target, self._connections[target.cluster], base, None, deadline)
        dependent_differences = dependents.compare(comparison)
        policy = policies(self.conf)
        refused = {} if allow_deletes else self._refused_deletes(comparison)
        differences = [d for what, _ in comparison.found for d in what.differences(policy.get(what.kind, HEAL))]
        differences += dependent_differences
        written = deleted = 0
        if not dry_run:
            created = {kind_of_object(what) for what, _ in comparison.found if what.model is None}
            self._unconfirmed[scope] = self._unconfirmed.get(scope, set()) | created
            written, deleted = self._heal(target, comparison, refused, policy, deadline)
            written += dependents.write(comparison, refused)
            self._record(target, comparison, [*dependents.kinds, *comparison.complete], differences)
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

    def dependents(self, target: ClusterTarget, base: View) -> Dependents:
        """Return what follows from the objects of a cluster: by default nothing.

        :param base: the model before the listing.
        """
        return Dependents()

    def wait_for_events(self) -> None:
        """Wait until a watch has delivered the events of what a listing shows."""
        self._comparer.wait_for_events()

    def target_of(self, cluster: str | None) -> ClusterTarget:
        """Return the target of a cluster.

        :raises SourceError: no configured source follows it.
        """
        target = self._targets.get(cluster or "")
        if target is None:
            raise SourceError(f"no source that is configured here follows the cluster {cluster}")
        return target

    def compare_namespace(
        self, target: ClusterTarget, base: View, namespace: str | None, deadline: float
    ) -> Comparison:
        """Compare one namespace of a cluster.

        :param base: the model before the listing.
        :param deadline: ``time.monotonic()`` by which the listing is to end.
        :raises SourceError: nothing could be listed.
        """
        try:
            return self._comparer.compare(target, self._connections[target.cluster], base, namespace, deadline)
        except ReconcileError as exc:
            raise SourceError(str(exc)) from None

    def repair_namespace(
        self, target: ClusterTarget, comparison: Comparison, namespace: str | None, deadline: float, actor: Actor | None
    ) -> None:
        """Write the differences of one namespace.

        :param actor: recorded as the writer of the changes.
        :raises SourceError: the delete guard refuses; nothing is written.
        """
        if self._refused_deletes(comparison):
            raise SourceError(
                f"too much of the namespace {namespace} is gone to believe it ([reconcile] "
                f"max_delete_percent); watcher-sync-manage reconcile --allow-deletes {target.cluster} says that "
                "it is so"
            )
        self._healer.heal(comparison.found, since=comparison.since, actor=actor)
        self._delete_created_but_gone(target, comparison, namespace, deadline, actor)

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

    def _record(
        self,
        target: ClusterTarget,
        comparison: Comparison,
        complete: Collection[str],
        differences: Iterable[FieldDifference],
    ) -> None:
        """Store the drifts of the kinds that were compared completely, and the time of a full sync."""
        database, now = self.context.store.database, self._now()
        drifts = [d for d in differences if d.kind in complete]
        replace_drifts(database, drifts, source=target.source, kinds=complete, now=now)
        if not comparison.failures:
            source_status.record_full_sync(database, target.source, now)
