# SPDX-License-Identifier: Apache-2.0
"""Connects to the database, classifies its errors, and runs a transaction again that another one prevented.

A commit can fail in four ways. The database is unavailable (:class:`DatabaseUnavailable`): the caller retries. It ends
the transaction in favour of another one (:class:`TransactionConflict`): :func:`retried` runs it again at once. It
refuses a value (:class:`RowRefused`): the caller searches for the event. Another writer was first: the commit itself
notices. :func:`translated` maps the errors of every driver to these exceptions. Unknown errors count as unavailable,
so no event is dropped because of an outage.

Deadlocks are part of normal work, and no outage: two transactions lock the same rows in different orders.
"""

from __future__ import annotations

import contextlib
import functools
import logging as stdlib_logging
import os
import random
import sqlite3
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, ParamSpec, TypeVar

import sqlalchemy as sa
from oslo_config import cfg
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import engines
from sqlalchemy import event as sa_event
from sqlalchemy import exc as sa_exc

from watcher_sync.backoff import doubled
from watcher_sync.conf import urls
from watcher_sync.exceptions import (
    ConfigError,
    DatabaseUnavailable,
    RowRefused,
    StatementTooLong,
    StorageError,
    TransactionConflict,
)
from watcher_sync.storage.database import failover, time_limits
from watcher_sync.storage.database.file_modes import restrict
from watcher_sync.storage.database.sqlite_file import DatabaseFile
from watcher_sync.storage.database.time_limits import CommitWatch, TimeLimits

P = ParamSpec("P")
T = TypeVar("T")

_ATTEMPT: Final = "connection to server "
"""How libpq begins why one address of a server does not accept a connection."""

_ALL_FAILURES: Final = "Multiple connection attempts failed. All failures were:"
"""What psycopg writes before the failure of each server of a URL."""

_SUPPORTED = ("sqlite", "postgresql", "mysql")

_DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
}
"""The drivers that this package installs, for URLs that name none."""

_URL_DEFAULTS = {
    "postgresql": {
        "connect_timeout": "3",
        "keepalives_idle": "2",
        "keepalives_interval": "1",
        "keepalives_count": "3",
        "tcp_user_timeout": "5000",
        "application_name": "watcher-sync",
    },
    "mysql": {
        "connect_timeout": "3",
        # Before SQLAlchemy reads the level of the first connection, to which it returns later ones.
        "init_command": "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    },
}
"""Time limits for a server that stops answering, and the isolation level in which a transaction reads one state on
MariaDB. Parameters of the URL take precedence."""

_NARROW_CHARSETS: Final = ("utf8", "utf8mb3")
"""What MariaDB calls UTF-8 of at most three bytes a character."""

MAX_PACKET = "max_allowed_packet"
"""Key of ``connection.info``: bytes of the largest statement that MariaDB accepts."""

_TOO_ODD = (1153, 1267)
"""MariaDB's errors for a statement above ``max_allowed_packet``, where it can still answer, and for a text that cannot
be compared."""

_LOCK_TIMEOUTS = {1205, "55P03", "SQLITE_BUSY"}
"""The errors of MariaDB, PostgreSQL and SQLite for a statement that waited too long for a lock."""

_CONFLICTS = {1020, 1213, "40001", "40P01", "SQLITE_BUSY_SNAPSHOT", *_LOCK_TIMEOUTS}
"""Their errors for a transaction that another one prevents: a retry may succeed at once."""

_TOO_LONG = {1969, 3024, "57014", "SQLITE_INTERRUPT"}
"""The errors of MariaDB, MySQL, PostgreSQL and SQLite for a statement that ran for too long."""

_REFUSED = (
    db_exc.DBDataError,
    db_exc.DBConstraintError,
    db_exc.DBReferenceError,
    db_exc.DBDuplicateEntry,
    db_exc.DBInvalidUnicodeParameter,
    sa_exc.DataError,
    sa_exc.IntegrityError,
    UnicodeEncodeError,
    OverflowError,
)

_CONNECTION_DESCRIPTORS: Final = 3
"""The file descriptors of a new connection at most: SQLite opens the database, its write-ahead log and its index."""

_LOG_PAGES: Final = 32_000
"""Pages in SQLite's write-ahead log above which a commit copies them into the file, about 130 MB.

Each creation writes into a random page of several indexes. In a longer log more of these pages are the same.
"""

_RETRY_SECONDS: Final = 10.0
"""After this time a conflict counts as an outage."""

_MOST_CONFLICTS: Final = 50
_FIRST_DELAY_SECONDS: Final = 0.005
_MAX_DELAY_SECONDS: Final = 0.1


def open_database(
    conf: cfg.ConfigOpts, *, answer: float | CommitWatch | None = None, limited: bool = True, autocommit: bool = False
) -> sa.Engine:
    """The database of ``[database] connection``; does not connect yet.

    SQLite is used with write-ahead logging and ``synchronous=FULL``, so that a commit survives a loss
    of power, as it does on the others.

    :param answer: the seconds to wait for an answer, or what has them; None: ``[database] statement_timeout``.
    :param limited: whether statements and transactions have time limits.
    :param autocommit: whether the server ends each transaction after its one statement.
    :raises ConfigError: when the URL is malformed or names a database that is not supported.
    """
    urls.check_login("database", "connection", conf.database.connection)
    try:
        url = url_of(conf)
        url = url.set(drivername=_DRIVERS.get(url.drivername, url.drivername))
        dialect = url.get_backend_name().replace("mariadb", "mysql")
        if dialect not in _SUPPORTED:
            raise ConfigError(f"[database] connection: {dialect} is not one of {', '.join(_SUPPORTED)}")
        url.get_dialect().import_dbapi()
    except ImportError as exc:
        raise ConfigError(
            f"[database] connection: {exc}, for {url.drivername}://; {dialect}:// takes the installed driver"
        ) from None
    except (sa_exc.ArgumentError, sa_exc.NoSuchModuleError, ValueError) as exc:
        raise ConfigError(f"[database] connection: {exc}") from None
    url = url.update_query_dict({k: v for k, v in _URL_DEFAULTS.get(dialect, {}).items() if k not in url.query})
    if dialect == "mysql":
        url = _with_every_character(url)
    # They log the traceback of an error that is raised, or of a lost connection that nothing needs any more.
    for name in ("oslo_db.sqlalchemy.exc_filters", "sqlalchemy.pool"):
        stdlib_logging.getLogger(name).setLevel(stdlib_logging.CRITICAL)
    database = engines.create_engine(
        url,
        sqlite_synchronous=True,
        mysql_sql_mode=conf.database.mysql_sql_mode,
        connection_recycle_time=conf.database.connection_recycle_time,
        connection_debug=conf.database.connection_debug,
        max_pool_size=conf.database.max_pool_size,
        max_overflow=conf.database.max_overflow,
        pool_timeout=conf.database.pool_timeout if dialect != "sqlite" else None,  # it has no pool there
        max_retries=0,
    )
    failover.discard_read_only(database)
    if dialect == "sqlite":
        sa_event.listen(database, "connect", _set_up_sqlite)
        path = sqlite_path(url)
        if path is not None:
            file = DatabaseFile(path)
            sa_event.listen(database, "do_connect", file.connect)
            sa_event.listen(database, "connect", file.note_log)
            sa_event.listen(database, "connect", lambda _connection, _record: _restrict_files(path), once=True)
    elif dialect == "mysql":
        sa_event.listen(database, "connect", _set_up_mysql)
    elif database.dialect.driver == "psycopg":
        sa_event.listen(database, "connect", _set_up_psycopg)
    if limited:
        group = conf.database
        limits = TimeLimits(answer or group.statement_timeout, group.idle_transaction_timeout)
        time_limits.set_up(database, limits)
    if autocommit:
        # For good: an error of SQLAlchemy's that sets it back at the return to the pool would be the caller's.
        level = functools.partial(database.dialect.set_isolation_level, level="AUTOCOMMIT")
        sa_event.listen(database, "connect", lambda connection, _record: level(connection))
    return database  # type: ignore[no-any-return]


def url_of(conf: cfg.ConfigOpts) -> sa.URL:
    """``[database] connection`` with ``connection_parameters``.

    :raises sqlalchemy.exc.ArgumentError: the URL is malformed.
    """
    url = sa.make_url(conf.database.connection)
    parameters = conf.database.connection_parameters
    return url.update_query_string(parameters, append=True) if parameters else url


def narrow_charset(url: sa.URL) -> str | None:
    """The character set that a URL names, if it is a part of UTF-8 only. Deployment tools write it."""
    charset = str(url.query.get("charset", "")).lower()
    return charset if charset in _NARROW_CHARSETS else None


def _with_every_character(url: sa.URL) -> sa.URL:
    """The URL of MariaDB with the character set utf8mb4; oslo.db would add ``utf8`` to one without.

    The collation goes: it may be one of the other character set, and the tables have their own.

    :raises ConfigError: it names a character set that is no UTF-8.
    """
    charset = str(url.query.get("charset", "utf8mb4"))
    if charset.lower() != "utf8mb4" and not narrow_charset(url):
        raise ConfigError(
            f"[database] connection: the character set {charset} lacks characters that names and messages may have;"
            " remove charset, or write utf8mb4"
        )
    return url.difference_update_query(["collation"]).update_query_dict({"charset": "utf8mb4"})


def run_with_retries(work: Callable[[], T], on_lock_timeout: Callable[[], None] = lambda: None) -> T:
    """Return what a function returns that runs one whole transaction; run it again after a conflict.

    :param on_lock_timeout: called after a wait for a lock that took as long as a wait may.
    :raises TransactionConflict: there were conflicts for 10 seconds, or 50 of them.
    """
    until = time.monotonic() + _RETRY_SECONDS
    for conflicts in range(_MOST_CONFLICTS):
        try:
            return work()
        except TransactionConflict as exc:
            if time.monotonic() >= until:
                raise
            if exc.waited:
                on_lock_timeout()
        time.sleep(random.uniform(0, doubled(_FIRST_DELAY_SECONDS, _MAX_DELAY_SECONDS, conflicts)))  # noqa: S311 - jitter
    return work()


def retried(function: Callable[P, T]) -> Callable[P, T]:
    """Make a function that runs one whole transaction run it again after a conflict."""

    @functools.wraps(function)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_with_retries(lambda: function(*args, **kwargs))

    return wrapper


def _set_up_sqlite(connection: Any, _record: Any) -> None:
    connection.execute("PRAGMA busy_timeout=10000").close()
    if connection.execute("PRAGMA journal_mode").fetchone() != ("wal",):
        _use_log(connection)
    for pragma in ("synchronous=FULL", f"wal_autocheckpoint={_LOG_PAGES}"):
        connection.execute(f"PRAGMA {pragma}").close()


@retried
def _use_log(connection: sqlite3.Connection) -> None:
    """Have the file use a write-ahead log. Of several first connections to a file without one, SQLite refuses some.

    :raises TransactionConflict: another connection writes for 10 seconds.
    """
    try:
        connection.execute("PRAGMA journal_mode=WAL").close()
    except sqlite3.OperationalError as exc:
        if exc.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY:
            raise TransactionConflict(str(exc)) from exc
        raise


def sqlite_path(url: sa.URL) -> str | None:
    """The file of an SQLite database; None for one in memory, and for other databases."""
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        return None
    name = url.database
    return name.removeprefix("file:").partition("?")[0] if name.startswith("file:") else name


def _restrict_files(path: str) -> None:
    """The database, its write-ahead log and its index have the same data."""
    for suffix in ("", "-wal", "-shm"):
        restrict(path + suffix)


def _set_up_psycopg(connection: Any, _record: Any) -> None:
    """Have times in the style that the driver reads, and numbers without loss, whatever the default of the role is.

    Statements are not prepared: a pooler such as PgBouncer may run each transaction on another connection to the
    server, which lacks them.
    """
    connection.prepare_threshold = None
    with connection.cursor() as cursor:
        cursor.execute("SET DateStyle = ISO")
        cursor.execute("SET extra_float_digits = 1")
    connection.commit()


def _set_up_mysql(connection: Any, record: Any) -> None:
    """Read the largest statement that the server accepts, and have the driver make smaller ones of many rows."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT @@max_allowed_packet")
        limit = int(cursor.fetchone()[0])
    record.info[MAX_PACKET] = limit
    plain = connection.cursorclass
    if getattr(plain, "max_stmt_length", 0) > limit // 2:
        connection.cursorclass = type(plain.__name__, (plain,), {"max_stmt_length": limit // 2})


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn every database error inside into one of ours.

    :raises RowRefused: the database will never take a value of this statement.
    :raises TransactionConflict: the database ended the transaction in favour of another one.
    :raises StatementTooLong: the database ended a statement because of its time limit.
    :raises DatabaseUnavailable: everything else.
    """
    try:
        yield
    except StorageError:
        raise
    except _REFUSED as exc:
        raise RowRefused(reason_of(exc)) from exc
    except (sa_exc.SQLAlchemyError, db_exc.DBError, OSError) as exc:
        # oslo.db has no class of its own for every refusal: what it does not know it wraps as it is. SQLAlchemy wraps
        # what it cannot turn into a parameter.
        inner = getattr(exc, "inner_exception", None)
        if (
            isinstance(inner, _REFUSED)
            or isinstance(getattr(inner, "orig", None), _REFUSED)
            or code_of(exc) in _TOO_ODD
        ):
            raise RowRefused(reason_of(exc)) from exc
        # MariaDB rolls back the whole transaction, so the return to the savepoint fails. Its cause is the conflict.
        for each in (exc, getattr(exc, "cause", None) or exc):
            codes = {code_of(each), _state_of(each)}
            if isinstance(each, db_exc.DBDeadlock) or _CONFLICTS & codes:
                raise TransactionConflict(reason_of(each), waited=bool(_LOCK_TIMEOUTS & codes)) from exc
            if _TOO_LONG & codes:
                raise StatementTooLong(reason_of(each)) from exc
        raise DatabaseUnavailable(reason_of(exc) + _descriptor_problem()) from exc
    except NotImplementedError as exc:
        # What oslo.db raises for an error of the statements that SQLAlchemy sends before all others of an engine.
        if exc.__cause__ is None:
            raise
        raise DatabaseUnavailable(reason_of(exc.__cause__)) from exc


def _descriptor_problem() -> str:
    """What SQLite and libpq do not say: that this process cannot open the files of a connection. Empty if it can."""
    try:
        with contextlib.ExitStack() as opened:
            for _ in range(_CONNECTION_DESCRIPTORS):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
    except OSError as exc:
        return f"; this process cannot open files: {exc.strerror}"
    return ""


@contextlib.contextmanager
def no_duplicates() -> Iterator[None]:
    """Takes a duplicate journal row for a database that is not consistent.

    Every other statement of a commit replaces rows. A commit adds journal rows after the head, so a duplicate is a row
    beyond the head, as while a dump is loaded. No value of an event is the reason.

    :raises DatabaseUnavailable: a row is a duplicate.
    """
    try:
        yield
    except db_exc.DBDuplicateEntry as exc:
        raise DatabaseUnavailable(
            "the journal has rows beyond its head, as while a backup is restored; "
            f"watcher-sync-manage db_sync removes them: {reason_of(exc)}"
        ) from exc


def code_of(exc: BaseException) -> Any:
    """The number that the server gave to an error; None if there is none."""
    inner = getattr(exc, "inner_exception", None) or exc
    arguments = getattr(getattr(inner, "orig", None), "args", ())
    return arguments[0] if arguments else None


def _state_of(exc: BaseException) -> Any:
    """The SQLSTATE that PostgreSQL gave to an error, or SQLite's name of it; None if there is none."""
    inner = getattr(exc, "inner_exception", None) or exc
    original = getattr(inner, "orig", None)
    return getattr(original, "sqlstate", None) or getattr(original, "sqlite_errorname", None)


def reason_of(exc: BaseException) -> str:
    """The driver's own message in one line, without the statement and its values.

    libpq repeats the failure of each address, with hints in lines that begin with a tab.
    """
    inner = getattr(exc, "inner_exception", None) or exc
    message = str(getattr(inner, "orig", None) or inner) or type(inner).__name__
    lines = [line for line in message.splitlines() if not line.startswith("\t")] or [message]
    if _ALL_FAILURES in lines:
        lines = lines[lines.index(_ALL_FAILURES) + 1 :]
    elif not lines[0].startswith("connection "):
        return " ".join(" ".join(lines).split())[:500]
    attempts = (line[line.index(_ATTEMPT) :] if _ATTEMPT in line else line.removeprefix("- ") for line in lines)
    return " ".join("; ".join(dict.fromkeys(attempts)).split())[:500]
