# SPDX-License-Identifier: Apache-2.0
"""The metrics show the results of each scope's runs."""

from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from tests.simulated import NOON
from tests.unit.engine.asking import figures
from tests.unit.reconcile.conftest import StandIn, report
from watcher_sync.exceptions import ReconcileError


class Collected:
    def __init__(self, reconciliation):
        self._reconciliation = reconciliation

    def describe(self):
        return []

    def collect(self):
        return self._reconciliation.collect()


@pytest.fixture
def shown():
    def read(steps):
        registry = CollectorRegistry()
        registry.register(Collected(steps.reconciliation))
        return figures(generate_latest(registry).decode())

    return read


EDGE = (("reconciler", "standin"), ("scope", "edge"))


def test_runs_are_counted_by_scope_and_outcome(stepped, shown, conf):
    conf.set_override("breaker_threshold", 2, group="reconcile")
    standin = StandIn("edge", "core")
    steps = stepped(standin)
    steps.begin_due()
    standin.ends["edge"] = ReconcileError("gone")
    for _ in range(3):
        steps.after(300)
    found = shown(steps)
    by_outcome = {
        (dict(labels)["scope"], dict(labels)["outcome"]): count
        for labels, count in found["watcher_sync_reconcile_runs_total"].items()
        if count
    }
    assert by_outcome == {("edge", "ok"): 1, ("edge", "failed"): 3, ("core", "ok"): 4}
    assert found["watcher_sync_reconcile_breaker_open"][EDGE] == 1
    assert found["watcher_sync_reconcile_last_success_timestamp_seconds"][EDGE] == NOON.timestamp()
    assert found["watcher_sync_reconcile_seconds_count"][EDGE] == 4


def test_what_the_brake_holds_back_is_shown_until_it_does_so_no_more(stepped, shown):
    standin = StandIn("edge")
    standin.ends["edge"] = report("edge", refused_deletes={"pod": 40, "workload": 2})
    steps = stepped(standin)
    steps.begin_due()
    assert shown(steps)["watcher_sync_reconcile_braked_deletions"] == {EDGE: 42}
    standin.ends.clear()
    steps.after(300)
    assert shown(steps)["watcher_sync_reconcile_braked_deletions"] == {EDGE: 0}


def test_a_scope_that_never_succeeded_has_no_time_of_success(stepped, shown):
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    steps.begin_due()
    assert shown(steps)["watcher_sync_reconcile_last_success_timestamp_seconds"] == {}


def test_entities_that_could_not_be_stored_are_counted_as_of_the_last_run(stepped, shown):
    standin = StandIn("edge")
    standin.ends["edge"] = report("edge", refused_writes={"compute_node a": "vcpus: -1", "compute_node b": "vcpus: -1"})
    steps = stepped(standin)
    steps.begin_due()
    assert shown(steps)["watcher_sync_reconcile_refused_writes"] == {EDGE: 2}
    standin.ends["edge"] = report("edge")
    steps.after(1000)
    assert shown(steps)["watcher_sync_reconcile_refused_writes"] == {EDGE: 0}
