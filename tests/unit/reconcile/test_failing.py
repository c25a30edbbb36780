# SPDX-License-Identifier: Apache-2.0
"""A scope that fails affects no other. It is counted, logged once, paused for longer and longer, and resumed."""

from __future__ import annotations

import math

import pytest

from tests.unit.reconcile.conftest import Hang, StandIn, report
from watcher_sync.exceptions import DatabaseUnavailable, ReconcileError

FAILS = "The reconciliation of standin/edge fails: "


@pytest.mark.parametrize(
    "raised", [ReconcileError("the cluster does not answer"), ZeroDivisionError("a bug"), SystemExit(1), MemoryError()]
)
def test_any_exception_is_survived_and_the_next_run_comes_when_it_is_due(stepped, raised):
    standin = StandIn("edge")
    standin.ends["edge"] = raised
    steps = stepped(standin)
    steps.begin_due()
    assert (steps.runs(), steps.state().failures) == ({"failed": 1}, 1)
    standin.ends.clear()
    steps.after(300)
    assert (steps.runs(), steps.state().failures) == ({"failed": 1, "ok": 1}, 0)


def test_what_is_not_a_report_is_a_failure(stepped):
    standin = StandIn("edge")
    standin.ends["edge"] = lambda: "all well"
    steps = stepped(standin)
    steps.begin_due()
    assert steps.state().problem == "TypeError: 'all well' is not a report"


def test_a_bug_is_logged_once_with_its_traceback_and_its_end_is_logged(stepped, said, caplog):
    standin = StandIn("edge")
    standin.ends["edge"] = ZeroDivisionError("a bug")
    steps = stepped(standin)
    steps.begin_due()
    steps.after(300)
    assert said() == [f"{FAILS}ZeroDivisionError: a bug"]
    assert "Traceback" in caplog.text
    standin.ends.clear()
    steps.after(300)
    steps.after(300)
    assert said()[1:] == ["The reconciliation of standin/edge works again"]


@pytest.mark.parametrize(
    ("raised", "why"),
    [
        (ReconcileError("the cluster does not answer"), "the cluster does not answer"),
        (DatabaseUnavailable("connection refused"), "the database is unavailable: connection refused"),
    ],
)
def test_an_expected_failure_is_logged_without_a_traceback(stepped, said, caplog, raised, why):
    standin = StandIn("edge")
    standin.ends["edge"] = raised
    stepped(standin).begin_due()
    assert said() == [f"{FAILS}{why}"]
    assert "Traceback" not in caplog.text


def test_only_a_run_that_changed_something_is_logged(stepped, said):
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    standin.ends["edge"] = report("edge", written=3, deleted=1, seconds=0.5, requests=5)
    steps.after(300)
    assert said() == ["Reconciled standin/edge: 3 entities written, 1 deleted, in 0.50 s with 5 requests"]


def test_a_run_past_its_time_is_a_failure_once_and_its_scope_stays_busy_until_it_ends(stepped, said):
    standin, hang = StandIn("edge"), Hang(report("edge", written=1))
    standin.ends["edge"] = hang
    steps = stepped(standin)
    steps.begin_due(wait=False)
    steps.after(59, wait=False)
    assert steps.runs() == {}
    steps.after(1, wait=False)
    steps.after(1, wait=False)
    assert (steps.runs(), steps.state().failures, steps.state().running) == ({"failed": 1}, 1, True)
    assert said() == [f"{FAILS}it has not ended within 60.0 s and is left behind"]
    hang.let_go()
    steps.join_runs()
    assert (steps.runs(), steps.state().failures, steps.state().running) == ({"failed": 1}, 1, False)
    standin.ends.clear()
    steps.after(300)
    assert steps.state().failures == 0


def pauses(steps, scope="edge", number=8):
    """Seconds until each of the next runs begins; all scopes run at once first."""
    found = []
    for _ in range(number):
        seen, seconds = steps.reconciler.times(scope), 0
        while steps.reconciler.times(scope) == seen:
            steps.after(1)
            seconds += 1
        found.append(seconds)
    return found


AWAY = [ReconcileError("the cluster does not answer"), DatabaseUnavailable("connection refused")]
PART = [report("edge", complete=False, failures={"daemonsets": "503"}), ZeroDivisionError("a bug")]


@pytest.mark.parametrize("end", AWAY, ids=lambda e: type(e).__name__)
def test_a_run_that_failed_is_repeated_soon_and_at_least_once_a_minute(stepped, conf, end):
    conf.set_override("interval", 3600, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = end
    steps = stepped(standin)
    steps.begin_due()
    assert pauses(steps) == [5, 10, 20, 40, 60, 60, 60, 60]
    standin.ends.clear()
    assert pauses(steps, number=2) == [60, 3600]


@pytest.mark.parametrize("end", PART, ids=lambda e: type(e).__name__)
def test_a_run_that_may_have_listed_everything_is_repeated_less_and_less_often(stepped, conf, end):
    conf.set_override("interval", 300, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = end
    steps = stepped(standin)
    steps.begin_due()
    assert pauses(steps) == [5, 10, 20, 40, 80, 160, 300, 300]
    standin.ends.clear()
    assert pauses(steps, number=2) == [300, 300]
    standin.ends["edge"] = end
    assert pauses(steps, number=2) == [300, 5]


def test_an_incomplete_run_after_an_outage_is_repeated_as_soon_as_the_outage_would_be(stepped, conf):
    conf.set_override("interval", 3600, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    steps.begin_due()
    pauses(steps, number=20)
    standin.ends["edge"] = PART[0]
    assert pauses(steps, number=3) == [60, 120, 240]


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_the_pauses_have_jitter(stepped, share):
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin, share=lambda: share)
    while not standin.begun:
        steps.after(1)
    assert pauses(steps, number=5) == [math.ceil(pause * (1 - share / 2)) for pause in (5, 10, 20, 40, 60)]


def test_a_run_past_its_time_is_repeated_soon_after_its_end(stepped, conf):
    conf.set_override("interval", 3600, group="reconcile")
    standin, hang = StandIn("edge"), Hang(report("edge"))
    standin.ends["edge"] = hang
    steps = stepped(standin)
    steps.begin_due(wait=False)
    steps.after(600, wait=False)
    hang.let_go()
    steps.join_runs()
    standin.ends.clear()
    assert pauses(steps, number=2) == [5, 3600]


def test_what_depends_on_a_scope_runs_again_when_that_is_complete(stepped, conf):
    conf.set_override("interval", 3600, group="reconcile")
    hosts, capacity = StandIn("nova"), StandIn("edge", "gone")
    hosts.name = "hosts"
    hosts.ends["nova"] = ReconcileError("gone")
    capacity.ends = {"edge": PART[0], "gone": ReconcileError("gone")}
    steps = stepped(hosts, capacity)
    for seconds in (0, 5, 10, 20, 40, 60, 60):
        steps.after(seconds)
    hosts.ends.clear()
    seen = capacity.times("edge"), capacity.times("gone")
    assert steps.reconciliation.run_now("nova") == ["hosts/nova"]
    steps.join_runs()
    steps.begin_due()
    assert (capacity.times("edge"), capacity.times("gone")) == (seen[0] + 1, seen[1])
    assert steps.reconciliation.run_now("nova") == ["hosts/nova"]  # it stays complete
    steps.join_runs()
    steps.begin_due()
    assert capacity.times("edge") == seen[0] + 1


def test_an_open_breaker_delays_a_scope_whose_interval_is_shorter(stepped, conf, said, clock):
    conf.set_override("interval", 10, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    steps.begin_due()
    assert pauses(steps, number=2) == [5, 10]
    assert (steps.state().open_until - clock.now()).total_seconds() == 20
    assert pauses(steps, number=3) == [20, 40, 60]
    standin.ends.clear()
    assert pauses(steps, number=2) == [60, 10]
    assert (steps.state().open_until, steps.state().failures) == (None, 0)
    assert steps.runs() == {"failed": 6, "ok": 2}
    assert said() == [
        f"{FAILS}gone",
        "The reconciliation of standin/edge failed 3 times in a row: retrying with pauses of up to 60 s",
        "The reconciliation of standin/edge works again",
    ]


def test_what_is_asked_for_is_attempted_while_the_breaker_is_open(stepped, conf):
    conf.set_override("breaker_threshold", 1, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    steps.begin_due()
    assert steps.state().open_until is not None
    standin.ends.clear()
    steps.reconciliation.run_now("edge")
    steps.join_runs()
    assert (steps.runs(), steps.state().open_until) == ({"failed": 1, "ok": 1}, None)


def test_a_partial_comparison_is_no_failure_but_no_success_either_and_is_said_once(stepped, said):
    standin = StandIn("edge")
    standin.ends["edge"] = report("edge", complete=False, failures={"daemonsets": "403 Forbidden"})
    steps = stepped(standin)
    steps.begin_due()
    steps.after(300)
    state = steps.state()
    assert (steps.runs(), state.failures, state.last_ok) == ({"partial": 2}, 0, None)
    assert state.problem == "daemonsets: 403 Forbidden"
    standin.ends.clear()
    steps.after(300)
    assert said() == [
        "The reconciliation of standin/edge is incomplete: daemonsets: 403 Forbidden",
        "The reconciliation of standin/edge is complete again",
    ]


def test_the_delete_guard_logs_each_change_of_what_it_refuses(stepped, said):
    standin = StandIn("edge")
    standin.ends["edge"] = report("edge", refused_deletes={"pod": 40}, sizes={"pod": 100})
    steps = stepped(standin)
    steps.begin_due()
    steps.after(300)
    standin.ends["edge"] = report("edge", refused_deletes={"pod": 41}, sizes={"pod": 100})
    steps.after(300)
    standin.ends.clear()
    steps.after(300)
    steps.after(300)
    assert said() == [
        f"The delete guard refuses deletions in standin/edge: {count} of 100 pod, more than [reconcile] "
        "max_delete_percent. watcher-sync-manage reconcile --allow-deletes edge confirms them"
        for count in (40, 41)
    ] + ["The delete guard refuses no deletion in standin/edge any more"]


def test_a_reconciler_that_cannot_name_its_scopes_keeps_those_that_it_had(stepped, said, caplog):
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    standin.named = ZeroDivisionError("a bug")
    steps.after(300)
    steps.after(300)
    assert standin.times("edge") == 3
    assert said() == ["The reconciler standin cannot name its scopes: a bug"]
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("raised", [SystemExit(1), GeneratorExit()], ids=lambda e: type(e).__name__)
def test_a_reconciler_that_exits_when_asked_for_its_scopes_stops_no_other(stepped, raised):
    leaving, standin = StandIn(), StandIn("edge")
    leaving.name = "leaving"
    leaving.named = raised
    steps = stepped(leaving, standin)
    steps.begin_due()
    assert standin.times("edge") == 1


def test_scopes_that_the_database_does_not_name_are_logged_without_a_traceback(stepped, said, caplog):
    standin = StandIn("edge")
    standin.named = DatabaseUnavailable("connection refused")
    steps = stepped(standin)
    steps.begin_due()
    steps.after(300)
    assert said() == ["The reconciler standin cannot name its scopes: connection refused"]
    assert "Traceback" not in caplog.text


def test_the_report_says_of_each_scope_what_is_wrong_with_it(stepped, conf):
    conf.set_override("breaker_threshold", 1, group="reconcile")
    standin = StandIn("edge", "core")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    steps.begin_due()
    assert steps.reconciliation.report() == {
        "standin/edge": {
            "running": False,
            "last started": "2026-01-01T12:00:00+00:00",
            "last ended": "2026-01-01T12:00:00+00:00",
            "last success": "never",
            "failures in a row": 1,
            "problem": "gone",
            "left alone until": "2026-01-01T12:00:05+00:00",
        },
        "standin/core": {
            "running": False,
            "last started": "2026-01-01T12:00:00+00:00",
            "last ended": "2026-01-01T12:00:00+00:00",
            "last success": "2026-01-01T12:00:00+00:00",
            "failures in a row": 0,
            "problem": "none",
            "left alone until": "not at all",
        },
    }
