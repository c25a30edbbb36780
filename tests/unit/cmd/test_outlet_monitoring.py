# SPDX-License-Identifier: Apache-2.0
"""The HTTP server of a worker answers whether the worker is alive, and with its metrics."""

from __future__ import annotations

from falcon.testing import TestClient

from watcher_sync.cmd.outlet_services import make_monitoring
from watcher_sync.extensions.webhooks.deliveries import Attempt
from watcher_sync.extensions.webhooks.metrics import DeliveryStats, WebhookCollector


def test_health_follows_the_worker_and_another_path_names_those_that_there_are() -> None:
    alive = [True]
    client = TestClient(make_monitoring(WebhookCollector(DeliveryStats()), lambda: alive[0]))

    assert (client.simulate_get("/healthz").status_code, client.simulate_get("/healthz").json) == (200, {"alive": True})
    alive[0] = False
    result = client.simulate_get("/healthz")
    assert (result.status_code, result.json) == (503, {"alive": False})
    result = client.simulate_get("/other")
    assert (result.status_code, result.json) == (404, {"paths": ["/healthz", "/metrics"]})


def test_the_metrics_are_those_of_the_moment_of_the_scrape() -> None:
    stats = DeliveryStats()
    client = TestClient(make_monitoring(WebhookCollector(stats), lambda: True))
    assert 'attempts_total{result="delivered"}' not in client.simulate_get("/metrics").text

    stats.count(Attempt(code=204, detail="", seconds=0.1))
    stats.count(Attempt(code=500, detail="", seconds=0.1))
    stats.subscriptions, stats.queued = 7, 3
    lines = client.simulate_get("/metrics").text.splitlines()

    assert 'watcher_sync_webhook_attempts_total{result="delivered"} 1.0' in lines
    assert 'watcher_sync_webhook_attempts_total{result="failed"} 1.0' in lines
    assert "watcher_sync_webhook_subscriptions 7.0" in lines
    assert "watcher_sync_webhook_attempts_waiting 3.0" in lines
