# SPDX-License-Identifier: Apache-2.0
"""Small file systems in memory, which a test fills, and a PostgreSQL on one."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.servers import PostgreSQL

_BLOCK = 65536
_LAST_BLOCK = 512


class Disk:
    """A small file system."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self) -> None:
        """Leave no byte."""
        with self._filler.open("wb", buffering=0) as filler:
            for size in (_BLOCK, _LAST_BLOCK):
                with contextlib.suppress(OSError):
                    while filler.write(bytes(size)):
                        pass
        status = os.statvfs(self.folder)
        assert status.f_bavail == 0, "the disk is not full"

    def free(self) -> None:
        """Remove what fills it."""
        self._filler.unlink()


@contextlib.contextmanager
def small_disk(folder: Path, mebibytes: int) -> Iterator[Disk]:
    """Mount one on a folder, which is made; where this is not allowed, the test is skipped."""
    folder.mkdir(mode=0o700)
    command = ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m,mode=0700", "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"no file system can be mounted: {mounted.stderr.strip()}")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


class SmallPostgreSQL(PostgreSQL):
    """With its tables, or its write-ahead log, on a small disk."""

    def __init__(self, *, small_log: bool) -> None:
        super().__init__()
        self._small_log = small_log
        self.small = self.home / ("wal" if small_log else "data")

    def _prepare(self) -> None:
        # Segments of 1 MB are used up at once. In those of 16 MB the tables need the space first.
        log = ["--waldir", str(self.small), "--wal-segsize=1"] if self._small_log else []
        if self._account is not None:
            os.chown(self.small, self._account.pw_uid, self._account.pw_gid)
        command = [self._program("initdb"), "-D", str(self.home / "data"), "-U", "root", "-A", "trust", "-E", "UTF8"]
        self._run(*command, "--no-sync", *log)
        with (self.home / "data" / "postgresql.conf").open("a") as settings:
            settings.write("min_wal_size = 32MB\nmax_wal_size = 32MB\n")


@contextlib.contextmanager
def small_postgresql(*, small_log: bool) -> Iterator[tuple[SmallPostgreSQL, Disk]]:
    """A PostgreSQL, and the disk that is small."""
    server = SmallPostgreSQL(small_log=small_log)
    try:
        with small_disk(server.small, 96 if small_log else 160) as disk:
            try:
                yield server.create(), disk
            finally:
                server.stop()
    finally:
        server.remove()
