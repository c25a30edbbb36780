# SPDX-License-Identifier: Apache-2.0
"""When a scope is compared: soon, then at the interval, at once when asked, and never twice at a time."""

from __future__ import annotations

import datetime

from tests.simulated import NOON
from tests.unit.reconcile.conftest import Hang, StandIn, report
from tests.waiting import deadline


def test_the_first_run_comes_within_seconds_and_the_next_after_the_interval_and_its_jitter(stepped):
    standin = StandIn("edge")
    steps = stepped(standin, share=lambda: 0.5)
    steps.begin_due()
    assert standin.times("edge") == 0
    steps.after(5)
    assert standin.times("edge") == 1
    steps.after(314)
    assert standin.times("edge") == 1
    steps.after(1)  # 300 s and half of a tenth of it
    assert standin.times("edge") == 2


def test_the_interval_is_read_again_each_time(stepped, conf):
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    steps.after(20)
    assert standin.times("edge") == 1
    conf.set_override("interval", 20, group="reconcile")
    steps.begin_due()
    assert standin.times("edge") == 2


def test_a_reload_of_the_configuration_counts_at_once(stepped, conf, tmp_path):
    file = tmp_path / "watcher-sync.conf"
    file.write_text("[reconcile]\ninterval = 300\n")
    conf(["--config-file", str(file)], default_config_files=[], default_config_dirs=[])
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    steps.after(20)
    file.write_text("[reconcile]\ninterval = 15\n")
    conf.mutate_config_files()
    steps.begin_due()
    assert standin.times("edge") == 2


def test_the_run_is_given_its_deadline(stepped, conf, clock):
    conf.set_override("timeout", 7, group="reconcile")
    standin = StandIn("edge")
    stepped(standin).begin_due()
    assert standin.deadlines == [clock.seconds + 7]


def test_a_run_that_goes_on_when_the_next_is_due_is_not_begun_twice(stepped, conf):
    conf.set_override("timeout", 1000, group="reconcile")
    standin, hang = StandIn("edge"), Hang(report("edge"))
    standin.ends["edge"] = hang
    steps = stepped(standin)
    steps.begin_due(wait=False)
    steps.after(301, wait=False)
    steps.after(1, wait=False)
    assert hang.asked.wait(deadline(60))
    assert standin.times("edge") == 1
    assert steps.runs() == {"skipped": 1}
    assert steps.state().running
    hang.let_go()
    steps.join_runs()
    assert steps.runs() == {"skipped": 1, "ok": 1}
    steps.after(298)
    assert standin.times("edge") == 1
    steps.after(1)
    assert standin.times("edge") == 2


def test_what_is_asked_for_begins_at_once_and_after_a_run_that_goes_on_once_more(stepped):
    standin, hang = StandIn("edge", "core"), Hang(report("edge"))
    standin.ends["edge"] = hang
    steps = stepped(standin)
    steps.begin_due(wait=False)
    assert steps.reconciliation.run_now("edge") == ["standin/edge"]
    assert hang.asked.wait(deadline(60))
    assert standin.times("edge") == 1
    hang.let_go()
    steps.join_runs()
    steps.begin_due()
    steps.begin_due()
    assert (standin.times("edge"), standin.times("core")) == (2, 1)
    assert steps.reconciliation.run_now() == ["standin/edge", "standin/core"]
    steps.join_runs()
    assert (standin.times("edge"), standin.times("core")) == (3, 2)


def test_a_new_scope_is_reconciled_and_one_that_is_gone_is_forgotten(stepped):
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    standin.named = ["core"]
    steps.begin_due()
    assert [state.scope for state in steps.reconciliation.states()] == ["core"]
    assert standin.times("core") == 1


def test_the_state_tells_when_the_scope_was_compared_last(stepped, clock):
    standin = StandIn("edge")
    steps = stepped(standin)
    steps.begin_due()
    first = clock.now()
    standin.ends["edge"] = ValueError("no")
    steps.after(300)
    state = steps.state()
    assert (state.last_started, state.last_finished, state.last_ok) == (clock.now(), clock.now(), first)
    assert (state.failures, state.problem, state.running) == (1, "ValueError: no", False)


def test_a_reconciler_may_have_an_interval_and_a_timeout_of_its_own(stepped, clock):
    standin = StandIn("edge", "core")
    standin.interval = lambda scope: 20 if scope == "edge" else None
    standin.timeout = lambda scope: 7 if scope == "edge" else None
    steps = stepped(standin)
    steps.begin_due()
    assert sorted(standin.deadlines) == [clock.seconds + 7, clock.seconds + 60]
    steps.after(20)
    assert (standin.times("edge"), standin.times("core")) == (2, 1)


def test_a_reconciler_may_want_a_run_before_the_interval_is_over(stepped):
    standin = StandIn("edge", "core")
    steps = stepped(standin)
    steps.begin_due()
    standin.wants_run = lambda scope: scope == "edge"
    steps.after(1)
    standin.wants_run = lambda scope: False
    steps.after(1)
    assert (standin.times("edge"), standin.times("core")) == (2, 1)


def test_every_scope_runs_once_for_each_gap_of_a_source(stepped, said):
    standin, gaps = StandIn("edge", "core"), {}
    steps = stepped(standin, last_gaps=lambda: gaps)
    steps.begin_due()
    steps.after(20)
    assert (standin.times("edge"), standin.times("core")) == (1, 1)
    for runs, at in [(2, NOON), (3, NOON + datetime.timedelta(seconds=1))]:
        gaps["nova"] = at
        for _ in range(3):
            steps.reconciliation.run_after_gaps()
            steps.join_runs()
        assert (standin.times("edge"), standin.times("core")) == (runs, runs)
    lines = [line for line in said() if "are lost" in line]
    assert lines == ["Events of the sources nova are lost: all scopes are reconciled now"] * 2
