# SPDX-License-Identifier: Apache-2.0
"""Where a watch stores its watermark, and when: the sequence of the last event that the consumer received.

0 means that there is no watermark yet, and the watch begins with the next event. A negative number means that the
watermark is lost, and the watch is refused.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

from watcher_sync.decoding import UNDECODABLE

LOST = -1
"""The watermark is lost."""

_EPOCH = "epoch:"
"""In a file: begins the keys of epochs. Self links begin with a slash."""

_OTHERS = ""
"""In a file: the watermark of topics without one of their own. No self link is empty."""


class Sequence(Protocol):
    """Stores the watermark of each topic. Threads of several watches call it."""

    def get(self, topic: str) -> int:
        """The watermark of the topic with this self link; 0: none yet; negative: lost."""
        ...

    def set(self, topic: str, sequence: int) -> None:
        """Stores the watermark durably.

        :raises OSError: when that fails. The watch goes on and tries again with the next watermark.
        """
        ...


@runtime_checkable
class StoresEpochs(Protocol):
    """A sequence that stores the epoch of each watermark, too.

    A service whose database went back in time has another epoch. It then refuses to resume after a watermark of before,
    even if it has another event of the same number.
    """

    def get_epoch(self, topic: str) -> str:
        """The epoch of the topic's watermark; empty: not known."""
        ...

    def set_epoch(self, topic: str, epoch: str) -> None:
        """Stores the epoch durably.

        :raises OSError: when that fails.
        """
        ...


class MemorySequence:
    """Stores watermarks in memory: another process begins again."""

    def __init__(self, watermarks: Mapping[str, int] | None = None, epochs: Mapping[str, str] | None = None) -> None:
        """:param watermarks: topic -> watermark, to begin with.

        :param epochs: topic -> epoch of its watermark.
        """
        self._watermarks = dict(watermarks or {})
        self._epochs = dict(epochs or {})
        self._lock = threading.Lock()
        """Guards ``_watermarks``."""

    def get(self, topic: str) -> int:
        """The watermark of the topic."""
        with self._lock:
            return self._watermarks.get(topic, 0)

    def set(self, topic: str, sequence: int) -> None:
        """Stores the watermark."""
        with self._lock:
            self._watermarks[topic] = sequence

    def get_epoch(self, topic: str) -> str:
        """The epoch of the topic's watermark; empty: not known."""
        with self._lock:
            return self._epochs.get(topic, "")

    def set_epoch(self, topic: str, epoch: str) -> None:
        """Stores the epoch."""
        with self._lock:
            self._epochs[topic] = epoch


class FileSequence:
    """Stores watermarks in a JSON file: topic -> watermark, and ``epoch`` and topic -> epoch. One process writes it.

    ``set`` writes a new file, synchronises it to the disk, and renames it. So a crash leaves the old file or the new
    one. A file that does not exist gives 0.

    A file that cannot be read as such gives :data:`LOST` for each topic, until the watermark of this topic is set. The
    new file says so, because nothing else knows which topics were in the damaged one. Delete it to begin again.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """:param path: the file. Its folder must exist."""
        self._path = Path(path)
        self._lock = threading.Lock()
        """Guards the file and ``_watermarks``."""
        self._watermarks = self._read()

    def get(self, topic: str) -> int:
        """The watermark of the topic."""
        with self._lock:
            found = self._watermarks.get(topic, self._watermarks.get(_OTHERS, 0))
            return found if isinstance(found, int) else LOST

    def set(self, topic: str, sequence: int) -> None:
        """Stores the watermark. Other topics stay :data:`LOST` if they are.

        :raises OSError: when the file cannot be written.
        """
        self._store(topic, sequence)

    def get_epoch(self, topic: str) -> str:
        """The epoch of the topic's watermark; empty: not known."""
        with self._lock:
            return str(self._watermarks.get(_EPOCH + topic, ""))

    def set_epoch(self, topic: str, epoch: str) -> None:
        """Stores the epoch.

        :raises OSError: when the file cannot be written.
        """
        self._store(_EPOCH + topic, epoch)

    def _store(self, key: str, value: int | str) -> None:
        with self._lock:
            watermarks = {**self._watermarks, key: value}
            self._write(msgspec.json.encode(watermarks))
            self._watermarks = watermarks

    def _read(self) -> dict[str, int | str]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int | str])
        except FileNotFoundError:
            return {}
        except (OSError, *UNDECODABLE):
            return {_OTHERS: LOST}

    def _write(self, content: bytes) -> None:
        descriptor, name = tempfile.mkstemp(prefix=f".{self._path.name}.", dir=self._path.parent)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            os.unlink(name)
            raise
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)  # the rename, too
        finally:
            os.close(folder)


SAVE_SECONDS = 1.0
"""How often the watermark is stored while events arrive without a pause."""


class WatermarkWriter:
    """Stores the watermark of one watch, at most once a second. For the thread of the watch.

    A store that fails stops no event.

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
