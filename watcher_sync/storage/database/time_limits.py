# SPDX-License-Identifier: Apache-2.0
"""Limits how long a process waits for the database, and how long the database waits for a process.

Both ends of a connection may stop without closing it.

* The client closes a connection whose server sends nothing for a time, and the pool connects again. For libpq,
  :mod:`~watcher_sync.storage.database.postgresql` does so.
* The server ends a transaction whose client sends nothing for a time. Its locks are free then.
* A statement waits for a locked row for a limited time.
* The server's kernel tests a silent connection soon, so that the session of a lost machine ends.
* The server ends a statement that runs for longer than its client waits.

SQLite has no server, and needs only the last one: :func:`limited`.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

import msgspec
import sqlalchemy as sa
from sqlalchemy import event as sa_event

from watcher_sync.exceptions import DatabaseUnavailable, TransactionConflict

T = TypeVar("T")

_KEEPALIVE_IDLE_SECONDS: Final = 2
_KEEPALIVE_INTERVAL_SECONDS: Final = 1
_KEEPALIVE_COUNT: Final = 2

_READER_IDLE_SECONDS: Final = 600

_SHARE: Final = 0.9
"""Of the time that a client waits, after which the server ends a statement. The refusal arrives in time."""
_STEPS: Final = 100_000
"""Steps of SQLite's virtual machine, of about a millisecond together, after which it asks whether it may go on."""

_IDLE: Final = "watcher_sync_idle_seconds"
_STATEMENT: Final = "watcher_sync_statement_seconds"
_WAITS_LONGER: Final = "watcher_sync_waits_longer"
"""Keys of a connection's own notes."""


class CommitWatch:
    """Measures how long the database takes to answer the commits of one process.

    The time limit of commits doubles with each one that had no answer, up to a limit. It returns to its first value
    with the next answer. Otherwise no commit would ever succeed on a database that is slower than the limit.
    """

    def __init__(self, seconds: float = math.inf, most: float = math.inf) -> None:
        """:param seconds: the first time limit.

        :param most: the highest one.
        """
        self._first = seconds
        self._most = max(seconds, most)
        self._unanswered_since: float | None = None
        self.seconds = seconds
        """The time limit now."""

    @property
    def unanswered_seconds(self) -> float:
        """Seconds for which the database has not answered the commit under way, or those before it. For any thread.

        0: there is none, or the last one succeeded, was refused, or had a conflict. Every other one that found the
        database unavailable counts as unanswered.
        """
        since = self._unanswered_since
        return time.monotonic() - since if since is not None else 0.0

    def run(self, commit: Callable[[], T]) -> T:
        """Run one attempt at a commit."""
        began = time.monotonic()
        self._unanswered_since = self._unanswered_since or began
        answered = True
        try:
            return commit()
        except DatabaseUnavailable as exc:
            answered = isinstance(exc, TransactionConflict)
            raise
        finally:
            if answered:
                self.reset()
            elif time.monotonic() - began >= self.seconds:
                self.seconds = min(self.seconds * 2, self._most)

    def reset(self) -> None:
        """Forget what was not answered."""
        self._unanswered_since = None
        self.seconds = self._first


class TimeLimits(msgspec.Struct, frozen=True):
    """The limits of the connections of one pool."""

    answer: float | CommitWatch
    """Seconds without a byte from the server after which the client gives up, or what has them at each connect."""
    idle_transaction: int
    """Seconds without a statement after which the server ends a transaction."""

    @property
    def answer_seconds(self) -> float:
        """The seconds of ``answer`` now."""
        return self.answer.seconds if isinstance(self.answer, CommitWatch) else self.answer

    @property
    def lock_seconds(self) -> float:
        """Seconds that a statement waits for a lock. The server's refusal arrives before the client gives up."""
        return min(self.idle_transaction, self.answer_seconds / 2)

    @property
    def statement_seconds(self) -> float:
        """Seconds that a statement runs; 0: without a limit, because the engine's own ones grow."""
        return 0 if isinstance(self.answer, CommitWatch) else self.answer * _SHARE


def set_up(database: sa.Engine, limits: TimeLimits) -> None:
    """Apply the limits to the connections that a pool makes from now on."""
    if database.dialect.name == "postgresql":
        if database.dialect.driver == "psycopg":
            from watcher_sync.storage.database.postgresql import connect

            sa_event.listen(
                database,
                "do_connect",
                lambda _dialect, _record, args, kwargs: connect(limits.answer_seconds, args, kwargs),
            )
        sa_event.listen(database, "connect", lambda connection, _record: _limit_postgresql(connection, limits))
    elif database.dialect.name in ("mysql", "mariadb"):
        if database.dialect.driver == "pymysql":
            sa_event.listen(
                database, "do_connect", lambda _dialect, _record, _args, kwargs: _limit_pymysql(kwargs, limits)
            )
        sa_event.listen(database, "connect", lambda connection, record: _limit_mysql(connection, record, limits))
        # An error at "checkin" would be the caller's, whose work is done, and the pool would lose the place.
        sa_event.listen(database, "reset", _wait_as_before)


def wait_longer(connection: sa.Connection) -> None:
    """Let the transaction under way take minutes, in which this process computes. It must not write.

    The server would end a resting transaction even if no other one waits for it. MariaDB would also end a connection
    whose reader takes the rows of a long result slowly.
    """
    if connection.dialect.name == "postgresql":
        milliseconds = _READER_IDLE_SECONDS * 1000
        connection.exec_driver_sql(
            f"SELECT set_config('idle_in_transaction_session_timeout', '{milliseconds}', true),"
            f" set_config('statement_timeout', '{milliseconds}', true)"
        )
    elif connection.info.get(_IDLE) is not None:
        # It is of the session; the pool sets it back.
        connection.info[_WAITS_LONGER] = True
        connection.exec_driver_sql(_reader_limits(_READER_IDLE_SECONDS, _READER_IDLE_SECONDS))


@contextlib.contextmanager
def limited(connection: sa.Connection, seconds: float) -> Iterator[None]:
    """Have SQLite end the statements of a transaction together after so much processor time of this thread.

    Another database has the limit of the session.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    database: Any = connection.connection.driver_connection
    until = time.thread_time() + seconds
    database.set_progress_handler(lambda: time.thread_time() > until, _STEPS)
    try:
        yield
    finally:
        database.set_progress_handler(None, 0)


def end_stalled_transactions(connection: sa.Connection) -> int:
    """End transactions of this package's processes that wrote, and whose client has sent nothing for a time.

    The server itself ends a transaction that waits between two statements. PostgreSQL does not end one that waits
    within a pipeline of statements, for the rest of it. The time is the limit of idle transactions of this session.
    Does nothing on other databases.

    :returns: the number of sessions that are ended.
    """
    if connection.dialect.name != "postgresql":
        return 0
    return len(connection.execute(_END_STALLED).all())


_END_STALLED: Final = sa.text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
    " AND usename = current_user AND application_name = current_setting('application_name')"
    " AND pid <> pg_backend_pid() AND backend_xid IS NOT NULL"
    " AND wait_event IN ('ClientRead', 'ClientWrite')"
    " AND current_setting('idle_in_transaction_session_timeout') <> '0'"
    " AND state_change < clock_timestamp() - CAST(current_setting('idle_in_transaction_session_timeout') AS interval)"
)


def _limit_postgresql(connection: Any, limits: TimeLimits) -> None:
    milliseconds = limits.idle_transaction * 1000
    settings = {
        "idle_in_transaction_session_timeout": milliseconds,
        "lock_timeout": int(limits.lock_seconds * 1000),
        "statement_timeout": int(limits.statement_seconds * 1000),
        "tcp_keepalives_idle": _KEEPALIVE_IDLE_SECONDS,
        "tcp_keepalives_interval": _KEEPALIVE_INTERVAL_SECONDS,
        "tcp_keepalives_count": _KEEPALIVE_COUNT,
        "tcp_user_timeout": milliseconds,
    }
    with connection.cursor() as cursor:
        cursor.execute("SELECT " + ", ".join(f"set_config('{name}', '{n}', false)" for name, n in settings.items()))
    connection.commit()


def _limit_pymysql(kwargs: dict[str, Any], limits: TimeLimits) -> None:
    """Parameters of the URL take precedence."""
    for name in ("read_timeout", "write_timeout"):
        kwargs.setdefault(name, limits.answer_seconds)


def _limit_mysql(connection: Any, record: Any, limits: TimeLimits) -> None:
    """A transaction that locked rows and changed none counts as one that only reads, so both kinds have the limit."""
    seconds = limits.idle_transaction
    settings = {"net_read_timeout": seconds, "net_write_timeout": seconds}
    settings["innodb_lock_wait_timeout"] = max(1, int(limits.lock_seconds))
    with connection.cursor() as cursor:
        cursor.execute("SET SESSION " + ", ".join(f"{name} = {value}" for name, value in settings.items()))
        with contextlib.suppress(Exception):  # MySQL has no such variable
            cursor.execute(
                f"SET SESSION idle_write_transaction_timeout = {seconds},"
                f" idle_readonly_transaction_timeout = {seconds}, max_statement_time = {limits.statement_seconds}"
            )
            record.info[_IDLE] = seconds
            record.info[_STATEMENT] = limits.statement_seconds
    connection.commit()


def _wait_as_before(connection: Any, record: Any, _state: Any) -> None:
    """Set a connection of MariaDB back that returns to the pool after :func:`wait_longer`.

    The pool discards the connection if that fails.
    """
    if record.info.pop(_WAITS_LONGER, False):
        with connection.cursor() as cursor:
            cursor.execute(_reader_limits(record.info[_IDLE], record.info[_STATEMENT]))


def _reader_limits(seconds: int, statement: float) -> str:
    """The statement that limits how long MariaDB waits for a reader, and works for it."""
    return (
        f"SET SESSION idle_readonly_transaction_timeout = {seconds}, net_write_timeout = {seconds},"
        f" max_statement_time = {statement}"
    )
