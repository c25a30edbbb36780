# SPDX-License-Identifier: Apache-2.0
"""Notices that the file of an SQLite database was deleted, or replaced by another one, while it is open.

A commit into a deleted file succeeds, and is lost. A connection remembers device and inode of its file, and
:func:`check` compares them with those of the path. SQLite would also create a missing file, which
:class:`DatabaseFile` prevents once it has seen the file.

SQLite would apply the write-ahead log of the replaced file to the new one, and mix both databases. So the first that
notices renames it: :func:`check`, or the next connection before it opens the file.

Not noticed: a file that is overwritten in place, and a log that was left before the first connection.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import threading
import weakref
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.exceptions import DatabaseUnavailable

LOG = logging.getLogger(__name__)

_FILE: Final = "database_file"
"""Key of ``connection.info``: the :class:`_OpenedFile` of a connection."""
_LOGS: Final = ("-wal", "-shm")
_SET_ASIDE: Final = ".replaced"

_Identity = tuple[int, int]


class DatabaseFile:
    """Opens the connections of one database. For any thread."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_known = False
        """Whether a connection has opened the file."""
        self._lock = threading.Lock()
        self._log: _Log | None = None

    def connect(self, dialect: Any, record: Any, args: Any, kwargs: Any) -> Any:
        """Open a connection; a listener of SQLAlchemy's ``do_connect``.

        :raises sqlite3.OperationalError: the file was deleted, or replaced at this moment.
        """
        before = _identity(self.path)
        if before is None and self._is_known:
            raise sqlite3.OperationalError(f"the database file {self.path} was deleted; restore it, or stop")
        self.set_logs_aside()
        connection = dialect.connect(*args, **kwargs)
        after = _identity(self.path)
        if before not in (None, after):
            connection.close()
            raise sqlite3.OperationalError(f"the database file {self.path} was replaced at this moment")
        self._is_known = True
        record.info[_FILE] = _OpenedFile(self, after)
        return connection

    def note_log(self, _connection: Any, record: Any) -> None:
        """Note the write-ahead log of a new connection; a listener of ``connect``."""
        opened: _OpenedFile = record.info[_FILE]
        name = self.path + _LOGS[0]
        with self._lock:
            known = self._log
            if known is not None and (known.owner, known.identity) == (opened.identity, _identity(name)):
                return
            try:
                log = _Log(name, opened.identity)
            except FileNotFoundError:
                return
            # A log that exists while its file still has the name is the log of this file.
            if opened.is_current():
                self._log = log

    def set_logs_aside(self) -> None:
        """Rename what is left of a replaced file, so that SQLite does not apply it to the one that has its name now."""
        with self._lock:
            log = self._log
            if log is None or _identity(self.path) in (None, log.owner):
                return
            if _identity(self.path + _LOGS[0]) != log.identity:
                return
            for suffix in _LOGS:
                name = self.path + suffix
                LOG.error("The file %s belongs to the replaced database and is renamed to %s%s", name, name, _SET_ASIDE)
                with contextlib.suppress(FileNotFoundError):
                    os.replace(name, name + _SET_ASIDE)


class _OpenedFile(NamedTuple):
    """The file that a connection opened."""

    file: DatabaseFile
    identity: _Identity | None

    def is_current(self) -> bool:
        """Whether the path still names the file."""
        return _identity(self.file.path) == self.identity


class _Log:
    """A write-ahead log. It is held open, so no other file can have its inode.

    SQLite locks the database and the index of the log, but not the log. So its end here releases no lock of SQLite.
    """

    def __init__(self, name: str, owner: _Identity | None) -> None:
        """:param owner: the database file of the log.
        :raises FileNotFoundError: there is none.
        """
        self.owner = owner
        descriptor = os.open(name, os.O_RDONLY)
        weakref.finalize(self, os.close, descriptor)
        status = os.fstat(descriptor)
        self.identity = (status.st_dev, status.st_ino)


def check(connection: sa.Connection) -> None:
    """Compare the file of a connection with its path; does nothing for other databases. It costs one ``stat``.

    :raises DatabaseUnavailable: the file was deleted or replaced. What was committed last may be lost.
    """
    if is_replaced(connection):
        opened: _OpenedFile = connection.info[_FILE]
        opened.file.set_logs_aside()
        raise DatabaseUnavailable(f"the database file {opened.file.path} was deleted or replaced under this process")


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
