# SPDX-License-Identifier: Apache-2.0
"""What the commit cycle asks of an evaluator: entities that follow from a batch, written in the batch's own commit.

The cycle dispatches a batch, lets the evaluator add its changes to the batch's transaction, and commits both together.
A batch may be discarded and dispatched again at any time. So an evaluator remembers nothing of a batch before
:meth:`Evaluator.published`; what it needs until then is in the :class:`Evaluated` of that batch.

All methods are called from the cycle's thread.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import Any, Protocol

import msgspec

from watcher_sync.backoff import doubled
from watcher_sync.exceptions import RowRefused
from watcher_sync.model.kinds import Entity
from watcher_sync.model.model import Key, Model
from watcher_sync.model.transaction import Transaction


class Evaluated(msgspec.Struct, eq=False):
    """What the evaluation of one batch found and staged. It is discarded with the batch."""

    at: float = -math.inf
    """When the evaluation began, by the evaluator's clock."""
    names: set[str] = msgspec.field(default_factory=set)
    """What the batch touched, by name."""
    marked: set[str] = msgspec.field(default_factory=set)
    """Ids of the entities that the batch concerns."""
    done: dict[str, Any] = msgspec.field(default_factory=dict)
    """Id -> what was staged for it; None if there was nothing to write."""
    due: dict[str, float] = msgspec.field(default_factory=dict)
    """Id -> when time alone may change what was done for it, by the evaluator's clock."""
    skipped: set[str] = msgspec.field(default_factory=set)
    """Ids of the entities that may not be evaluated at all, until something marks them again."""
    failed: dict[str, Any] = msgspec.field(default_factory=dict)
    """Id -> the entity whose evaluation failed, and why."""
    registered: dict[str, Any] = msgspec.field(default_factory=dict)
    """Id -> the entity whose registration the batch wrote; None: the batch deleted it."""

    def written(self) -> list[str]:
        """Ids of the entities for which something is staged."""
        return [entity_id for entity_id, staged in self.done.items() if staged is not None]


class Evaluator(Protocol):
    """Evaluates the entities that a batch concerns, and those that are due."""

    kind: str
    """The kind of the entities. A running operation lease of one keeps it out of every commit."""

    def evaluate_into(self, transaction: Transaction, below: Evaluated | None = None) -> Evaluated:
        """Stage the changes of the entities that may be evaluated now. It raises nothing.

        :param below: of the batch under way that the transaction lies on.
        """

    def published(self, evaluated: Evaluated) -> None:
        """The batch of this evaluation is committed, and the model has its changes."""

    def held(self, leases: Mapping[str, Any]) -> None:
        """A commit failed because operations hold some of its entities: id -> lease."""

    def refused(self, evaluated: Evaluated, error: RowRefused) -> bool:
        """The database refused a commit. Return whether to dispatch the batch again, without these entities."""

    def wants_own_commit(self) -> bool:
        """Whether an entity is due that must not share a commit with events."""

    def followed(self, before: Mapping[Key, Entity | None], model: Model) -> None:
        """The model has followed the journal.

        :param before: key -> the entity before, of all that other writers wrote.
        """

    def reset(self) -> None:
        """The model was replaced as a whole."""

    def seconds_until_due(self) -> float:
        """Seconds until an entity is due without an event; infinite if none is."""


class NoEvaluation:
    """For a cycle that evaluates nothing: replay, the API, a standby."""

    kind = ""

    def evaluate_into(self, transaction: Transaction, below: Evaluated | None = None) -> Evaluated:
        """Stage nothing."""
        return _NOTHING

    def published(self, evaluated: Evaluated) -> None:
        """Do nothing."""

    def held(self, leases: Mapping[str, Any]) -> None:
        """Do nothing."""

    def refused(self, evaluated: Evaluated, error: RowRefused) -> bool:
        """Nothing was evaluated."""
        return False

    def wants_own_commit(self) -> bool:
        """Nothing is due."""
        return False

    def followed(self, before: Mapping[Key, Entity | None], model: Model) -> None:
        """Do nothing."""

    def reset(self) -> None:
        """Do nothing."""

    def seconds_until_due(self) -> float:
        """Nothing is due."""
        return math.inf


_NOTHING = Evaluated()


class Retries:
    """When each entity may be evaluated again. Seconds of one monotonic clock.

    :param first: seconds after the first failure in a row; they double with each further one.
    :param longest: the most that they become.
    """

    def __init__(self, first: float, longest: float) -> None:
        self._first = first
        self._longest = longest
        self._not_before: dict[str, float] = {}
        self._failures: dict[str, int] = {}

    def not_before(self, entity_id: str) -> float:
        """The earliest time of the next evaluation."""
        return self._not_before.get(entity_id, -math.inf)

    def delay(self, entity_id: str, until: float) -> None:
        """Evaluate the entity no sooner than this."""
        self._not_before[entity_id] = until

    def fail(self, entity_id: str, now: float) -> int:
        """Delay the entity after a failure. Return the number of failures in a row."""
        failures = self._failures[entity_id] = self._failures.get(entity_id, 0) + 1
        self._not_before[entity_id] = now + doubled(self._first, self._longest, failures)
        return failures

    def succeed(self, entity_id: str) -> None:
        """The failures in a row are over."""
        self._failures.pop(entity_id, None)

    def forget(self, entity_ids: Collection[str]) -> None:
        """These entities exist no more."""
        for entity_id in entity_ids:
            self._not_before.pop(entity_id, None)
            self._failures.pop(entity_id, None)

    def clear(self) -> None:
        """Forget all."""
        self._not_before.clear()
        self._failures.clear()
