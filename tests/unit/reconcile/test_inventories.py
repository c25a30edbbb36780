# SPDX-License-Identifier: Apache-2.0
"""The readiness that follows from the inventories of the reconcilers."""

from __future__ import annotations

from tests.unit.reconcile.conftest import Hang, StandIn
from watcher_sync.exceptions import DatabaseUnavailable, ReconcileError
from watcher_sync.reconcile.scheduling import Inventories


class Counted(StandIn):
    """A reconciler with an inventory; ``problem`` is what it answers."""

    has_inventory = True

    def __init__(self, problem, *scopes):
        super().__init__(*scopes)
        self.problem = problem

    def inventory_problem(self):
        if isinstance(self.problem, Exception):
            raise self.problem
        return self.problem


def test_an_engine_is_not_ready_before_the_first_answer_nor_while_an_inventory_is_incomplete():
    reconciler = Counted("inventory incomplete of nova")
    inventories = Inventories([reconciler])
    assert inventories.not_ready()["inventory"]
    inventories.check(0.0)
    assert inventories.not_ready() == {"inventory": "inventory incomplete of nova"}
    reconciler.problem = ""
    inventories.check(0.5)
    assert inventories.not_ready()["inventory"]
    inventories.check(1.0)
    assert inventories.not_ready() == {"inventory": ""}


def test_a_database_that_is_away_leaves_an_inventory_unknown():
    reconciler = Counted(DatabaseUnavailable("away"))
    inventories = Inventories([reconciler])
    inventories.check(0.0)
    assert "away" in inventories.not_ready()["inventory"]


def test_reconcilers_without_an_inventory_have_no_check():
    inventories = Inventories([StandIn()])
    inventories.check(0.0)
    assert inventories.not_ready() == {}


def test_a_run_that_does_not_end_is_the_reason_of_an_incomplete_inventory(stepped, said):
    reconciler, hang = Counted("inventory incomplete of nova", "nova"), Hang()
    reconciler.ends["nova"] = hang
    runs = stepped(reconciler)
    runs.reconciliation._inventories.check(0.0)
    runs.begin_due(wait=False)
    runs.after(60, wait=False)
    why = "it has not ended within 60.0 s and is left behind"
    assert runs.reconciliation.not_ready() == {"inventory": f"inventory incomplete of nova: {why}"}
    assert f"The reconciliation of standin/nova fails: {why}" in said()
    hang.let_go()
    runs.join_runs()


def test_a_reason_that_an_inventory_has_is_not_repeated(stepped):
    reconciler = Counted("inventory incomplete of nova: Nova is away", "nova")
    reconciler.ends["nova"] = ReconcileError("Nova is away")
    runs = stepped(reconciler)
    runs.reconciliation._inventories.check(0.0)
    runs.begin_due()
    assert runs.reconciliation.not_ready() == {"inventory": "inventory incomplete of nova: Nova is away"}
