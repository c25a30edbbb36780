# SPDX-License-Identifier: Apache-2.0
"""Notices that the file of an SQLite database was deleted, or replaced by another one, while it is open.

The system keeps a deleted file until the last process closes it. So a commit into it succeeds, and is lost. A
connection remembers device and inode of its file, and :func:`check` compares them with those of the path. SQLite would
also create a missing file, which :class:`DatabaseFile` prevents once it has seen the file.

The write-ahead log of the replaced file may be left. SQLite would apply it to the new file and mix both databases. So
:func:`check` renames it.

What this cannot notice: a file that is overwritten in place. Its inode remains.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import Any, Final

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable

LOG = logging.getLogger(__name__)

_FILE: Final = "database_file"
"""Key of ``connection.info``: the :class:`_Opened` of a connection."""
_LOGS: Final = ("-wal", "-shm")
_SET_ASIDE: Final = ".replaced"

_Identity = tuple[int, int]


class _Opened:
    """A file as a connection opened it."""

    def __init__(self, path: str, identity: _Identity | None) -> None:
        self.path = path
        self.identity = identity
        self.logs: dict[str, _Identity | None] = {}
        """Its write-ahead log and the index of it."""

    def is_current(self) -> bool:
        """Whether the path still names the file."""
        return _identity(self.path) == self.identity

    def set_logs_aside(self) -> None:
        """Rename what is left of the file, if another one has its name, so that SQLite does not apply it to that one.

        The connection is still open. So no other file can have the inodes of its logs.
        """
        if _identity(self.path) is None:
            return
        for suffix, identity in self.logs.items():
            name = self.path + suffix
            if identity is not None and _identity(name) == identity:
                LOG.error("The file %s belongs to the replaced database and is renamed to %s%s", name, name, _SET_ASIDE)
                with contextlib.suppress(FileNotFoundError):
                    os.replace(name, name + _SET_ASIDE)


class DatabaseFile:
    """Opens the connections of one database. For any thread."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._is_known = False
        """Whether a connection has opened the file."""

    def connect(self, dialect: Any, record: Any, args: Any, kwargs: Any) -> Any:
        """Open a connection; a listener of SQLAlchemy's ``do_connect``.

        :raises sqlite3.OperationalError: the file was deleted, or replaced at this moment.
        """
        before = _identity(self._path)
        if before is None and self._is_known:
            raise sqlite3.OperationalError(f"the database file {self._path} was deleted; restore it, or stop")
        connection = dialect.connect(*args, **kwargs)
        after = _identity(self._path)
        if before not in (None, after):
            connection.close()
            raise sqlite3.OperationalError(f"the database file {self._path} was replaced at this moment")
        self._is_known = True
        record.info[_FILE] = _Opened(self._path, after)
        return connection

    def note_logs(self, _connection: Any, record: Any) -> None:
        """Note the write-ahead log of a new connection; a listener of ``connect``."""
        opened: _Opened = record.info[_FILE]
        opened.logs = {suffix: _identity(self._path + suffix) for suffix in _LOGS}


def check(connection: sa.Connection) -> None:
    """Compare the file of a connection with its path; does nothing for other databases. It costs one ``stat``.

    :raises DatabaseUnavailable: the file was deleted or replaced. What was committed last may be lost.
    """
    if is_replaced(connection):
        opened: _Opened = connection.info[_FILE]
        opened.set_logs_aside()
        path = opened.path
        raise DatabaseUnavailable(f"the database file {path} was deleted or replaced under this process")


def is_replaced(connection: sa.Connection) -> bool:
    """Whether the path of a connection's file names another file now, or none."""
    opened = connection.info.get(_FILE)
    return opened is not None and not opened.is_current()


def _identity(path: str) -> _Identity | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino
