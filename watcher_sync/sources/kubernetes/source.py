# SPDX-License-Identifier: Apache-2.0
"""Objects of a Kubernetes cluster, listed and watched.

The driver ``kubernetes``: one source is one cluster, with a reflector, a thread of its own, for each resource
and each namespace that is followed (:mod:`watcher_sync.sources.kubernetes.reflector` says what it promises). So a
cluster that is dead, and a resource that we may not read, cost nobody else anything.

Events: ``kubernetes.<kind>.{added,modified,deleted}`` with the object's JSON text as data (of a ReplicaSet its
metadata only, of an object whose deletion nobody saw its uid only), ``kubernetes.<kind>.listed`` with
``{kind, namespace, uids}`` after each complete listing, and ``kubernetes.cluster.{connected,disconnected,synced}``
with ``{state, detail, version, has_synced, last_sync_at, counts}``, as far as each of them tells. The origin is
the cluster's name, the position the resourceVersion.

Order: :attr:`Event.sequence` is (epoch, number). The number is counted by the source; the epoch is the time of
its making in microseconds, or one more than that of its predecessor, should the clock have been put back: the
cursor remembers it, written with each complete listing and not with every commit.

There is nothing to acknowledge. What the engine releases is emitted again after the delay, under its old
sequence, so that the ordering guard knows what has become old meanwhile. What was not committed when the process
ends is found by the listing of the next one, what was deleted meanwhile by its ``listed`` events.

Stop: the reflectors are told and their answers cut; one that hangs in a request is left behind, since it emits
nothing more. There is no need to wait for the engine's acks.
"""

from __future__ import annotations

import datetime
import heapq
import itertools
import threading
import time
from collections.abc import Sequence
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.kubernetes import resources
from watcher_sync.sources.kubernetes.connection import KubeError
from watcher_sync.sources.kubernetes.reflector import Phase, Reflector, Settings
from watcher_sync.sources.kubernetes.target import ClusterTarget, read_target

LOG = logging.getLogger(__name__)

_HANG: Final = 2.0
"""Seconds that a stop waits for a reflector that hangs in a request, and that the server's version may take."""


class _Version(msgspec.Struct):
    git: str | None = msgspec.field(default=None, name="gitVersion")


class KubernetesSource(Source):
    """The driver ``kubernetes``."""

    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "kubeconfig",
            help="""
File with the cluster's address and our credentials. Default: ``$KUBECONFIG``, else ``~/.kube/config``.

It is read again when the credentials are refused, so renewed ones count without a restart.

Related options: ``context``, ``in_cluster``.
""",
        ),
        cfg.StrOpt("context", help="The context of the kubeconfig to use. Default: its current one."),
        cfg.BoolOpt(
            "in_cluster",
            default=False,
            help="Use the service account of the pod that the engine runs in, instead of a kubeconfig.",
        ),
        cfg.StrOpt(
            "cluster",
            max_length=255,
            help="""
Name of the cluster in the model. Default: the name of the source.

Two sources must not have the same: each would take for deleted what only the other one follows.
""",
        ),
        cfg.ListOpt(
            "namespaces",
            default=[],
            help="""
Namespaces to follow. Default: all, which needs the right to list and watch in the whole cluster.

Each namespace is listed and watched by itself. What is in the model of one that is taken out of the list stays
as it was.
""",
        ),
        cfg.StrOpt(
            "label_selector",
            default="",
            help="""
Follow only objects with these labels, such as ``app in (vnf, cnf),tier!=test``.

Select by labels that objects keep: one that ceases to match counts as deleted, which is final for its uid.
ReplicaSets need the labels, too, or the pods of Deployments are not traced to them.
""",
        ),
        cfg.ListOpt(
            "resources",
            default=list(resources.KNOWN),
            help="""
What to follow: ``pods``, ``deployments``, ``replicasets``, ``statefulsets``, ``daemonsets``, and any other kind as
``group/version/Kind``, such as ``argoproj.io/v1alpha1/Rollout`` (``v1/ConfigMap`` in the core group), which
becomes a workload of the model.
""",
        ),
        cfg.BoolOpt(
            "watch",
            default=True,
            help="""
Follow the cluster's changes as they happen. Without it only the reconciliation looks at the cluster, every
``[reconcile] interval`` seconds.
""",
        ),
        cfg.IntOpt("page_size", default=500, min=1, max=10_000, help="Objects that one page of a listing asks for."),
        cfg.BoolOpt(
            "watch_list",
            default=True,
            help="""
Have the API server send lists as streams (WatchList), which spares its memory. One that refuses, or does not
understand, is listed in pages.

Related options: ``watch_list_timeout``, ``page_size``.
""",
        ),
        cfg.FloatOpt(
            "watch_list_timeout",
            default=10.0,
            min=0.1,
            help="""
Seconds of silence within the first list that is asked for as a stream, after which the server counts as one that
does not understand.
""",
        ),
        cfg.IntOpt(
            "watch_timeout",
            default=300,
            min=1,
            help="""
Seconds, and up to half as many more, after which the server is asked to end a watch; the next one goes on from
there.
""",
        ),
        cfg.FloatOpt("connect_timeout", default=5.0, min=0.1, help="Seconds that a connection may take to be made."),
        cfg.FloatOpt(
            "read_timeout",
            default=70.0,
            min=0.1,
            help="""
Seconds without a byte after which a connection counts as dead. API servers send a bookmark about once a minute
on a watch where nothing happens, so less than that only makes watches begin again and again.
""",
        ),
        cfg.FloatOpt(
            "backoff_max",
            default=30.0,
            min=0.1,
            help="Seconds between two attempts, at most, while the cluster fails; each resource waits by itself.",
        ),
    ]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        group = self.group
        self._target = read_target(name, conf)
        self.cluster = self._target.cluster
        self._connection = self._target.connect()
        settings = Settings(
            source=name,
            cluster=self.cluster,
            label_selector=group.label_selector,
            page_size=group.page_size,
            watch_list=group.watch_list,
            watch_list_timeout=group.watch_list_timeout,
            watch_timeout=group.watch_timeout,
            backoff_max=group.backoff_max,
        )
        self.reflectors: Sequence[Reflector] = [
            Reflector(resource, namespace, self._connection, settings, self)
            for resource, namespace in (self._target.listed() if group.watch else ())
        ]
        now = int(time.time() * 1_000_000)
        self._epoch = max(now, int(cursor) + 1) if cursor is not None and cursor.isdecimal() else now
        self._numbers = itertools.count(1)
        self._emit: Emit | None = None
        self._stopping = threading.Event()
        self._stopped = False
        self._connections = 0
        # Guards what the cluster was last said to be; never held while emitting.
        self._lock = threading.Lock()
        self._said: SourceState = SourceState.STARTING
        self._synced_at: datetime.datetime | None = None
        # Guards what was released, (due, number, events); notified when there is more, and at the stop.
        self._again = threading.Condition()
        self._released: list[tuple[float, int, Sequence[Event]]] = []
        self._again_thread: threading.Thread | None = None

    # What the engine calls

    def start(self, emit: Emit) -> None:
        """Begin to list and watch; returns at once."""
        self._emit = emit
        for reflector in self.reflectors:
            reflector.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Nobody needs to be told."""

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Emitted again after the delay, as they are."""
        with self._again:
            if self._stopping.is_set():
                return
            heapq.heappush(self._released, (time.monotonic() + delay, next(self._numbers), events))
            if self._again_thread is None:
                name = f"source-{self.name}-again"
                self._again_thread = threading.Thread(target=self._emit_again, name=name, daemon=True)
                self._again_thread.start()
            self._again.notify_all()

    def stop(self, deadline: float) -> None:
        """End as described at the top of this module."""
        with self._again:
            self._stopping.set()
            self._again.notify_all()
        for reflector in self.reflectors:
            reflector.begin_stop()
        until = min(deadline, time.monotonic() + _HANG)
        hanging = [r.name for r in self.reflectors if not r.join(until - time.monotonic())]
        if hanging:
            LOG.info("source %s: left behind in a request: %s", self.name, ", ".join(hanging))
        if self._again_thread is not None:
            self._again_thread.join(max(0.0, until - time.monotonic()))
        self._connection.close()
        self._stopped = True

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts objects of listings under way; unknown while something fails."""
        lags = [reflector.lag for reflector in self.reflectors]
        return SourceStatus(
            state=SourceState.STOPPED if self._stopped else self._state(),
            detail=self._detail(),
            lag=None if None in lags else sum(lag for lag in lags if lag is not None),
            last_event_at=max((at for r in self.reflectors if (at := r.last_event_at) is not None), default=None),
            reconnects=max(0, self._connections - 1),
        )

    def probe(self) -> None:
        """Ask for the server's version."""
        try:
            self._target.connect().read("/version")
        except KubeError as exc:
            raise SourceError(str(exc)) from None

    def cursor(self, events: Sequence[Event]) -> str | None:
        """The epoch, whenever a listing is complete."""
        return str(self._epoch) if any(event.type.endswith(".listed") for event in events) else None

    @property
    def has_synced(self) -> bool:
        """Whether every resource was listed completely at least once."""
        return bool(self.reflectors) and all(reflector.has_synced for reflector in self.reflectors)

    # What the reflectors call

    def emit(self, events: Sequence[Event]) -> None:
        """To the engine. :raises IntakeClosed: it takes nothing more, or we are stopping."""
        if self._emit is None or self._stopping.is_set():
            raise IntakeClosed
        self._emit(events)

    def sequence(self) -> tuple[int, int]:
        """The next place in our order; from one thread to the next, too."""
        return self._epoch, next(self._numbers)

    def changed(self) -> None:
        """Say that the cluster is connected, or is not, or was listed completely, where that is news."""
        state = self._state()
        with self._lock:
            news = state is not self._said and state is not SourceState.STARTING
            if news:
                self._said = state
                self._connections += state is SourceState.CONNECTED
            synced_at = min((r.synced_at for r in self.reflectors if r.synced_at is not None), default=None)
            synced = self.has_synced and synced_at != self._synced_at
            if synced:
                self._synced_at = synced_at
        if news and state is SourceState.CONNECTED:
            LOG.info("source %s: the cluster %s is connected", self.name, self.cluster)
            self._say("connected", {"state": "connected", "detail": None, "version": self._server_version()})
        elif news:
            LOG.warning("source %s: the cluster %s is not connected: %s", self.name, self.cluster, self._detail())
            self._say("disconnected", {"state": "disconnected", "detail": self._detail()})
        if synced:
            counts: dict[str, int] = {}
            for reflector in self.reflectors:
                counts[reflector.resource.kind] = counts.get(reflector.resource.kind, 0) + reflector.objects
            self._say("synced", {"has_synced": True, "last_sync_at": synced_at, "counts": counts})

    # Its own

    def _say(self, what: str, told: dict[str, object]) -> None:
        epoch, number = sequence = self.sequence()
        event = Event(
            id=f"{self.cluster}/{epoch}.{number}",
            type=f"kubernetes.cluster.{what}",
            source=self.name,
            origin=self.cluster,
            subject=self.cluster,
            time=datetime.datetime.now(datetime.UTC),
            data=msgspec.json.encode(told),
            sequence=sequence,
        )
        self.emit([event])

    def _server_version(self) -> str | None:
        try:
            return msgspec.json.decode(self._connection.read("/version", read_timeout=_HANG), type=_Version).git
        except (KubeError, msgspec.DecodeError) as exc:
            LOG.debug("source %s: the version is not known: %s", self.name, exc)
            return None

    def _state(self) -> SourceState:
        if not self.reflectors:
            return SourceState.CONNECTED  # nothing is followed, so nothing is missed
        phases = [reflector.phase for reflector in self.reflectors]
        if any(phase is Phase.WATCHING for phase in phases):
            return SourceState.CONNECTED
        if all(phase is Phase.FAILING for phase in phases):
            return SourceState.DISCONNECTED
        return SourceState.STARTING if self._said is SourceState.STARTING else self._said

    def _detail(self) -> str:
        """What is wrong with which resources, in one line."""
        if not self.reflectors:
            return "not watched, only reconciled"
        troubles: dict[str, list[str]] = {}
        for reflector in self.reflectors:
            if reflector.phase is Phase.FAILING:
                troubles.setdefault(reflector.trouble, []).append(reflector.name)
        if any(len(names) == len(self.reflectors) for names in troubles.values()):
            return next(iter(troubles))
        return "; ".join(f"{', '.join(names)}: {trouble}" for trouble, names in troubles.items())[:1000]

    def _emit_again(self) -> None:
        """Emit what was released, each lot when it is due, until the stop."""
        while True:
            with self._again:
                while not self._stopping.is_set():
                    left = self._released[0][0] - time.monotonic() if self._released else None
                    if left is not None and left <= 0:
                        break
                    self._again.wait(left)
                if self._stopping.is_set():
                    return
                events = heapq.heappop(self._released)[2]
            try:
                self.emit(events)
            except IntakeClosed:
                return


def cluster_targets(conf: cfg.ConfigOpts) -> dict[str, ClusterTarget]:
    """Cluster -> its target, for the enabled sources of this driver.

    :raises ConfigError: naming the option that is wrong, or two sources that follow the same cluster: each would take
        for deleted what only the other one follows.
    """
    found: dict[str, ClusterTarget] = {}
    for name in conf.engine.enabled_sources:
        opts.register_source(conf, name, [])
        if conf[f"source_{name}"].driver != "kubernetes":
            continue
        opts.register_source(conf, name, KubernetesSource.options)
        target = read_target(name, conf)
        if (other := found.setdefault(target.cluster, target)) is not target:
            raise ConfigError(
                f"[source_{name}] cluster: {target.cluster} is the cluster of [source_{other.source}] already"
            )
    return found
