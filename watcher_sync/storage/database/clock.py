# SPDX-License-Identifier: Apache-2.0
"""The database's own clock, inside a statement: the one clock that all who use the database share.

What is compared with it was written with it, so the clocks of the machines around do not matter. MariaDB
reads it when the statement begins, PostgreSQL and SQLite when it runs. A statement that waited for a row's lock may
have an older time than the row. A lease then seems to expire later, never earlier.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from watcher_sync.storage.database.types import UtcDateTime

Time = sa.ColumnElement[datetime.datetime]


def now(dialect: sa.Dialect, *, later: float = 0.0) -> Time:
    """An expression for the time now, aware UTC, in the form in which the columns keep times.

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
