# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes: each cluster that a source of ours follows is one scope.

A run lists what the source follows, compares it with the model, and writes what notifications lost::

    view of the model  ->  listings  ->  differences  ->  a moment later: still there?  ->  brake  ->  heal
                                                                                    VNF instances: judge, sync

The view is taken before the listing begins. What differs may be on its way here through the watch, so a
difference counts only if nobody wrote the entity while we waited a moment. The VNF instances are held against the
listing; those that differ are synced, each under its lease, from what the tables say then.

A kind of which one listing failed is unknown as a whole: none of its objects is compared, none is gone, and
the VDUs that need it are UNKNOWN. The cluster is read without any lease or lock.

Cost: as many requests as the objects need pages. Nothing is written where nothing differs, but the time of the
full sync in the source's status.
"""

from __future__ import annotations

import collections
import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Event
from watcher_sync.exceptions import InvalidEvent, OperationRunning, ReconcileError, SourceError
from watcher_sync.model.kinds import Entity
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.view import View
from watcher_sync.model.vnf.observing import Observation
from watcher_sync.model.vnf.reports import ReportedDifference, ReportedPod, SyncReport
from watcher_sync.reconcile import vnf as vnfs
from watcher_sync.reconcile.base import Context, Reconciler, Report
from watcher_sync.reconcile.differences import Found, compare, plain
from watcher_sync.reconcile.healing import Healer
from watcher_sync.reconcile.live import Live
from watcher_sync.sources.kube.resources import KNOWN, Resource
from watcher_sync.sources.kube.survey import Surveyed
from watcher_sync.sources.kubernetes import KubernetesSource
from watcher_sync.storage import source_status
from watcher_sync.storage.drifts import Difference, list_drifts, replace_drifts

LOG = logging.getLogger(__name__)

_MOMENT: Final = 1.0
"""Seconds that a difference has to last before it counts: what a watch needs to tell the same."""

_MOST_DRIFTS: Final = 100_000

_SYNC_TIME: Final = 20.0
"""Seconds that the sync of one instance may take that somebody asked for.

Less than the 30 seconds that our own client waits for an answer, so that it hears the reason."""


class Compared(msgspec.Struct, kw_only=True):
    """What a cluster has, and where the model differs."""

    live: Live
    requests: int
    failures: Mapping[str, str]
    """Resource -> why it could not be listed."""
    unknown: Collection[str]
    """Kinds of objects of which not everything could be listed."""
    found: list[tuple[Found, Event]]
    """(what differs, the event that tells it)."""
    sizes: Mapping[str, int]
    """kind -> entities of the model that were compared."""
    complete: Collection[str]
    """Kinds of the model of which everything was compared."""


class KubernetesReconciler(Reconciler):
    """See the module."""

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
        self._wait = wait
        self._kinds = context.store.kinds
        policies(conf, self._kinds)
        self._healer = Healer(context.writes, context.dispatcher, self._kinds)
        self._sync = vnfs.VnfSync(context.writes, context.operations, notifications=context.notifications)
        self._sources = {source.cluster: source for source in cluster_sources(conf)}

    def scopes(self) -> Sequence[str]:
        """The clusters."""
        return list(self._sources)

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one cluster; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        began = time.monotonic()
        source = self._sources[scope]
        base = self.context.view()
        compared = self._compare(source, base, None, deadline)
        policy = policies(self.conf)
        differences = [d for what, _ in compared.found for d in what.differences(policy.get(what.kind, HEAL))]
        braked: Mapping[str, int] = {} if allow_deletes else self._braked(compared)
        for kind, count in braked.items():
            LOG.error(
                "The cluster %s has %d of %d entities of the kind %s no more, which is above [reconcile] "
                "max_delete_percent: none is deleted until watcher-sync-manage reconcile --allow-deletes %s says so",
                scope,
                count,
                compared.sizes[kind],
                kind,
                scope,
            )
        written = deleted = 0
        if not dry_run:
            wanted = [
                (what, event)
                for what, event in compared.found
                if policy.get(what.kind, HEAL) == HEAL and not (what.gone and what.kind in braked)
            ]
            written, deleted = self._healer.heal(wanted)
        synced = self._sync_all(source, base, compared, differences, dry_run=dry_run, policy=policy)
        if not dry_run:
            self._record(source, compared, differences)
        return Report(
            scope=scope,
            dry_run=dry_run,
            complete=not compared.failures,
            differences=tuple(differences),
            written=written + synced,
            deleted=deleted,
            braked=braked,
            requests=compared.requests,
            seconds=time.monotonic() - began,
            failures=compared.failures,
        )

    def sync_now(self, entity_id: str, *, dry_run: bool) -> SyncReport:
        """Hold one VNF instance against its cluster, and bring it in step.

        :param dry_run: write nothing, whoever holds the instance.
        :raises KeyError: there is no such instance.
        :raises OperationRunning: a life-cycle operation holds it; never in a dry run.
        :raises SourceError: its cluster is not followed from here, or cannot be listed.
        """
        base = self.context.view()
        instance = base.get(vnfs.KIND, entity_id)
        if not isinstance(instance, VnfInstance):
            raise KeyError(entity_id)
        source = self._sources.get(instance.cluster or "")
        if source is None:
            raise SourceError(f"no source that is configured here follows the cluster {instance.cluster}")
        lease = None if dry_run else self.context.operations.running(entity_id)
        if lease is not None:
            raise OperationRunning(lease)
        try:
            compared = self._compare(source, base, instance.namespace, time.monotonic() + _SYNC_TIME)
        except ReconcileError as exc:
            raise SourceError(str(exc)) from None
        observation: Observation | None = vnfs.judge(compared.live, instance, compared.unknown)
        if not dry_run:
            if self._braked(compared):
                raise SourceError(
                    f"too much of the namespace {instance.namespace} is gone to believe it ([reconcile] "
                    f"max_delete_percent); watcher-sync-manage reconcile --allow-deletes {source.cluster} says that "
                    "it is so"
                )
            self._healer.heal(compared.found)
            observation = self._sync.sync(entity_id, unknown=compared.unknown, source=source.name)
        if observation is None:
            raise KeyError(entity_id)
        return _reported(instance, observation)

    # Comparing

    def _compare(self, source: KubernetesSource, base: View, namespace: str | None, deadline: float) -> Compared:
        """List and compare; nothing is written.

        :param namespace: only this one; None: all that the source follows.
        :raises ReconcileError: nothing could be listed.
        """
        live = Live(self._kinds, self.context.dispatcher)
        failures: dict[str, str] = {}
        lists: list[Surveyed] = []
        for listed in source.survey(namespace, deadline=deadline):
            lists.append(listed)
            if listed.failure is None:
                try:
                    live.add(listed.event(data, source=source.name, cluster=source.cluster) for data in listed.objects)
                except InvalidEvent as exc:
                    listed.failure = f"an object cannot be read: {exc}"
            if listed.failure is not None:
                where = f" of {listed.namespace}" if listed.namespace else ""
                failures[f"{listed.resource.name}{where}"] = listed.failure
            listed.objects = ()
        if not lists:
            raise ReconcileError(f"the source {source.name} does not follow the namespace {namespace}")
        if all(listed.failure is not None for listed in lists):
            raise ReconcileError(f"the cluster {source.cluster} cannot be listed: {next(iter(failures.values()))}")
        unknown = {listed.resource.kind for listed in lists if listed.failure is not None}
        unknown |= {resource.kind for resource in KNOWN.values()} - {listed.resource.kind for listed in lists}
        resources = {
            _kind_in_model(listed.resource): listed.resource for listed in lists if listed.resource.kind not in unknown
        }
        found, sizes = self._differing(source, base, live, lists, resources)
        if found:
            self._wait(_MOMENT)
            now = self.context.view()
            found = [(what, event) for what, event in found if what.stands(now)]
        return Compared(
            live=live,
            requests=sum(listed.requests for listed in lists),
            failures=failures,
            unknown=unknown,
            found=found,
            sizes=sizes,
            complete=["vnf_instance", *(["pod"] if "Pod" not in unknown else []), *([] if failures else ["workload"])],
        )

    def _differing(
        self,
        source: KubernetesSource,
        base: View,
        live: Live,
        lists: Sequence[Surveyed],
        resources: Mapping[str, Resource],
    ) -> tuple[list[tuple[Found, Event]], dict[str, int]]:
        """What differs, with the events that tell it, workloads first; and how many entities were compared.

        :param resources: kind of object as the model has it -> its resource, of those that are known as a whole.
        """
        namespaces = {listed.namespace for listed in lists}
        found: list[tuple[Found, Event]] = []
        sizes: dict[str, int] = collections.Counter()
        for kind in ("workload", "pod"):
            known = [e for e in base.by(kind, "cluster", source.cluster) if _inside(e, namespaces, resources)]
            there = {i: f for i, f in live.found[kind].items() if _object_kind(f.entity) in resources}
            sizes[kind] = len(known)
            for what in compare(kind, known, there):
                if what.live is not None:
                    happened = "added" if what.model is None else "modified"
                    event = msgspec.structs.replace(
                        what.live.event, type=f"{what.live.event.type.rpartition('.')[0]}.{happened}", subject=what.id
                    )
                else:
                    assert what.model is not None
                    listed = Surveyed(resource=resources[_object_kind(what.model)], namespace=None)
                    data = msgspec.json.encode({"metadata": {"uid": what.id}})
                    event = listed.event(data, source=source.name, cluster=source.cluster, what="deleted")
                found.append((what, event))
        return found, sizes

    def _braked(self, compared: Compared) -> dict[str, int]:
        """kind -> deletions, where they are too many to be believed."""
        gone = collections.Counter(what.kind for what, _ in compared.found if what.gone)
        most = self.conf.reconcile.max_delete_percent
        return {kind: count for kind, count in gone.items() if count * 100 > most * compared.sizes[kind]}

    # VNF instances

    def _sync_all(
        self,
        source: KubernetesSource,
        base: View,
        compared: Compared,
        differences: list[Difference],
        *,
        dry_run: bool,
        policy: Mapping[str, str],
    ) -> int:
        """Sync the instances that differ from the listing; how many were written.

        :param differences: is added to.
        """
        changed: dict[str, list[Difference]] = {}
        told = self._told_of(source) if self.context.notifications is not None and not dry_run else set()
        instances = [v for v in base.by(vnfs.KIND, "cluster", source.cluster) if isinstance(v, VnfInstance)]
        instances = [v for v in instances if source.follows(v.namespace)]
        for instance in instances:
            observation = vnfs.judge(compared.live, instance, compared.unknown)
            if observation.changed:
                found = _vnf_differences(instance, observation, policy.get(vnfs.KIND, HEAL))
                changed[instance.id] = found
                differences += found
                news = [d for d in found if (d.entity_id, d.field) not in told]
                if self.context.notifications is not None and not dry_run and news:
                    self.context.notifications.drift(instance, found)
        if dry_run or policy.get(vnfs.KIND, HEAL) != HEAL:
            return 0
        return sum(self._sync_one(entity_id, compared.unknown, source.name) for entity_id in changed)

    def _told_of(self, source: KubernetesSource) -> set[tuple[str, str]]:
        """(instance, field) of the drifts that were found before, and told of then."""
        drifts = list_drifts(self.context.store.engine, kind=vnfs.KIND, source=source.name, limit=_MOST_DRIFTS)
        return {(drift.entity_id, drift.field) for drift in drifts}

    def _sync_one(self, entity_id: str, unknown: Collection[str], source: str) -> bool:
        try:
            observation = self._sync.sync(entity_id, unknown=unknown, source=source)
        except OperationRunning as exc:
            LOG.info("VNF instance %s is not synced (SKIPPED_LCM): %s", entity_id, exc)
            return False
        return observation is not None and observation.changed

    def _record(self, source: KubernetesSource, compared: Compared, differences: Iterable[Difference]) -> None:
        """Say what was found, and when."""
        engine, now = self.context.store.engine, self._now()
        told = [d for d in differences if d.kind in compared.complete]
        replace_drifts(engine, told, source=source.name, kinds=compared.complete, now=now)
        if not compared.failures:
            source_status.record_full_sync(engine, source.name, now)


def cluster_sources(conf: cfg.ConfigOpts) -> list[KubernetesSource]:
    """The configured sources of this driver, none of them started.

    :raises ConfigError: naming the option that is wrong.
    """
    found = []
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        if conf[f"source_{name}"].driver == "kubernetes":
            opts.register_source(conf, name, KubernetesSource.options)
            found.append(KubernetesSource(name, conf))
    return found


def _kind_in_model(resource: Resource) -> str:
    """What the model calls the kind of an object: one that was named by option has its name in small letters."""
    return resource.kind if resource.plural in KNOWN else resource.kind.lower()


def _object_kind(entity: Entity) -> str:
    return "Pod" if type(entity).__name__ == "Pod" else str(getattr(entity, "kind", None))


def _inside(entity: Entity, namespaces: Collection[str | None], resources: Mapping[str, Resource]) -> bool:
    """Whether the listings would have had the entity."""
    if _object_kind(entity) not in resources:
        return False
    return None in namespaces or getattr(entity, "namespace", None) in namespaces


def _vnf_differences(instance: VnfInstance, observation: Observation, policy: str) -> list[Difference]:
    """What is worth telling a person: the state, the levels, the numbers and the names of the pods."""
    values = observation.values
    pairs: dict[str, tuple[Any, Any]] = {
        name: (getattr(instance, name), values[name]) for name in ("state", "scale_level", "observed")
    }
    pairs["vnfc_resource_info"] = _pods(instance.vnfc_resource_info), _pods(values["vnfc_resource_info"])
    return [
        Difference(
            kind=vnfs.KIND,
            entity_id=instance.id,
            field=name,
            model_value=plain(before),
            live_value=plain(after),
            policy=policy,
        )
        for name, (before, after) in pairs.items()
        if before != after
    ]


def _pods(entries: Sequence[Mapping[str, Any]] | None) -> list[Any] | None:
    """The names of the pods behind entries of vnfcResourceInfo."""
    return None if entries is None else [entry["computeResource"]["resourceId"] for entry in entries]


def _reported(instance: VnfInstance, observation: Observation) -> SyncReport:
    values = observation.values
    return SyncReport(
        state=values["state"],
        changed=observation.changed,
        vdu_results={
            vdu: {**values["vdu_results"][vdu], "result": result.value} for vdu, result in observation.results.items()
        },
        differences=[
            ReportedDifference(field=d.field, model_value=d.model_value, live_value=d.live_value)
            for d in _vnf_differences(instance, observation, HEAL)
        ],
        pods=[ReportedPod(vdu=p.vdu, vnfc_id=p.vnfc, old=p.old, new=p.new) for p in observation.pods],
    )
