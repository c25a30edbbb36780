# SPDX-License-Identifier: Apache-2.0
"""The faults that a test can inject between a client and any fake service, and the list of those ordered.

A fault has an action and a condition: which requests it meets, after how many of them, and how often. The oldest
matching fault acts first. After a :class:`Preliminary` action the request goes on to the next fault and is served.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import Generic, TypeVar

ActionT = TypeVar("ActionT")
RequestT = TypeVar("RequestT")


class Preliminary:
    """An action after which the request goes on."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """An error instead of the answer."""

    error: Exception
    """One that the fake service writes as an answer: its ``ApiError``."""


@dataclasses.dataclass(frozen=True)
class Delay(Preliminary):
    """The answer comes late."""

    seconds: float


@dataclasses.dataclass(frozen=True)
class Hang:
    """The request is read and never answered, as behind a half-open connection."""


@dataclasses.dataclass(frozen=True)
class Cut:
    """The connection ends within the body of the answer, or before it with ``at=0``."""

    at: float = 0.5
    """After this part of the bytes."""


RequestAction = Answer | Delay | Hang | Cut
"""What :meth:`.handler.Handler.act` does."""


class Fault(Generic[ActionT, RequestT]):
    """An ordered fault, and how often it happened."""

    def __init__(
        self,
        action: ActionT,
        condition: Callable[[RequestT], bool],
        *,
        count: int | None,
        after: int,
        between: int,
    ) -> None:
        """
        :param condition: whether the fault meets a request.
        :param count: how often it happens; None: until :meth:`stop`.
        :param after: how many requests pass before the first time.
        :param between: how many pass between two times.
        """
        self.action = action
        self.hits = 0
        self._condition = condition
        self._count = count
        self._left = after
        self._between = between

    def matches(self, request: RequestT) -> bool:
        return (self._count is None or self.hits < self._count) and self._condition(request)

    def due(self, *, passing: int) -> bool:
        """Whether it happens now; otherwise what passes is counted."""
        if self._left:
            self._left -= min(passing, self._left)
            return False
        return True

    def happen(self) -> ActionT:
        self.hits += 1
        self._left = self._between
        return self.action

    def stop(self) -> None:
        """It happens no more."""
        self._count = self.hits


class Faults(Generic[ActionT, RequestT]):
    """The ordered faults of one service. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._faults: list[Fault[ActionT, RequestT]] = []

    def add(self, fault: Fault[ActionT, RequestT]) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self) -> None:
        """Everything works again, for what is asked from now on."""
        with self._lock:
            for fault in self._faults:
                fault.stop()
            self._faults.clear()

    def on_request(self, request: RequestT) -> list[ActionT]:
        """What happens to the request, in this order: preliminary actions, and then one other at most."""
        actions: list[ActionT] = []
        with self._lock:
            for fault in self._faults:
                if fault.matches(request) and fault.due(passing=1):
                    actions.append(fault.happen())
                    if not isinstance(fault.action, Preliminary):
                        break
        return actions
