# SPDX-License-Identifier: Apache-2.0
"""Life-cycle managers keep to their leases, and count what was refused."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.waiting import wait_until
from watcher_sync.client import Conflict, OperationLost, Unavailable
from watcher_sync.demo.live_managers import LiveManagers
from watcher_sync.demo.network_functions import FUNCTIONS, Function


class Leases:
    """The API's side: of all who ask for one instance, one has it."""

    def __init__(self) -> None:
        self.lock = threading.Condition()
        self.held: dict[str, str] = {}
        self.taken = 0
        self.problem: Exception | None = None

    @contextlib.contextmanager
    def operation(self, vnf_id: str, operation: str, holder: str) -> Iterator[Any]:
        with self.lock:
            if self.problem is not None:
                raise self.problem
            if vnf_id in self.held:
                raise Conflict(409, f"{self.held[vnf_id]} holds it")
            self.held[vnf_id] = holder
            self.taken += 1
        try:
            yield self
        finally:
            with self.lock:
                del self.held[vnf_id]

    def require_held(self) -> None:
        """It is."""


class InFlight:
    """Does nothing, and notes for whom and under whose lease."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.done: list[tuple[str, str, int]] = []

    def scale(self, function: Function, aspect: str, level: int) -> None:
        assert function.id in self.leases.held
        assert 0 <= level <= function.aspects[aspect]["max_scale_level"]
        self.done.append((function.name, aspect, level))

    def heal(self, function: Function) -> bool:
        assert function.id in self.leases.held
        return False


def managers(leases: Leases, functions: tuple[Function, ...] = FUNCTIONS) -> LiveManagers:
    return LiveManagers(lambda: leases, functions, InFlight(leases), work=(0.01, 0.02), pause=(0.001, 0.01))  # type: ignore[arg-type, return-value]


def test_of_two_who_want_the_same_instance_one_is_refused_and_counted() -> None:
    leases = Leases()
    found = managers(leases, FUNCTIONS[:1])
    found.start()
    wait_until(lambda: found.refused > 2 and found.completed > 2)
    assert found.stop(60)
    assert found.failure is None
    assert found.completed == leases.taken
    assert found.held() == leases.held == {}
    assert " holds it" in found.refusal


def test_who_works_on_what_is_to_be_seen_meanwhile() -> None:
    leases = Leases()
    found = managers(leases)
    found.start()
    seen: set[str] = set()

    def looked() -> bool:
        seen.update(found.held().values())
        return {"lcm-1 SCALE", "lcm-2 SCALE", "lcm-1 HEAL"} <= seen

    wait_until(looked)
    assert found.stop(60)


@pytest.mark.parametrize(
    ("problem", "count"), [(OperationLost("late"), "lost"), (Unavailable(503, "later"), "unavailable")]
)
def test_a_lease_that_is_lost_and_an_api_that_cannot_now_end_no_manager(problem: Exception, count: str) -> None:
    leases = Leases()
    leases.problem = problem
    found = managers(leases)
    found.start()
    wait_until(lambda: found._counts[count] > 2)
    leases.problem = None
    wait_until(lambda: found.completed > 0)
    assert found.stop(60)
    assert found.failure is None


def test_any_other_error_ends_a_manager_and_is_reported() -> None:
    leases = Leases()
    leases.problem = ZeroDivisionError()
    found = managers(leases)
    found.start()
    wait_until(lambda: isinstance(found.failure, ZeroDivisionError))
    assert found.stop(60)
