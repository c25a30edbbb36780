# SPDX-License-Identifier: Apache-2.0
"""The engine's part beside the API workers of a test: a thread that writes."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from typing import Self

from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event


class Writer:
    """Commits one batch after the other while its context is open."""

    def __init__(self, cycle: CommitCycle, events: Callable[[int], list[Event]], *, pause: float) -> None:
        """:param events: returns the events of a batch by its number; the first one is 1.

        :param pause: seconds between two commits.
        """
        self._cycle = cycle
        self._events = events
        self._pause = pause
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="writer")
        self.commits = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        for number in itertools.count(1):
            if self._stop.is_set():
                return
            self._cycle.run(Batch(events=self._events(number)))
            self.commits += 1
            self._stop.wait(self._pause)
