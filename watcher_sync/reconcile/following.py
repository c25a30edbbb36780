# SPDX-License-Identifier: Apache-2.0
"""VNF instances in step with the events: what pods and workloads do shows within a moment.

A thread beside a leading engine looks a few times a second whether the model has moved, and asks the two snapshots
what changed between them. A pod, or a workload, that changed concerns the instances that name a workload above
it, in either snapshot; these are judged, and those that differ are synced. It costs nothing per event.

An instance is left alone until its cluster was listed completely once: before that, missing pods mean nothing.
One that a life-cycle operation holds is asked for again every second, until it is free. What an
instance's source does not follow is unknown, and one in a namespace that it does not follow is none of ours.

That an instance was synced is no reason to judge it again: whoever did it may have known better what is unknown.
An instance whose sync fails costs the others nothing, and is tried again after a time that doubles.

Guaranteed: after the last change of its pods an instance is judged at least once more, if not by this engine then by
the next that leads, which begins with all of them. What is written is decided at the moment of writing (see
:mod:`watcher_sync.reconcile.kubernetes.vnf_sync`), so it does no harm that two do the same.

Threads: its own. The engine's threads only start and stop it.
"""

from __future__ import annotations

import collections
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, Final

from oslo_log import log as logging
from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from watcher_sync.exceptions import DatabaseUnavailable, OperationRunning, StaleToken
from watcher_sync.model.kinds import Entity, kind_of
from watcher_sync.model.kubernetes import Cluster, Pod, VnfInstance, Workload, full_name
from watcher_sync.model.model import Snapshot
from watcher_sync.model.view import View
from watcher_sync.reconcile.kubernetes.vnf_sync import KIND, VnfSync, judge
from watcher_sync.sources.kubernetes.source import KubernetesSource

LOG = logging.getLogger(__name__)

_LOOK: Final = 0.2
"""Seconds between two looks."""
_SHOWN: Final = 50
_AGAIN: Final = 1.0
"""Seconds after which an instance that is held, or that could not be written, is tried again."""
_LATEST: Final = 60.0
"""The same, at most, of one whose sync fails again and again."""

_REGISTRATION: Final = kind_of(VnfInstance).facet_position["registration"]
_SYNC: Final = kind_of(Cluster).facet_position["sync"]


class Follower:
    """See the module. A :class:`~watcher_sync.engine.services.BackgroundService`.

    :param snapshot: the model as of now.
    :param generation: what tells that it has moved; costs nothing.
    :param clusters: cluster -> the source that follows it; instances elsewhere are none of ours.
    """

    def __init__(
        self,
        snapshot: Callable[[], Snapshot],
        generation: Callable[[], int],
        sync: VnfSync,
        clusters: Mapping[str, KubernetesSource],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._take = snapshot
        self._generation = generation
        self._sync = sync
        self._clusters = dict(clusters)
        self._clock = clock
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        # All that follows is the thread's own.
        self._last: Snapshot | None = None
        self._named: dict[str, set[str]] = collections.defaultdict(set)
        """Full name of a workload -> the instances that name it."""
        self._names: dict[str, set[str]] = {}
        """The other way round."""
        self._due: dict[str, float] = {}
        """Instance -> when it is to be judged."""
        self._held: dict[str, str] = {}
        """Instance -> the lease that keeps us out, as the log has told."""
        self._failures: dict[str, int] = {}
        """Instance -> how often its sync failed in a row."""

    title = "VNF instances"

    def start(self) -> None:
        """Begin, with all instances."""
        if not self._clusters:
            return
        self._stopping = threading.Event()
        self._last = None
        self._named.clear()
        self._names.clear()
        self._due.clear()
        self._held.clear()
        self._failures.clear()
        self._thread = threading.Thread(target=self._run, args=(self._stopping,), name="vnf-follower", daemon=True)
        self._thread.start()

    def begin_stop(self) -> None:
        """Sync nothing more."""
        self._stopping.set()

    def join(self, timeout: float) -> None:
        """Wait for what is being written."""
        if self._thread is not None:
            self._thread.join(timeout)

    def collect(self) -> Iterable[Metric]:
        """The figures of this moment."""
        waiting = GaugeMetricFamily(
            "watcher_sync_vnf_instances_waiting", "VNF instances that changed and are not synced yet."
        )
        waiting.add_metric([], len(self._due))
        yield waiting

    def report(self) -> Mapping[str, Any]:
        """Of which clusters, and which instances wait."""
        return {
            "clusters": ", ".join(sorted(self._clusters)) or "none",
            "waiting": ", ".join(sorted(list(self._due)[:_SHOWN])) or "none",
            "held by operations": ", ".join(sorted(list(self._held)[:_SHOWN])) or "none",
        }

    # Its own thread

    def _run(self, stopping: threading.Event) -> None:
        while not stopping.wait(_LOOK):
            try:
                self.look()
            except Exception:
                # The supervised edge: whatever it was, everything is looked at anew.
                LOG.exception("Following the VNF instances failed; all are looked at again")
                self._last = None
                stopping.wait(_AGAIN)

    def look(self) -> None:
        """Notice what has changed, and sync what is due."""
        if self._last is None or self._generation() != self._last.generation:
            self._notice(self._take())
        now = self._clock()
        for vnf_id in [i for i, due in self._due.items() if due <= now]:
            if self._stopping.is_set():
                return
            del self._due[vnf_id]
            try:
                self._look_at(vnf_id)
            except DatabaseUnavailable as exc:
                LOG.debug("VNF instance %s cannot be synced now: %s", vnf_id, exc)
                later = self._clock() + _AGAIN
                self._due = {i: max(due, later) for i, due in [(vnf_id, later), *self._due.items()]}
                return
            except Exception as exc:  # noqa: BLE001 - the supervised edge of one instance
                self._fail(vnf_id, exc)
            else:
                self._failures.pop(vnf_id, None)

    def _notice(self, snapshot: Snapshot) -> None:
        then, self._last = self._last, snapshot
        if then is None:
            for vnf in snapshot.all(KIND):
                assert isinstance(vnf, VnfInstance)
                self._learn(vnf.id, vnf)
                self._due[vnf.id] = 0.0
            return
        for old, new in snapshot.changed(KIND, then):
            one = new or old
            assert one is not None
            self._learn(one.id, new if isinstance(new, VnfInstance) else None)
            if new is not None and _written(old, new, _REGISTRATION):
                self._due[one.id] = 0.0
        if not self._names:
            return
        touched: set[str] = set()
        for kind in ("workload", "pod"):
            for old, new in snapshot.changed(kind, then):
                touched.update(_names_above(old, then))
                touched.update(_names_above(new, snapshot))
        for name in touched & self._named.keys():
            self._due.update(dict.fromkeys(self._named[name], 0.0))
        for old, new in snapshot.changed("cluster", then):
            if new is not None and _written(old, new, _SYNC):
                self._due.update((vnf.id, 0.0) for vnf in snapshot.by(KIND, "cluster", new.id))

    def _learn(self, vnf_id: str, vnf: VnfInstance | None) -> None:
        """Remember which workloads an instance names; None: it exists no more."""
        names = _names_of(vnf) if vnf is not None else set()
        known = self._names.pop(vnf_id, set())
        for name in known - names:
            self._named[name].discard(vnf_id)
            if not self._named[name]:
                del self._named[name]
        for name in names - known:
            self._named[name].add(vnf_id)
        if vnf is not None:
            self._names[vnf_id] = names
        else:
            self._due.pop(vnf_id, None)
            self._held.pop(vnf_id, None)
            self._failures.pop(vnf_id, None)

    def _look_at(self, vnf_id: str) -> None:
        assert self._last is not None
        vnf = self._last.get(KIND, vnf_id)
        if not isinstance(vnf, VnfInstance) or not self._may_judge(vnf, self._last):
            return
        source = self._clusters[vnf.cluster or ""]
        if not judge(self._last, vnf, source.unfollowed).changed:
            self._held.pop(vnf_id, None)
            return
        try:
            self._sync.sync(vnf_id, unknown=source.unfollowed, source=source.name)
        except OperationRunning as exc:
            if self._held.get(vnf_id) != exc.lease.id:
                LOG.info("VNF instance %s is not synced (SKIPPED_LCM) for now: %s", vnf_id, exc)
            self._held[vnf_id] = exc.lease.id
            self._due[vnf_id] = self._clock() + _AGAIN
        except StaleToken as exc:
            LOG.debug("VNF instance %s cannot be synced now: %s", vnf_id, exc)
            self._due[vnf_id] = self._clock() + _AGAIN
        else:
            self._held.pop(vnf_id, None)

    def _fail(self, vnf_id: str, error: Exception) -> None:
        """Say it once, and try again later."""
        failures = self._failures[vnf_id] = self._failures.get(vnf_id, 0) + 1
        self._due[vnf_id] = self._clock() + min(_AGAIN * 2 ** min(failures, 10), _LATEST)
        if failures == 1:
            LOG.error(
                "VNF instance %s cannot be synced, and is tried again for ever: %s", vnf_id, error, exc_info=error
            )

    def _may_judge(self, vnf: VnfInstance, view: View) -> bool:
        """Whether the model knows all that there is in the instance's cluster."""
        source = self._clusters.get(vnf.cluster or "")
        if source is None or not source.follows(vnf.namespace):
            return False
        cluster = view.get("cluster", source.cluster)
        return isinstance(cluster, Cluster) and bool(cluster.has_synced)


def _written(old: Entity | None, new: Entity, facet: int) -> bool:
    """Whether a facet was written between two states of an entity."""
    return old is None or old.versions[facet] != new.versions[facet]


def _names_of(vnf: VnfInstance) -> set[str]:
    """The full names of the workloads that an instance names."""
    workloads = [vdu["workload"] for vdu in (vnf.vdus or {}).values()]
    return {full_name(vnf.cluster, vnf.namespace, w["kind"], w["name"]) for w in workloads}


def _names_above(entity: Entity | None, view: View) -> Iterator[str]:
    """The full names of a pod or workload and of everything that controls it, as far as a view knows."""
    seen: Collection[str] = ()
    while isinstance(entity, (Pod, Workload)) and entity.id not in seen:
        if entity.full_name is not None:
            yield entity.full_name
        seen = (*seen, entity.id)
        entity = view.get("workload", entity.owner_uid) if entity.owner_uid is not None else None
