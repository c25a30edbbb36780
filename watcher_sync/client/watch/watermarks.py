# SPDX-License-Identifier: Apache-2.0
"""Stores the watermark of one watch, at most once a second. A store that fails stops no event.

Used by the thread of the watch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from watcher_sync.client.watch.sequences import LOST, Sequence, StoresEpochs

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
        self._noted_epoch = ""
        self._is_broken = False

    @property
    def is_saved(self) -> bool:
        """Whether the store has the watermark."""
        return self.delivered == self._saved

    def advance(self, sequence: int) -> None:
        """Moves the watermark, unless it is there already."""
        self.delivered = max(self.delivered, sequence)

    @property
    def epoch(self) -> str:
        """The epoch of the watermark; empty: not known."""
        return self._store.get_epoch(self._topic) if isinstance(self._store, StoresEpochs) else ""

    def note_epoch(self, epoch: str) -> None:
        """Stores the epoch that the service gives to its sequences, unless the store has another one.

        The service says its epoch before it has compared it with that of the watermark.
        """
        self._noted_epoch = epoch
        if not self.epoch:
            self.accept_epoch()

    def accept_epoch(self) -> None:
        """Stores the epoch that the service said last: it continues after the watermark."""
        epoch = self._noted_epoch
        if not epoch or not isinstance(self._store, StoresEpochs) or epoch == self.epoch:
            return
        try:
            self._store.set_epoch(self._topic, epoch)
        except OSError as exc:
            self._logger.error("watch %s: the epoch cannot be stored: %s", self._topic, exc)

    def give_up(self, epoch: str | None) -> None:
        """Stores that the watermark is lost, if the service has another epoch: its numbers are those of other events.

        :param epoch: that of the service; None: not known.
        """
        if not epoch or self.epoch in ("", epoch):
            return
        self._noted_epoch, self.delivered = epoch, LOST
        self.save()
        self.accept_epoch()

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
