# SPDX-License-Identifier: Apache-2.0
"""Names the process that holds the write lock of an SQLite database.

The lock has no time limit: a frozen process holds it until it goes on or ends, and it may be any that writes.

Linux lists the locks of all processes. ``fcntl`` returns the holder, too, but on an open file. The close of that file
would end the locks that SQLite has for this process.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Final

import sqlalchemy as sa

_WRITE_LOCK: Final = "120"
"""The byte of the index of the write-ahead log that a writer locks."""


def writer_of(database: sa.Engine) -> str:
    """The end of a sentence, such as ``: process 4711 holds the write lock``; empty if there is none, or on a server.

    A process of another pid namespace is not named.
    """
    with contextlib.suppress(OSError):
        inode = str(os.stat(f"{database.url.database}-shm").st_ino)
        for line in Path("/proc/locks").read_text().splitlines():
            # 3: POSIX  ADVISORY  WRITE 29275 fd:00:2531452 120 120
            _number, *kind, pid, file, start, end = line.split()
            if kind[-1] == "WRITE" and file.rpartition(":")[2] == inode and start == end == _WRITE_LOCK:
                return f": process {pid} holds the write lock"
    return ""
