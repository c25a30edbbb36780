# SPDX-License-Identifier: Apache-2.0
"""A scope that fails affects no other. It is counted, logged once, paused for longer and longer, and resumed."""

from __future__ import annotations

import pytest

from tests.unit.reconcile.conftest import Hang, StandIn, report
from watcher_sync.exceptions import DatabaseUnavailable, ReconcileError
from watcher_sync.reconcile.scope import Breaker

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


def test_the_breaker_opens_doubles_and_closes(stepped, conf, said, clock):
    conf.set_override("interval", 10, group="reconcile")
    standin = StandIn("edge")
    standin.ends["edge"] = ReconcileError("gone")
    steps = stepped(standin)
    for _ in range(3):
        steps.after(10)
    assert (steps.state().open_until - clock.now()).total_seconds() == 60
    steps.after(59)
    steps.begin_due()
    assert (standin.times("edge"), steps.runs()) == (3, {"failed": 3, "skipped": 1})
    steps.after(1)  # one attempt, which fails: twice as long
    assert standin.times("edge") == 4
    assert (steps.state().open_until - clock.now()).total_seconds() == 120
    steps.after(119)
    assert standin.times("edge") == 4
    standin.ends.clear()
    steps.after(1)
    assert (steps.state().open_until, steps.state().failures) == (None, 0)
    steps.after(10)
    assert standin.times("edge") == 6
    assert said() == [
        f"{FAILS}gone",
        "The reconciliation of standin/edge failed 3 times in a row: it is left alone for 60 s, and for longer with "
        "each further failure",
        "The reconciliation of standin/edge works again",
    ]


def test_the_breaker_opens_for_an_hour_at_most_and_begins_small_after_a_success():
    breaker = Breaker()
    opened = [breaker.failed(0.0, threshold=3, seconds=60) for _ in range(2000)]
    assert opened[:5] == [None, None, 60, 120, 240]
    assert opened[-1] == 3600
    breaker.succeeded()
    assert [breaker.failed(0.0, threshold=3, seconds=60) for _ in range(3)] == [None, None, 60]


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
            "left alone until": "2026-01-01T12:01:00+00:00",
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
