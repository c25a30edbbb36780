# SPDX-License-Identifier: Apache-2.0
"""Stores the watermark of one watch, at most once a second. A store that fails stops no event.

Used by the thread of the watch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from watcher_sync.client.watch.sequences import Sequence

SAVE_SECONDS = 1.0
"""How often the watermark is stored while events arrive without a pause."""


class WatermarkWriter:
    """Writes a watermark to its store.

    :ivar delivered: the watermark: the consumer has all events up to it.
    """

    def __init__(
        self,
        store: Sequence,
        topic: str,
        watermark: int,
        logger: logging.Logger,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param watermark: what the store has."""
        self.delivered = watermark
        self._store = store
        self._topic = topic
        self._logger = logger
        self._monotonic = monotonic
        self._saved = watermark
        self._saved_at: float | None = None
        self._is_broken = False

    @property
    def is_saved(self) -> bool:
        """Whether the store has the watermark."""
        return self.delivered == self._saved

    def advance(self, sequence: int) -> None:
        """Moves the watermark, unless it is there already."""
        self.delivered = max(self.delivered, sequence)

    def save_if_due(self) -> None:
        """Stores the watermark, if the last attempt was a second ago."""
        if self._saved_at is None or self._monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """Stores the watermark. Logs the first failure in succession; the next call tries again."""
        if self.is_saved:
            return
        watermark, self._saved_at = self.delivered, self._monotonic()
        try:
            self._store.set(self._topic, watermark)
        except OSError as exc:
            if not self._is_broken:
                self._logger.error("watch %s: the watermark cannot be stored: %s", self._topic, exc)
            self._is_broken = True
            return
        self._is_broken = False
        self._saved = watermark
