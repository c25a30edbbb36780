# SPDX-License-Identifier: Apache-2.0
"""The driver ``kubernetes``: one source follows one cluster.

Each followed resource of each namespace has a reflector with a thread of its own.

Order: :attr:`Event.sequence` is (epoch, number). The source counts the numbers. The database counts the epoch at each
start, before the first event. No clock decides it.

Redelivery: the source emits uncommitted events again. After a restart, the first listing finds what was not committed,
and its ``listed`` events find what was deleted.

Stop: the source cuts the watches and does not wait for acks. A reflector that hangs in a request emits nothing more.

The contributor documentation lists the events.
"""

from __future__ import annotations

import datetime
import itertools
import threading
import time
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar, Final

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.conf import opts
from watcher_sync.conf.findings import NamedFile, is_remote_http, place
from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import NATIVE, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.kubernetes.source.connection import ApiError, KubernetesError, TimedOut
from watcher_sync.extensions.kubernetes.source.kubeconfig import KubeconfigError, find_paths, read_kubeconfig
from watcher_sync.extensions.kubernetes.source.monitor import ClusterMonitor
from watcher_sync.extensions.kubernetes.source.options import OPTIONS, ReflectorSettings
from watcher_sync.extensions.kubernetes.source.progress import Phase
from watcher_sync.extensions.kubernetes.source.reflector import Reflector
from watcher_sync.extensions.kubernetes.source.target import ClusterTarget, read_target
from watcher_sync.sources.base import Emit, Gaps, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.redelivery import Redelivery

LOG = logging.getLogger(__name__)

_STOP_TIMEOUT_SECONDS: Final = 2.0
"""How long a stop waits for a reflector that hangs in a request."""
_VERSION_TIMEOUT_SECONDS: Final = 2.0
_PROBE_TIMEOUT_SECONDS: Final = 4.0
_MAX_SYNC_AGE_SECONDS: Final = 300.0
"""The time of the last sync is reported at least as often while the cluster answers."""
_MAX_DETAIL_CHARS: Final = 1000
_GAP_INTERVAL_SECONDS: Final = 60.0
"""Between two reports that the cluster went back in time."""


class _ServerVersion(msgspec.Struct):
    git: str | None = msgspec.field(default=None, name="gitVersion")


class KubernetesSource(Source):
    """The driver ``kubernetes``."""

    envelopes: ClassVar[Collection[str]] = (NATIVE,)
    counts_epochs: ClassVar[bool] = True
    options: ClassVar[list[cfg.Opt]] = OPTIONS

    @classmethod
    def origin_of(cls, name: str, conf: cfg.ConfigOpts) -> str:
        """The cluster."""
        return str(conf[f"source_{name}"].cluster or name)

    @staticmethod
    def insecure_transports(conf: cfg.ConfigOpts, section: str) -> Iterator[str]:
        """Findings about the cluster in the kubeconfig."""
        group = conf[section]
        if group.in_cluster:
            return
        try:
            cluster = read_kubeconfig(group.kubeconfig, group.context).cluster
        except KubeconfigError:
            return  # the check of the sources reports it
        where = f"{place(conf, 'kubeconfig', section)}: {cluster.path}"
        if cluster.values.insecure_skip_tls_verify:
            yield (
                f"{where}: insecure-skip-tls-verify of {cluster.name!r} disables the verification of the API server; "
                "remove it, and set certificate-authority-data."
            )
        if is_remote_http(cluster.values.server or ""):
            yield f"{where}: the server of {cluster.name!r} has no TLS, so tokens are readable; use its https address."

    @staticmethod
    def named_files(conf: cfg.ConfigOpts, section: str) -> list[NamedFile]:
        """The kubeconfig files."""
        paths = [] if conf[section].in_cluster else find_paths(conf[section].kubeconfig)
        return [NamedFile(section, "kubeconfig", str(path)) for path in paths]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._target = read_target(name, conf)
        self.cluster = self._target.cluster
        self._connection = self._target.connect()
        self.reflectors = self._make_reflectors()
        self._epoch = int(cursor) if cursor is not None else 0  # without one, it never starts
        self._numbers = itertools.count(1)
        self._emit: Emit | None = None
        self._gaps = Gaps()
        self._redelivery = Redelivery(f"source-{name}-redelivery", self.emit)
        self._stopping = threading.Event()
        self._stopped = False
        # Guards the reported state and time; never held while emitting.
        self._lock = threading.Lock()
        self._reported_state: SourceState = SourceState.STARTING
        self._listed_at: datetime.datetime | None = None
        """End of the oldest of the last listings of all resources."""
        self._reported_sync: datetime.datetime | None = None
        self._reported_at = 0.0
        """When that was, by the monotonic clock."""
        self._reported_counts: dict[str, int] = {}
        self._reported_unlisted: dict[str, dict[str, str]] = {}
        self._next_gap_at = 0.0
        """By the monotonic clock."""
        self._monitor = ClusterMonitor(
            f"source-{name}-monitor",
            interval=self.group.probe_interval,
            last_byte_at=lambda: max(r.progress.last_byte_at for r in self.reflectors),
            probe=self._probe,
            changed=self.changed,
            recovered=self._cut_watches,
            refresh=self._refresh_sync,
        )

    # Called by the engine

    def start(self, emit: Emit) -> None:
        """Start the reflectors; returns at once."""
        self._emit = emit
        for reflector in self.reflectors:
            reflector.start()
        if self.reflectors:
            self._monitor.start()

    def ack(self, events: Sequence[Event]) -> None:
        """Do nothing: an API server has no acknowledgements."""

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Emit the events again after the delay, unchanged."""
        self._redelivery.add(events, delay)

    def stop(self, deadline: float) -> None:
        """Stop as the module describes."""
        self._stopping.set()
        self._redelivery.begin_stop()
        self._monitor.begin_stop()
        for reflector in self.reflectors:
            reflector.begin_stop()
        until = min(deadline, time.monotonic() + _STOP_TIMEOUT_SECONDS)
        hanging = [r.lister_watcher.name for r in self.reflectors if not r.join(until - time.monotonic())]
        if hanging:
            LOG.info("source %s: stopped while a request hangs: %s", self.name, ", ".join(hanging))
        self._redelivery.join(until - time.monotonic())
        self._monitor.join(until - time.monotonic())
        self._connection.close()
        self._stopped = True

    def status(self) -> SourceStatus:
        """Report the current state. The lag counts objects of running listings; it is unknown during a failure."""
        lags = [reflector.progress.lag for reflector in self.reflectors]
        times = (reflector.progress.last_event_at for reflector in self.reflectors)
        return SourceStatus(
            state=SourceState.STOPPED if self._stopped else self._state(),
            detail=self._detail(),
            lag=None if None in lags else sum(lag for lag in lags if lag is not None),
            last_event_at=max((at for at in times if at is not None), default=None),
            reconnects=sum(reflector.progress.resumptions for reflector in self.reflectors),
            gaps=self._gaps.total.count,
            last_gap_at=self._gaps.total.last_at,
        )

    def probe(self) -> None:
        """Request the version of the server."""
        try:
            self._target.connect().read("/version")
        except KubernetesError as exc:
            raise SourceError(str(exc)) from None

    def rewind_to_cursor(self) -> bool:
        """It always begins with a listing, which is the truth."""
        return True

    def cursor(self, events: Sequence[Event]) -> str | None:
        """Return the epoch if a listing is complete, in case the database has lost its count since."""
        return str(self._epoch) if any(event.type.endswith(".listed") for event in events) else None

    # Called by the reflectors

    @property
    def is_disconnected(self) -> bool:
        """Whether the reported state is that the cluster is disconnected."""
        return self._reported_state is SourceState.DISCONNECTED

    @property
    def has_synced(self) -> bool:
        """Whether each resource was listed completely at least once, or cannot be listed."""
        unlisted = self._unlisted()
        return bool(self.reflectors) and all(r.progress.has_synced or r.key in unlisted for r in self.reflectors)

    def emit(self, events: Sequence[Event]) -> None:
        """Hand events to the engine. :raises IntakeClosed: the engine takes no more, or the source stops."""
        if self._emit is None or self._stopping.is_set():
            raise IntakeClosed
        self._emit(events)

    def sequence(self) -> tuple[int, int]:
        """Return the next place in the order of the source, for all its threads."""
        return self._epoch, next(self._numbers)

    def leave(self, reflector: Reflector) -> None:
        """Follow the cluster without a reflector."""
        with self._lock:
            self.reflectors = [each for each in self.reflectors if each is not reflector]
        self.changed()

    def changed(self) -> None:
        """Emit an event for the cluster if its state changed, or what can be listed and was listed completely."""
        state = self._state()
        with self._lock:
            is_new_state = state is not self._reported_state and state is not SourceState.STARTING
            if is_new_state:
                self._reported_state = state
            times = (reflector.progress.synced_at for reflector in self.reflectors)
            synced_at = min((at for at in times if at is not None), default=None)
            is_new_sync = self.has_synced and (
                synced_at != self._listed_at or self._unlisted().keys() != self._reported_unlisted.keys()
            )
            if is_new_sync:
                self._listed_at, self._reported_unlisted = synced_at, self._unlisted()
                # A refresh may have reported a later time than that of the listings.
                synced_at = max((at for at in (synced_at, self._reported_sync) if at is not None), default=None)
        if is_new_state:
            self.log_state()
        if is_new_state and state is SourceState.CONNECTED:
            version = self._server_version()
            self._emit_cluster_event("connected", {"state": "connected", "detail": None, "version": version})
        elif is_new_state:
            self._emit_cluster_event("disconnected", {"state": "disconnected", "detail": self._detail()})
        if is_new_sync:
            self._emit_synced(synced_at)

    def lost_history(self, resource: str) -> None:
        """Tell that the cluster went back in time, once a minute at most: each resource finds it for itself."""
        with self._lock:
            if time.monotonic() < self._next_gap_at:
                return
            self._next_gap_at = time.monotonic() + _GAP_INTERVAL_SECONDS
        note = f"the resourceVersion of {resource} went back, as after a restore of etcd; everything is listed again"
        LOG.warning("source %s: %s", self.name, note)
        self._gaps.add(note)

    # Called by the monitor

    def _probe(self) -> str:
        """Ask the server for its version; why it does not answer, or an empty text. An error is an answer."""
        try:
            self._connection.read("/version", read_timeout=_PROBE_TIMEOUT_SECONDS)
        except ApiError:
            return ""
        except TimedOut as exc:
            return f"the API server does not answer: {exc}"
        except KubernetesError as exc:  # the words of a watch, so that the log has them once
            return str(exc)
        return ""

    def _cut_watches(self) -> None:
        for reflector in self.reflectors:
            reflector.lister_watcher.cut()

    def _refresh_sync(self) -> None:
        """Report the counts if they changed, and the time of the sync if it is old.

        The model has everything as long as each resource is watched and the server answers.
        """
        unlisted = self._unlisted()
        if self._monitor.problem or any(
            r.progress.phase is not Phase.WATCHING for r in self.reflectors if r.key not in unlisted
        ):
            return
        with self._lock:
            if self._reported_sync is None:
                return
            is_old = time.monotonic() - self._reported_at >= _MAX_SYNC_AGE_SECONDS
            if self._counts() == self._reported_counts and not is_old:
                return
        self._emit_synced(datetime.datetime.now(datetime.UTC))

    # Internal

    def _counts(self) -> dict[str, int]:
        """Kind -> objects that the cluster has."""
        counts: dict[str, int] = {}
        for reflector in self.reflectors:
            kind = reflector.lister_watcher.resource.title
            counts[kind] = counts.get(kind, 0) + reflector.objects.count
        return counts

    def _unlisted(self) -> dict[str, dict[str, str]]:
        """What fails for longer than a source may before it is stale: since when, and why."""
        stale_after = self.conf.monitoring.stale_after
        found: dict[str, dict[str, str]] = {}
        for reflector in self.reflectors:
            progress = reflector.progress
            since, reason = progress.failing_since, progress.error
            if self._monitor.problem:
                since, reason = self._monitor.problem_since, self._monitor.problem
            if since is not None and since.seconds > stale_after:
                found[reflector.key] = {"since": f"{since.time:%Y-%m-%dT%H:%M:%SZ}", "reason": reason}
        return found

    def _emit_synced(self, synced_at: datetime.datetime | None) -> None:
        with self._lock:
            self._reported_sync, self._reported_at, counts = synced_at, time.monotonic(), self._counts()
            self._reported_counts, unlisted = counts, self._reported_unlisted or None
        self._emit_cluster_event(
            "synced", {"has_synced": True, "last_sync_at": synced_at, "counts": counts, "unlisted": unlisted}
        )

    def _emit_cluster_event(self, what: str, data: dict[str, object]) -> None:
        epoch, number = sequence = self.sequence()
        event = Event(
            id=f"{self.cluster}/{epoch}.{number}",
            type=f"kubernetes.cluster.{what}",
            source=self.name,
            origin=self.cluster,
            subject=self.cluster,
            time=datetime.datetime.now(datetime.UTC),
            data=msgspec.json.encode(data),
            sequence=sequence,
        )
        self.emit([event])

    def _server_version(self) -> str | None:
        try:
            body = self._connection.read("/version", read_timeout=_VERSION_TIMEOUT_SECONDS)
            return msgspec.json.decode(body, type=_ServerVersion).git
        except (KubernetesError, *UNDECODABLE) as exc:
            LOG.debug("source %s: the version of the server is unknown: %s", self.name, exc)
            return None

    def _state(self) -> SourceState:
        if not self.reflectors:
            return SourceState.CONNECTED  # only reconciliation reads the cluster
        if self._monitor.problem:
            return SourceState.DISCONNECTED
        phases = [reflector.progress.phase for reflector in self.reflectors]
        if any(phase is Phase.WATCHING for phase in phases):
            return SourceState.CONNECTED
        if all(phase is Phase.FAILING for phase in phases):
            return SourceState.DISCONNECTED
        return self._reported_state

    def _detail(self) -> str:
        """Describe in one line which resources fail, and why."""
        if not self.reflectors:
            return "not watched, only reconciled"
        if problem := self._monitor.problem:
            return problem
        errors: dict[str, list[str]] = {}
        for reflector in self.reflectors:
            if reflector.progress.phase is Phase.FAILING:
                errors.setdefault(reflector.progress.error, []).append(reflector.lister_watcher.name)
        if any(len(names) == len(self.reflectors) for names in errors.values()):
            return next(iter(errors))
        return "; ".join(f"{', '.join(names)}: {error}" for error, names in errors.items())[:_MAX_DETAIL_CHARS]

    # Construction

    def _make_reflectors(self) -> Sequence[Reflector]:
        group = self.group
        settings = ReflectorSettings(
            source=self.name,
            cluster=self.cluster,
            label_selector=group.label_selector,
            page_size=group.page_size,
            watch_list=group.watch_list,
            watch_list_timeout=group.watch_list_timeout,
            watch_timeout=group.watch_timeout,
            backoff_max=group.backoff_max,
        )
        listed = self._target.listed() if group.watch else []
        first = {resource.title: namespace for resource, namespace in reversed(listed)}
        return [
            Reflector(
                resource, namespace, self._connection, settings, self, is_first=namespace == first[resource.title]
            )
            for resource, namespace in listed
        ]


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
