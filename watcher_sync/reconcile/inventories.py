# SPDX-License-Identifier: Apache-2.0
"""Whether the inventories of the reconcilers are complete, for the readiness of the engine.

A worker asks each reconciler once a second until its inventory is complete. The answers are in memory, because a check
of the readiness may not wait for the database. Before the first answer an inventory counts as incomplete.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Final

from oslo_log import log as logging

from watcher_sync.exceptions import StorageError
from watcher_sync.reconcile.base import Reconciler

LOG = logging.getLogger(__name__)

_INTERVAL_SECONDS: Final = 1.0
_UNKNOWN: Final = "it is unknown yet whether the inventory is complete"


class Inventories:
    """The inventories of one process. Any thread may ask; one thread checks."""

    def __init__(self, reconcilers: Sequence[Reconciler]) -> None:
        self._open = list(reconcilers)
        """Reconcilers whose inventory is not known to be complete."""
        self._next = float("-inf")
        # Guards _problem.
        self._lock = threading.Lock()
        self._problem: dict[str, str] = {one.name: _UNKNOWN for one in reconcilers if one.has_inventory}

    def check(self, now: float) -> None:
        """Ask the reconcilers, if a second has passed.

        :param now: monotonic seconds.
        """
        if not self._open or now < self._next:
            return
        self._next = now + _INTERVAL_SECONDS
        for reconciler in list(self._open):
            try:
                problem = reconciler.inventory_problem()
            except StorageError as exc:
                problem = f"{_UNKNOWN}: {exc}"
            if not problem:
                self._open.remove(reconciler)
            if problem is not None:
                with self._lock:
                    self._problem[reconciler.name] = problem

    def not_ready(self) -> Mapping[str, str]:
        """Return the check ``inventory`` with its reason; nothing if no reconciler has an inventory."""
        with self._lock:
            if not self._problem:
                return {}
            return {"inventory": "; ".join(why for _, why in sorted(self._problem.items()) if why)}
