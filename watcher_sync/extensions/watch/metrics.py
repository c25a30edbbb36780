# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics of the watch streams. Any thread may collect them; nothing waits for the database."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from watcher_sync.extensions.watch.hub import WatchStats

_PREFIX = "watcher_sync_watch"


class WatchCollector(Collector):
    """The metrics of one process."""

    def __init__(self, stats: WatchStats) -> None:
        self._stats = stats

    def describe(self) -> list[Metric]:
        """No metrics: registration must not collect before the worker runs."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        stats = self._stats
        for name, text, value in (
            ("streams", "Open streams.", stats.streams),
            ("streams_subscribed", "Open streams with a topic.", stats.subscribed),
            ("position", "The sequence up to which all changes were handed on.", stats.position),
            ("lag_seconds", "Seconds between the last change and its hand-over.", stats.lag_seconds),
        ):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value)
        for name, text, count in (
            ("events", "Events that were put into the queues of streams.", stats.events),
            ("pings", "Pings that were put into the queues of streams.", stats.pings),
            ("queue_overflows", "Streams that ended because their client read too slowly.", stats.overflows),
        ):
            yield CounterMetricFamily(f"{_PREFIX}_{name}", text, count)
        ended = CounterMetricFamily(f"{_PREFIX}_streams_ended", "Streams that ended, by status.", labels=["status"])
        for status, count in sorted(dict(stats.ended).items()):
            ended.add_metric([status], count)
        yield ended
