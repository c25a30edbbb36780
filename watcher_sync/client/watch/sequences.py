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
from typing import Protocol

import msgspec

LOST = -1
"""The watermark is lost."""

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


class MemorySequence:
    """Stores watermarks in memory: another process begins again."""

    def __init__(self, watermarks: Mapping[str, int] | None = None) -> None:
        """:param watermarks: topic -> watermark, to begin with."""
        self._watermarks = dict(watermarks or {})
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


class FileSequence:
    """Stores watermarks in a JSON file: topic -> watermark. One process writes it.

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
            return self._watermarks.get(topic, self._watermarks.get(_OTHERS, 0))

    def set(self, topic: str, sequence: int) -> None:
        """Stores the watermark. Other topics stay :data:`LOST` if they are.

        :raises OSError: when the file cannot be written.
        """
        with self._lock:
            watermarks = {**self._watermarks, topic: sequence}
            self._write(msgspec.json.encode(watermarks))
            self._watermarks = watermarks

    def _read(self) -> dict[str, int]:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, int])
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
