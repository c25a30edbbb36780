# SPDX-License-Identifier: Apache-2.0
"""Runs a transaction again at once if the database ended it in favour of another one.

Deadlocks are part of normal work, and no outage. Two transactions lock the same rows in different orders, or two nodes
of a Galera cluster commit changes of the same row.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

from watcher_sync.backoff import doubled
from watcher_sync.exceptions import TransactionConflict

P = ParamSpec("P")
T = TypeVar("T")

_RETRY_SECONDS: Final = 10.0
"""After this time a conflict counts as an outage."""

_MOST_CONFLICTS: Final = 50
_FIRST_DELAY_SECONDS: Final = 0.005
_MAX_DELAY_SECONDS: Final = 0.1


def run_with_retries(work: Callable[[], T], on_lock_timeout: Callable[[], None] = lambda: None) -> T:
    """Return what a function returns that runs one whole transaction; run it again after a conflict.

    :param on_lock_timeout: called after a wait for a lock that took as long as a wait may.
    :raises TransactionConflict: there were conflicts for 10 seconds, or 50 of them.
    """
    until = time.monotonic() + _RETRY_SECONDS
    for conflicts in range(_MOST_CONFLICTS):
        try:
            return work()
        except TransactionConflict as exc:
            if time.monotonic() >= until:
                raise
            if exc.waited:
                on_lock_timeout()
        time.sleep(random.uniform(0, doubled(_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS, conflicts)))  # noqa: S311 - jitter
    return work()


def retried(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that runs one whole transaction run it again after a conflict."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_with_retries(lambda: function(*args, **kwargs))

    return wrapper
