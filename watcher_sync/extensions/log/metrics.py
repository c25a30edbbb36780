# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics of the process that publishes on logs. Any thread may collect them; nothing waits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

_PREFIX = "watcher_sync_log"


class OutletStats:
    """What one publisher did. Its thread writes it, any thread may read it."""

    def __init__(self, outlet: str) -> None:
        self.outlet = outlet
        self.is_publishing = False
        self.changes = 0
        self.snapshots = 0
        self.failures = 0
        self.omitted = 0
        self.seq = 0
        """The journal was read up to here; 0: not yet."""


class LogCollector(Collector):
    """The metrics of one process."""

    def __init__(self, stats: Sequence[OutletStats], head: Callable[[], int]) -> None:
        """:param stats: of its outlets.

        :param head: the seq of the last change of the journal, as far as the process knows it.
        """
        self._stats = stats
        self._head = head

    def describe(self) -> list[Metric]:
        """No metrics: registration must not collect before the publishers run."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        head = self._head()
        for name, text in (
            ("changes", "Changes and entities of snapshots that a log has taken."),
            ("snapshots", "Snapshots that a log has taken."),
            ("failures", "Attempts to publish that failed."),
            ("omitted", "Changes that a log has without their values, because they are larger than it takes."),
        ):
            counter = CounterMetricFamily(f"{_PREFIX}_{name}", text, labels=["outlet"])
            for one in self._stats:
                counter.add_metric([one.outlet], getattr(one, name))
            yield counter
        publishing = GaugeMetricFamily(
            f"{_PREFIX}_publishing", "Whether this process has the outlet's lease.", labels=["outlet"]
        )
        lag = GaugeMetricFamily(
            f"{_PREFIX}_lag_changes", "Rows of the journal that the log does not have yet.", labels=["outlet"]
        )
        for one in self._stats:
            publishing.add_metric([one.outlet], one.is_publishing)
            if one.is_publishing and one.seq:
                lag.add_metric([one.outlet], max(0, head - one.seq))
        yield publishing
        yield lag
