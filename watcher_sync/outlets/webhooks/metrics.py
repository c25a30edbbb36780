# SPDX-License-Identifier: Apache-2.0
"""The Prometheus metrics of one worker. Any thread may collect them; nothing waits for the database."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import msgspec
from prometheus_client import make_wsgi_app
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from watcher_sync.outlets.webhooks.parts import Stats

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

_PREFIX = "watcher_sync_webhook"


class _Collector(Collector):
    def __init__(self, stats: Stats) -> None:
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


def make_application(stats: Stats, is_alive: Callable[[], bool]) -> WSGIApplication:
    """``/healthz`` and ``/metrics`` of one worker, as a WSGI application.

    :param is_alive: whether the worker's threads run.
    """
    registry = CollectorRegistry()
    registry.register(_Collector(stats))
    scrape = make_wsgi_app(registry)

    def application(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path == "/metrics":
            return scrape(environ, start_response)  # type: ignore[no-any-return]
        document: dict[str, Any]
        if path != "/healthz":
            status, document = "404 Not Found", {"paths": ["/healthz", "/metrics"]}
        else:
            alive = is_alive()
            status, document = "200 OK" if alive else "503 Service Unavailable", {"alive": alive}
        body = msgspec.json.encode(document) + b"\n"
        start_response(status, [("Content-Type", "application/json"), ("Content-Length", str(len(body)))])
        return [body]

    return application
