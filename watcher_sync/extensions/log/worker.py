# SPDX-License-Identifier: Apache-2.0
"""The outlets of one process: they share the thread that reads the journal, and the replica that follows it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from watcher_sync.extensions.log.metrics import LogCollector
from watcher_sync.extensions.log.publisher import OutletPublisher
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store


class LogWorker:
    """The publishers of one process."""

    def __init__(self, store: Store, reader: JournalReader, publishers: Sequence[OutletPublisher]) -> None:
        self._store = store
        self._reader = reader
        self._publishers = publishers

    def start(self) -> None:
        """Start the threads; returns at once."""
        self._reader.start()
        for each in self._publishers:
            each.start()

    def stop(self, timeout: float) -> None:
        """Finish the batches under way, and give the leases back; returns after so many seconds at the latest."""
        deadline = time.monotonic() + timeout
        for each in self._publishers:
            each.begin_stop()
        for each in self._publishers:
            each.join(max(0.1, deadline - time.monotonic()))
        self._reader.stop()
        self._store.dispose()

    def is_alive(self) -> bool:
        """Whether all threads run."""
        return self._reader.is_alive() and all(each.is_alive() for each in self._publishers)

    def head(self) -> int:
        """The seq of the last change that the process knows."""
        return max(0, self._reader.seen())

    def collector(self) -> LogCollector:
        """The metrics of the publishers."""
        return LogCollector([each.stats for each in self._publishers], self.head)
