# SPDX-License-Identifier: Apache-2.0
"""The metrics of the watch streams, the alert rules and the dashboard name the same things."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest

from watcher_sync.extensions.watch.hub import WatchStats
from watcher_sync.extensions.watch.metrics import WatchCollector

ETC = Path(__file__).parents[4] / "etc" / "watcher-sync"


@pytest.fixture
def shown():
    """The names of all series."""
    registry = CollectorRegistry()
    registry.register(WatchCollector(WatchStats(ended={"UNAVAILABLE": 1})))
    text = generate_latest(registry).decode()
    return set(re.findall(r"^(watcher_sync_watch_\w+)", text, re.M))


def used(expressions):
    return {name for each in expressions for name in re.findall(r"\bwatcher_sync_watch_\w+", each)}


def alerts():
    rules = yaml.safe_load((ETC / "prometheus-alerts.yaml").read_text())
    return used(rule["expr"] for group in rules["groups"] for rule in group["rules"])


def panels():
    dashboard = json.loads((ETC / "grafana-dashboard.json").read_text())
    return used(target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ()))


def test_the_alert_rules_and_the_dashboard_use_metrics_that_exist(shown):
    assert alerts()
    assert panels()
    assert (alerts() | panels()) - shown == set()


def test_the_dashboard_shows_every_metric(shown):
    assert shown - panels() == set()
