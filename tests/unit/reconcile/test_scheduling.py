# SPDX-License-Identifier: Apache-2.0
"""The periodic work in real time: scopes do not wait for each other, and it starts and stops with the engine."""

from __future__ import annotations

import itertools

import pytest

from tests.unit.engine.conftest import until
from tests.unit.reconcile.conftest import Hang, StandIn, report
from tests.waiting import deadline
from watcher_sync.reconcile.scheduling import Reconciliation

pytestmark = pytest.mark.slow


@pytest.fixture
def started(conf):
    conf.set_override("jitter", 0.0, group="reconcile")
    begun = []

    def start(*reconcilers):
        begun.append(Reconciliation(conf, reconcilers))
        begun[-1].start()
        return begun[-1]

    yield start
    for one in begun:
        one.begin_stop()
        one.join(deadline(60))


def test_one_dead_scope_of_ten_costs_the_others_nothing(started, conf):
    interval = 3.0
    conf.set_override("interval", interval, group="reconcile")
    conf.set_override("timeout", 0.5, group="reconcile")
    quick = [f"cluster-{n}" for n in range(9)]
    standin, hang = StandIn("dead", *quick), Hang()
    standin.ends["dead"] = hang
    reconciliation = started(standin)
    try:
        assert until(lambda: all(standin.times(scope) >= 3 for scope in quick))
        for scope in quick:
            begun = [at for one, at in standin.begun if one == scope]
            gaps = [later - earlier for earlier, later in itertools.pairwise(begun)]
            assert max(gaps) < interval + 25, gaps  # a pause of the machine is shorter
        (dead,) = (state for state in reconciliation.states() if state.scope == "dead")
        assert (standin.times("dead"), dead.running, dead.failures) == (1, True, 1)
    finally:
        hang.let_go()


def test_a_stop_waits_shortly_for_what_goes_on_and_a_new_start_goes_on(started):
    standin, hang = StandIn("edge"), Hang(report("edge"))
    standin.ends["edge"] = hang
    reconciliation = started(standin)
    assert hang.asked.wait(deadline(60))
    reconciliation.begin_stop()
    reconciliation.join(0.2)
    assert reconciliation.run_now() == []
    hang.let_go()
    assert until(lambda: not reconciliation.states()[0].running)
    standin.ends.clear()
    reconciliation.start()
    assert until(lambda: standin.times("edge") == 2)


def test_a_run_that_ends_in_time_is_waited_for(started):
    standin, hang = StandIn("edge"), Hang(report("edge"))
    standin.ends["edge"] = hang
    reconciliation = started(standin)
    assert hang.asked.wait(deadline(60))
    reconciliation.begin_stop()
    hang.let_go()
    reconciliation.join(deadline(60))
    assert reconciliation.states()[0].last_ok is not None
