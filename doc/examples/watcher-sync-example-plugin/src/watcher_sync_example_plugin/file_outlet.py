# SPDX-License-Identifier: Apache-2.0
"""Appends each change to a file, a JSON document a line. A lock on the file keeps other publishers out.

A process that dies may leave half of a line or of a snapshot at the end. The method :meth:`FileOutlet.open` removes the
half line. It reads the position from the last whole one.
"""

from __future__ import annotations

import datetime
import fcntl
import os
from collections.abc import Sequence
from typing import BinaryIO, ClassVar

import msgspec
from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import (
    SNAPSHOT,
    SNAPSHOT_BEGIN,
    LogChange,
    LogPosition,
    LogPositions,
    Outlet,
    OutletError,
)


class FileOutlet(Outlet):
    """One file on this machine. Its format has to be cloudevents."""

    options: ClassVar[list[cfg.Opt]] = [cfg.StrOpt("path", help="The file to append to.")]

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        super().__init__(name, conf)
        if not self.group.path:
            raise ConfigError(f"[outlet_{name}] path is not set")
        self._file: BinaryIO | None = None

    def open(self, position: LogPositions) -> LogPositions:
        try:
            self._file = file = os.fdopen(os.open(self.group.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o640), "a+b")
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.seek(0)
            lines = file.read().splitlines(keepends=True)
            whole = [line for line in lines if line.endswith(b"\n")]
            file.truncate(sum(map(len, whole)))
        except OSError as exc:
            raise OutletError(f"{self.group.path}: {exc}") from exc
        if not whole:
            return {}
        document = msgspec.json.decode(whole[-1])
        last, time = document["data"], datetime.datetime.fromisoformat(document["time"])
        if last["change"] in (SNAPSHOT, SNAPSHOT_BEGIN):
            return {}
        return {self.partition: LogPosition(last["epoch"], last["seq"], time)}

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        if self._file is None:
            raise OutletError("the file is not open")
        try:
            self._file.writelines(change.body + b"\n" for change in changes)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as exc:
            raise OutletError(f"{self.group.path}: {exc}") from exc
        last = changes[-1]
        return {} if last.change in (SNAPSHOT, SNAPSHOT_BEGIN) else {self.partition: last.position}

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
