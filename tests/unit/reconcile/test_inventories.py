# SPDX-License-Identifier: Apache-2.0
"""The readiness that follows from the inventories of the reconcilers."""

from __future__ import annotations

from tests.unit.reconcile.conftest import StandIn
from watcher_sync.exceptions import DatabaseUnavailable
from watcher_sync.reconcile.scheduling import Inventories


class Counted(StandIn):
    """A reconciler with an inventory; ``problem`` is what it answers."""

    has_inventory = True

    def __init__(self, problem):
        super().__init__()
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
