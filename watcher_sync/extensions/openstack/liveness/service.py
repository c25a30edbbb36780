# SPDX-License-Identifier: Apache-2.0
"""Checks at intervals, while the engine leads, which hosts are silent.

It reads the model's last-seen times, so it costs nothing on the path of events. It judges only hosts whose events
this engine has received since it leads: another engine may lead the sources of the others.

A host without work publishes nothing. Where Nova's API is configured, it is therefore asked before a silent host is
down: one request at most in ``silent_after`` seconds. What it reports decides. While it cannot be asked, no host is
down for its silence.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

from oslo_config import cfg
from oslo_log import log as logging
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from watcher_sync.exceptions import ReconcileError
from watcher_sync.extensions.openstack.cloud.client import OpenStackCloud
from watcher_sync.extensions.openstack.kinds import ComputeNode
from watcher_sync.extensions.openstack.liveness.rules import Sign, SilenceTracker, by_events
from watcher_sync.extensions.openstack.liveness.writer import LivenessWriter
from watcher_sync.extensions.openstack.reconcile.listing import NovaApi
from watcher_sync.model.changes import Upsert
from watcher_sync.model.model import Snapshot
from watcher_sync.periodic import Outage, PeriodicThread

LOG = logging.getLogger(__name__)

_TIMEOUT_SECONDS: Final = 10.0


class ServiceStates:
    """Asks Nova's API which compute services are up: one request a call. For one thread."""

    def __init__(self, cloud: OpenStackCloud) -> None:
        self._cloud = cloud

    def __call__(self) -> tuple[Mapping[str, bool], datetime.timedelta]:
        """Return host -> whether its nova-compute is up, without those that are forced down, and Nova's clock skew.

        :raises CloudError: the list cannot be read.
        """
        api = NovaApi(self._cloud.client(time.monotonic() + _TIMEOUT_SECONDS))
        states = {host: one.state == "up" for host, one in api.services().items() if not one.forced_down}
        return states, api.clock_skew


_MAX_INTERVAL_SECONDS: Final = 5.0
_MAX_GAP_SHARE: Final = 0.5
"""Part of ``silent_after`` that a pause of the whole source counts at most."""
_RETRY_SECONDS: Final = 60.0
_KIND: Final = "compute_node"
_SOURCE: Final = "liveness"


class LivenessService:
    """A :class:`~watcher_sync.engine.services.BackgroundService`."""

    title = "Liveness of hosts"

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        writer: LivenessWriter,
        snapshot: Callable[[], Snapshot],
        *,
        disconnected: Callable[[], Collection[str]] = tuple,
        ask: Callable[[], tuple[Mapping[str, bool], datetime.timedelta]] | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        """:param snapshot: the model as of now.

        :param disconnected: returns the names of the sources without a connection.
        :param ask: returns host -> whether Nova reports its compute service as up, without those that are forced
            down, or raises ReconcileError. It also returns how much Nova's clock is ahead of ours. None: Nova's API
            is not configured.
        """
        self._conf = conf
        self._writer = writer
        self._snapshot = snapshot
        self._disconnected = disconnected
        self._ask = ask
        self._next_question = 0.0
        self._is_refused = False
        self._clock = clock
        self._now = now
        self._tracker = SilenceTracker()
        self._outage = Outage(
            LOG, "The liveness of hosts cannot be checked or written", "The liveness of hosts is written again"
        )
        self._thread = self._new_thread()

    def start(self) -> None:
        """Begin to check; all hosts count as not silent."""
        self._tracker = SilenceTracker()
        self._thread = self._new_thread()
        self._thread.start()

    def begin_stop(self) -> None:
        """Begin no further check."""
        self._thread.begin_stop()

    def join(self, timeout: float) -> None:
        """Wait at most ``timeout`` seconds for the check in progress."""
        self._thread.stop(timeout)

    def collect(self) -> Iterable[Metric]:
        """The number of hosts in each state."""
        gauge = GaugeMetricFamily(
            "watcher_sync_compute_nodes", "Hosts in the model by state: up, down or unknown.", labels=["state"]
        )
        snapshot = self._snapshot()
        for state in ("up", "down", "unknown"):
            gauge.add_metric([state], len(snapshot.by(_KIND, "state", state)))
        yield gauge

    def report(self) -> Mapping[str, Any]:
        """The hosts that are down, and why."""
        down = (node for node in self._snapshot().by(_KIND, "state", "down") if isinstance(node, ComputeNode))
        return {
            "problem": self._outage.reason or "none",
            **{node.id: "forced down" if node.forced_down else node.liveness_reason for node in down},
        }

    def check(self) -> int:
        """Check all hosts once, and write the changes; returns how many hosts changed.

        :raises StorageError: the changes cannot be written now.
        """
        self._thread.seconds = self._interval()
        silent_after = float(self._conf.liveness.silent_after)
        snapshot = self._snapshot()
        nodes = [node for node in snapshot.all(_KIND) if isinstance(node, ComputeNode)]
        self._tracker.observe(
            self._clock(),
            [sign for node in nodes if (sign := _sign(snapshot, node)) is not None],
            max_gap=silent_after * _MAX_GAP_SHARE,
            disconnected=self._disconnected(),
        )
        self._tracker.retain({node.id for node in nodes})
        self._tracker.confirm(self._writer.take_confirmed())
        silent = {node.id for node in nodes if self._silence(node) >= silent_after} if silent_after else set()
        news = {node.id for node in nodes if node.id in silent and node.liveness != "down" and not node.gone}
        written = 0
        if news and self._ask is not None:
            written = self._ask_nova(news, snapshot)
            silent -= news
        at = self._now()

        def rule(node: ComputeNode) -> Upsert | None:
            is_silent = None if self._tracker.silence(node.id) is None else node.id in silent
            return by_events(node, at=at, last_heard=self._writer.last_heard(node), silent=is_silent)

        hosts = [node.id for node in nodes if not node.gone and rule(node) is not None]
        return written + (self._writer.write(hosts, rule, at=at, source=_SOURCE) if hosts else 0)

    def _silence(self, node: ComputeNode) -> float:
        """Seconds; -1 if this engine received no event of the host."""
        silence = self._tracker.silence(node.id)
        return -1.0 if silence is None else silence

    def _ask_nova(self, hosts: Collection[str], snapshot: Snapshot) -> int:
        """Ask Nova for the state of silent hosts, and write what it reports; returns how many hosts changed."""
        assert self._ask is not None
        if self._clock() < self._next_question:
            return 0
        at = self._now()
        try:
            states, skew = self._ask()
        except ReconcileError as exc:
            self._next_question = self._clock() + _RETRY_SECONDS
            if not self._is_refused:
                LOG.warning("Silent hosts cannot be checked, retrying: %s", exc)
            self._is_refused = True
            return 0
        if self._is_refused:
            LOG.info("Silent hosts can be checked again")
        self._is_refused = False
        at += skew  # the hosts' events have times of Nova's clock
        self._tracker.confirm([host for host, is_up in states.items() if is_up])
        reported = {host: states[host] for host in hosts if host in states}
        changed = self._writer.on_services(reported, snapshot, at=at, source=_SOURCE)
        unlisted = [host for host in hosts if host not in states]
        return len(changed) + self._writer.write(
            unlisted, lambda node: by_events(node, at=at, last_heard=None, silent=True), at=at, source=_SOURCE
        )

    def _new_thread(self) -> PeriodicThread:
        return PeriodicThread("liveness", self.check, self._interval(), self._outage, at_once=False)

    def _interval(self) -> float:
        silent_after = float(self._conf.liveness.silent_after)
        return min(_MAX_INTERVAL_SECONDS, silent_after / 10) if silent_after else _MAX_INTERVAL_SECONDS


def _sign(snapshot: Snapshot, node: ComputeNode) -> Sign | None:
    """The newest sign of life that this engine itself received."""
    source = snapshot.seen_by(_KIND, node.id)
    time_ = snapshot.last_seen(_KIND, node.id)
    return Sign(node.id, source, time_) if source is not None and time_ is not None else None
