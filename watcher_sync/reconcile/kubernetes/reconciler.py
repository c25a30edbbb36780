# SPDX-License-Identifier: Apache-2.0
"""The reconciler of Kubernetes: each cluster that a source of ours follows is one scope.

A run lists what the source follows, compares it with the model, and writes what notifications lost::

    view of the model  ->  listings  ->  differences  ->  a moment later: still there?  ->  brake  ->  heal
                                                                                    VNF instances: judge, sync

The view is taken before the listing begins. What differs may be on its way here through the watch, so a
difference counts only if nobody wrote the entity while we waited a moment. The VNF instances, too, are held against
the listing; those that differ are synced, each under its lease, from what the tables say then.

Where the brake holds deletions of a kind, nothing of it is created and no VNF instance synced: what is gone and what
is new are often the two sides of one replacement, and together more than there ever was.

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
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.conf.reconcile import HEAL, policies
from watcher_sync.events import Event
from watcher_sync.exceptions import (
    ConfigError,
    InvalidEvent,
    OperationRunning,
    ReconcileError,
    RowRefused,
    SourceError,
    StaleToken,
)
from watcher_sync.model.kinds import Entity
from watcher_sync.model.kubernetes import VnfInstance
from watcher_sync.model.view import View
from watcher_sync.model.vnf.evaluation import Observation
from watcher_sync.model.vnf.reports import SyncReport
from watcher_sync.reconcile.base import Context, Reconciler, Report
from watcher_sync.reconcile.delete_guard import losses
from watcher_sync.reconcile.drift import Found, compare
from watcher_sync.reconcile.kubernetes import vnf_sync as vnfs
from watcher_sync.reconcile.kubernetes.reports import reported, vnf_differences
from watcher_sync.reconcile.live_view import Live
from watcher_sync.reconcile.repair import Healer
from watcher_sync.sources.kubernetes.listing import ListingPart
from watcher_sync.sources.kubernetes.resources import KNOWN, Resource
from watcher_sync.sources.kubernetes.source import KubernetesSource
from watcher_sync.storage import source_status
from watcher_sync.storage.drifts import Difference, list_drifts, replace_drifts

LOG = logging.getLogger(__name__)

_MOMENT: Final = 1.0
"""Seconds that a difference has to last before it counts: what a watch needs to tell the same."""

_COMPARED: Final = ("workload", "pod")

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


class _Whole(msgspec.Struct, kw_only=True):
    """A kind of object of which everything was listed."""

    resource: Resource
    namespaces: set[str | None] = msgspec.field(default_factory=set)
    """Where; None: in all of them, or where it lives in none."""


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
        self._told_of_brake: dict[tuple[str, str], int] = {}
        """(cluster, kind) -> deletions that were held back when the log last told of it."""

    def scopes(self) -> Sequence[str]:
        """The clusters."""
        return list(self._sources)

    def run(self, scope: str, *, dry_run: bool = False, allow_deletes: bool = False, deadline: float) -> Report:
        """Compare one cluster; see :class:`~watcher_sync.reconcile.base.Reconciler`."""
        began = time.monotonic()
        source = self._sources[scope]
        base = self.context.view()
        instances = [v for v in base.by(vnfs.KIND, "cluster", source.cluster) if isinstance(v, VnfInstance)]
        compared = self._compare(source, base, None, deadline)
        drifted = self._drifted([v for v in instances if source.follows(v.namespace)], compared)
        policy = policies(self.conf)
        differences = [d for what, _ in compared.found for d in what.differences(policy.get(what.kind, HEAL))]
        braked: Mapping[str, int] = {} if allow_deletes else self._braked(compared)
        for kind, count in braked.items():
            if self._told_of_brake.get((scope, kind)) == count:
                continue  # one line for each change
            LOG.error(
                "The cluster %s has %d of %d entities of the kind %s no more, which is above [reconcile] "
                "max_delete_percent: none is deleted until watcher-sync-manage reconcile --allow-deletes %s says so",
                scope,
                count,
                compared.sizes[kind],
                kind,
                scope,
            )
        for kind in _COMPARED:
            self._told_of_brake[scope, kind] = braked.get(kind, 0)
        written = deleted = 0
        if not dry_run:
            wanted = [
                (what, event)
                for what, event in compared.found
                # Of what is not believed, what is new waits, too: else the model would have both sides.
                if policy.get(what.kind, HEAL) == HEAL and not (what.kind in braked and None in (what.model, what.live))
            ]
            written, deleted = self._healer.heal(wanted)
        policy_of_vnfs = policy.get(vnfs.KIND, HEAL)
        for instance, observation in drifted:
            differences += vnf_differences(instance, observation, policy_of_vnfs)
        synced = 0
        if not dry_run:
            self._notify(source, drifted, policy_of_vnfs)
            if policy_of_vnfs == HEAL and not braked:
                synced = sum(self._sync_one(vnf.id, compared.unknown, source.name) for vnf, _ in drifted)
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
        return reported(instance, observation)

    # Comparing

    def _compare(self, source: KubernetesSource, base: View, namespace: str | None, deadline: float) -> Compared:
        """List and compare; nothing is written.

        :param namespace: only this one; None: all that the source follows.
        :raises ReconcileError: nothing could be listed.
        """
        # Before the listing, whatever the view: one over the tables is as of the moment at which it is asked.
        known = {kind: _known(base, kind, source.cluster, namespace) for kind in _COMPARED}
        live = Live(self._kinds, self.context.dispatcher, {k: {e.id: e for e in found} for k, found in known.items()})
        lists, requests = _list(source, live, namespace, deadline)
        failures = {}
        for listed in lists:
            if listed.failure is not None:
                where = f" of {listed.namespace}" if listed.namespace else ""
                failures[f"{listed.resource.name}{where}"] = listed.failure
        if not lists:
            raise ReconcileError(f"the source {source.name} does not follow the namespace {namespace}")
        if all(listed.failure is not None for listed in lists):
            raise ReconcileError(f"the cluster {source.cluster} cannot be listed: {next(iter(failures.values()))}")
        unknown = {listed.resource.kind for listed in lists if listed.failure is not None}
        unknown |= source.unfollowed
        found, sizes = self._differing(source, known, live, _whole(lists, unknown, namespace))
        if found:
            self._wait(_MOMENT)
            now = self.context.view()
            found = [(what, event) for what, event in found if what.stands(now)]
        return Compared(
            live=live,
            requests=requests,
            failures=failures,
            unknown=unknown,
            found=found,
            sizes=sizes,
            complete=["vnf_instance", *(["pod"] if "Pod" not in unknown else []), *([] if failures else ["workload"])],
        )

    def _differing(
        self, source: KubernetesSource, known: Mapping[str, Sequence[Entity]], live: Live, whole: Mapping[str, _Whole]
    ) -> tuple[list[tuple[Found, Event]], dict[str, int]]:
        """What differs, with the events that tell it, workloads first; and how many entities were compared.

        :param known: kind -> what the model had before the listing.
        :param whole: of the kinds of objects that are known as a whole.
        """
        found: list[tuple[Found, Event]] = []
        sizes: dict[str, int] = collections.Counter()
        for kind in _COMPARED:
            there = {i: f for i, f in live.found[kind].items() if _object_kind(f.entity) in whole}
            before = [e for e in known[kind] if _inside(e, whole)]
            sizes[kind] = len(before)
            for what in compare(kind, before, there):
                if what.live is not None:
                    event = what.live.event
                    assert event is not None
                    happened = "added" if what.model is None else "modified"
                    event = msgspec.structs.replace(
                        event, type=f"{event.type.rpartition('.')[0]}.{happened}", subject=what.id
                    )
                else:
                    assert what.model is not None
                    listed = ListingPart(resource=whole[_object_kind(what.model)].resource, namespace=None)
                    data = msgspec.json.encode({"metadata": {"uid": what.id}})
                    event = listed.event(data, source=source.name, cluster=source.cluster, what="deleted")
                found.append((what, event))
        return found, sizes

    def _braked(self, compared: Compared) -> dict[str, int]:
        """kind -> deletions, where too much is lost to be believed."""
        gone = collections.Counter(what.kind for what, _ in compared.found if what.gone)
        most = self.conf.reconcile.max_delete_percent
        lost = losses((what for what, _ in compared.found), compared.live)
        return {kind: gone[kind] for kind, count in lost.items() if count * 100 > most * compared.sizes[kind]}

    # VNF instances

    def _drifted(self, instances: Sequence[VnfInstance], compared: Compared) -> list[tuple[VnfInstance, Observation]]:
        """The instances that differ from the listing, and that nobody has written since.

        :param instances: as they were before the listing.
        """
        judged = [(v, vnfs.judge(compared.live, v, compared.unknown)) for v in instances]
        drifted = [(v, observation) for v, observation in judged if observation.changed]
        if drifted:
            if not compared.found:
                self._wait(_MOMENT)
            now = self.context.view()
            drifted = [(v, o) for v, o in drifted if _unwritten(v, now)]
        return drifted

    def _notify(
        self, source: KubernetesSource, drifted: Sequence[tuple[VnfInstance, Observation]], policy: str
    ) -> None:
        """Tell listeners of the instances of which something differs that did not before."""
        if self.context.notifications is None or not drifted:
            return
        told = self._told_of(source)
        for instance, observation in drifted:
            found = vnf_differences(instance, observation, policy)
            if any((d.entity_id, d.field) not in told for d in found):
                self.context.notifications.drift(instance, found)

    def _told_of(self, source: KubernetesSource) -> set[tuple[str, str]]:
        """(instance, field) of the drifts that were found before, and told of then."""
        drifts = list_drifts(self.context.store.database, kind=vnfs.KIND, source=source.name, limit=_MOST_DRIFTS)
        return {(drift.entity_id, drift.field) for drift in drifts}

    def _sync_one(self, entity_id: str, unknown: Collection[str], source: str) -> bool:
        try:
            observation = self._sync.sync(entity_id, unknown=unknown, source=source)
        except OperationRunning as exc:
            LOG.info("VNF instance %s is not synced (SKIPPED_LCM): %s", entity_id, exc)
            return False
        except (InvalidEvent, RowRefused, StaleToken) as exc:
            LOG.warning("VNF instance %s cannot be synced: %s", entity_id, exc)
            return False
        return observation is not None and observation.changed

    def _record(self, source: KubernetesSource, compared: Compared, differences: Iterable[Difference]) -> None:
        """Say what was found, and when."""
        engine, now = self.context.store.database, self._now()
        told = [d for d in differences if d.kind in compared.complete]
        replace_drifts(engine, told, source=source.name, kinds=compared.complete, now=now)
        if not compared.failures:
            source_status.record_full_sync(engine, source.name, now)


def cluster_sources(conf: cfg.ConfigOpts) -> list[KubernetesSource]:
    """The configured sources of this driver, none of them started.

    :raises ConfigError: naming the option that is wrong, or two sources that say they follow the same cluster: what
        only one of them follows would be gone to the other.
    """
    found: dict[str, KubernetesSource] = {}
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        if conf[f"source_{name}"].driver == "kubernetes":
            opts.register_source(conf, name, KubernetesSource.options)
            source = KubernetesSource(name, conf)
            if (other := found.setdefault(source.cluster, source)) is not source:
                raise ConfigError(
                    f"[source_{name}] cluster: {source.cluster} is the cluster of [source_{other.name}] already"
                )
    return list(found.values())


def _unwritten(instance: VnfInstance, now: View) -> bool:
    known = now.get(vnfs.KIND, instance.id)
    return known is not None and known.versions == instance.versions


def _kind_in_model(resource: Resource) -> str:
    """What the model calls the kind of an object: one that was named by option has its name in small letters."""
    return resource.kind if resource.plural in KNOWN else resource.kind.lower()


def _object_kind(entity: Entity) -> str:
    return "Pod" if type(entity).__name__ == "Pod" else str(getattr(entity, "kind", None))


def _known(base: View, kind: str, cluster: str, namespace: str | None) -> list[Entity]:
    """What the model has of a kind in a cluster, or in one of its namespaces."""
    if namespace is None:
        return list(base.by(kind, "cluster", cluster))
    return [e for e in base.by(kind, "namespace", namespace) if getattr(e, "cluster", None) == cluster]


def _list(
    source: KubernetesSource, live: Live, namespace: str | None, deadline: float
) -> tuple[list[ListingPart], int]:
    """List into the view; how each list ended, and how many requests that took.

    A list that failed may have left a part of it in the view: its kind is unknown as a whole.
    """
    lists: list[ListingPart] = []
    requests = 0
    added: list[tuple[str, str]] = []
    unreadable: str | None = None
    for part in source.list_objects(namespace, deadline=deadline):
        requests += part.requests
        if part.begins:
            live.forget(added)
            added, unreadable = [], None
        if unreadable is None:
            try:
                added += live.add(part.event(data, source=source.name, cluster=source.cluster) for data in part.objects)
            except InvalidEvent as exc:
                unreadable = f"an object cannot be read: {exc}"
        if part.ends:
            part.failure = part.failure or unreadable
            part.objects = ()
            lists.append(part)
            added = []
    return lists, requests


def _whole(lists: Sequence[ListingPart], unknown: Collection[str], namespace: str | None) -> dict[str, _Whole]:
    """Kind of object as the model has it -> what was listed of it; only kinds that are known as a whole.

    :param namespace: the only one that is compared; kinds that live in none are left out then.
    """
    found: dict[str, _Whole] = {}
    for listed in lists:
        resource = listed.resource
        if resource.kind in unknown or (namespace is not None and not resource.namespaced):
            continue
        kind = found.setdefault(_kind_in_model(resource), _Whole(resource=resource))
        kind.namespaces.add(listed.namespace if resource.namespaced else None)
    return found


def _inside(entity: Entity, whole: Mapping[str, _Whole]) -> bool:
    """Whether the listings would have had the entity."""
    kind = whole.get(_object_kind(entity))
    return kind is not None and (None in kind.namespaces or getattr(entity, "namespace", None) in kind.namespaces)
