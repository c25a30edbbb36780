# SPDX-License-Identifier: Apache-2.0
"""Where a watch stores its watermark: the sequence of the last event that the consumer received.

0 means that there is no watermark yet, and the watch begins with the next event. A negative number means that the
watermark is lost, and the watch is refused.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec

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
        except (OSError, msgspec.DecodeError):
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
