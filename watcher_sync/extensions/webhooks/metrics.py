# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics of one worker. Any thread may collect them; nothing waits for the database."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from watcher_sync.extensions.webhooks.deliveries import Attempt

_PREFIX = "watcher_sync_webhook"


class DeliveryStats:
    """What a worker did, for metrics. Any thread may read it."""

    def __init__(self) -> None:
        self.subscriptions = 0
        self.attempts: dict[str, int] = {}
        """delivered, failed and not_sent -> attempts."""
        self.planned = 0
        self.shards = 0
        self.running = 0
        self.queued = 0
        self.lag_seconds = 0.0
        """How long the oldest change waits for its delivery, as of the last checkpoint."""

    def count(self, attempt: Attempt) -> None:
        """Count an attempt."""
        result = "not_sent" if attempt.not_sent else "delivered" if attempt.ok else "failed"
        self.attempts[result] = self.attempts.get(result, 0) + 1


class WebhookCollector(Collector):
    """The metrics of one worker."""

    def __init__(self, stats: DeliveryStats) -> None:
        self._stats = stats

    def describe(self) -> list[Metric]:
        """No metrics: registration must not collect before the worker runs."""
        return []

    def collect(self) -> Iterator[Metric]:
        """The metrics of this moment."""
        stats = self._stats
        attempts = CounterMetricFamily(
            f"{_PREFIX}_attempts", "Attempts to deliver, by their result.", labels=["result"]
        )
        for result, count in sorted(dict(stats.attempts).items()):
            attempts.add_metric([result], count)
        yield attempts
        yield CounterMetricFamily(f"{_PREFIX}_deliveries", "Deliveries that were planned.", stats.planned)
        for name, text, value in (
            ("subscriptions", "Subscriptions of this worker.", stats.subscriptions),
            ("shards", "Shards of this worker, of 32.", stats.shards),
            ("attempts_running", "Attempts under way.", stats.running),
            ("attempts_waiting", "Deliveries that wait for their host.", stats.queued),
            ("lag_seconds", "Seconds that the oldest change waits for its delivery.", stats.lag_seconds),
        ):
            yield GaugeMetricFamily(f"{_PREFIX}_{name}", text, value)
