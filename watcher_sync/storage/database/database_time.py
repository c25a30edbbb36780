# SPDX-License-Identifier: Apache-2.0
"""The time of the database, for what is deleted by age: rows get their times from it, and purges compare with it.

Between two readings the time moves with the monotonic clock, so no wall clock of ours decides what is deleted or due. A
reading is *doubtful* in two cases, and then nothing is deleted by age:

* It leapt, compared with the monotonic clock. The time continues without the leap. After an hour it is adopted.
* This machine's wall clock disagrees with it, and one of both is wrong. After a day the database is right.

SQLite has the clock of this machine, so only the first case shows there.
"""

from __future__ import annotations

import datetime
import functools
import threading
import time
from collections.abc import Callable
from typing import Final

import msgspec
import sqlalchemy as sa
from oslo_log import log as logging

from watcher_sync.storage.database.database import translated
from watcher_sync.storage.database.types import UtcDateTime

LOG = logging.getLogger(__name__)

_TOLERANCE_SECONDS: Final = 60.0
"""A smaller leap or disagreement is none: servers step their clocks, and readings wait for the network."""
_ADOPT_SECONDS: Final = 3600.0
_REFRESH_SECONDS: Final = 3600.0
"""In this time two clocks that run on differ by less than a second."""
_DISAGREEMENT_SECONDS: Final = 86_400.0


class _Line(msgspec.Struct, frozen=True):
    """A reading of the database's clock, with this process's monotonic seconds."""

    time: datetime.datetime
    monotonic: float

    def at(self, monotonic: float) -> datetime.datetime:
        """The time that the clock has then, if it runs on."""
        return self.time + datetime.timedelta(seconds=monotonic - self.monotonic)

    def leap_to(self, other: _Line) -> float:
        """Seconds that a later reading is ahead of this one's time."""
        return (other.time - self.at(other.monotonic)).total_seconds()


def database_now(dialect: sa.Dialect, *, later: float = 0.0) -> sa.ColumnElement[datetime.datetime]:
    """An expression for the database's time now, aware UTC, in the form in which the columns store times.

    It is the one clock that all who use the database share, so the clocks of the machines around do not matter.
    MariaDB reads it when the statement begins, PostgreSQL and SQLite when it runs. A statement that waited for a row's
    lock may have an older time than the row. A lease then seems to expire later, never earlier.

    :param later: seconds to add.
    """
    if dialect.name == "sqlite":
        moment = sa.func.strftime("%Y-%m-%d %H:%M:%f", "now", f"{later:+.3f} seconds")
        return sa.type_coerce(moment.op("||")("000"), UtcDateTime())
    if dialect.name == "postgresql":
        time: sa.ColumnElement[datetime.datetime] = sa.func.clock_timestamp()
        return sa.type_coerce(time + datetime.timedelta(seconds=later), UtcDateTime())
    microseconds = round(later * 1_000_000)
    return sa.literal_column(f"(UTC_TIMESTAMP(6) + INTERVAL {microseconds} MICROSECOND)", UtcDateTime())


def read_clock(database: sa.Engine) -> datetime.datetime:
    """The time that the clock of a database has now, aware UTC.

    :raises DatabaseUnavailable: the database is unavailable.
    """
    with translated(), database.connect() as connection:
        return connection.execute(sa.select(database_now(database.dialect))).scalar_one()


class DatabaseTime:
    """The time of one database, as one process sees it. For any thread.

    :param wall: this machine's wall clock, aware UTC.
    :param monotonic: seconds.
    :param database_clock: the clock of the database; None: :func:`read_clock`.
    """

    def __init__(
        self,
        database: sa.Engine,
        *,
        wall: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
        monotonic: Callable[[], float] = time.monotonic,
        database_clock: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        self._clock = database_clock or functools.partial(read_clock, database)
        self._wall = wall
        self._monotonic = monotonic
        # Guards what follows.
        self._lock = threading.Lock()
        self._line: _Line | None = None
        self._leapt: _Line | None = None
        self._observed: _Line | None = None
        self._disagrees_since: float | None = None
        self.doubt = ""
        """Why nothing may be deleted by age; empty: all is well."""
        self.leaps = 0
        """Times that the database's clock leapt."""

    def now(self) -> datetime.datetime:
        """The time; the first call reads the clock if nothing did before.

        :raises DatabaseUnavailable: the database is unavailable, and its clock was never read.
        """
        if self._line is None:
            self.refresh()
        line = self._line
        assert line is not None
        return line.at(self._monotonic())

    def read(self) -> datetime.datetime | None:
        """Read the database's clock.

        :returns: the time up to which rows may be aged; None: the clock is doubtful, so nothing may be deleted by age.
        :raises DatabaseUnavailable: the database is unavailable.
        """
        read = _Line(self._clock(), self._monotonic())
        with self._lock:
            self._doubt_about(self._follow(read) or self._compare_with_wall(read))
            return None if self.doubt else self.now()

    def refresh(self) -> None:
        """Read the database's clock if that was not done for an hour, for a process that deletes nothing by age.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        line = self._line
        if line is not None and self._monotonic() - line.monotonic < _REFRESH_SECONDS:
            return
        read = _Line(self._clock(), self._monotonic())
        with self._lock:
            self._follow(read)

    def observe(self) -> datetime.datetime:
        """Read the database's clock as it is, leaps included, for what other processes compare with it.

        :raises DatabaseUnavailable: the database is unavailable.
        """
        self._observed = read = _Line(self._clock(), self._monotonic())
        return read.time

    def observed(self) -> datetime.datetime:
        """The time by the last observation; before the first one, the wall clock's. It never blocks."""
        line = self._observed
        return line.at(self._monotonic()) if line is not None else self._wall()

    def _follow(self, read: _Line) -> str:
        """Continue the line; the leap, if the reading is not on it."""
        if self._line is None or abs(self._line.leap_to(read)) <= _TOLERANCE_SECONDS:
            self._line, self._leapt = read, None
            return ""
        if self._leapt is None or abs(self._leapt.leap_to(read)) > _TOLERANCE_SECONDS:
            self._leapt = read
            self.leaps += 1
        leap = self._line.leap_to(read)
        if read.monotonic - self._leapt.monotonic >= _ADOPT_SECONDS:
            LOG.warning("The clock of the database has been %+.0f s off for an hour: it is adopted", leap)
            self._line, self._leapt = read, None
            return ""
        return f"the clock of the database leapt by {round(leap / 10) * 10:+d} s"

    def _compare_with_wall(self, read: _Line) -> str:
        ahead = (self._wall() - read.at(self._monotonic())).total_seconds()
        if abs(ahead) <= _TOLERANCE_SECONDS:
            self._disagrees_since = None
            return ""
        if self._disagrees_since is None:
            self._disagrees_since = read.monotonic
        if read.monotonic - self._disagrees_since >= _DISAGREEMENT_SECONDS:
            return ""
        return f"this machine's clock is {round(ahead / 10) * 10:+d} s ahead of the database's"

    def _doubt_about(self, doubt: str) -> None:
        """Set the doubt, and log when it begins, changes and ends."""
        if doubt and doubt != self.doubt:
            LOG.warning("Nothing is deleted by age: %s", doubt)
        elif self.doubt and not doubt:
            LOG.info("Rows are deleted by age again: the clocks agree")
        self.doubt = doubt
