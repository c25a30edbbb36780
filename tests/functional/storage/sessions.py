# SPDX-License-Identifier: Apache-2.0
"""Ends the sessions of a database as its administrator does."""

from __future__ import annotations

from contextlib import suppress

import sqlalchemy as sa

_SESSIONS = {
    "postgresql": "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
    "mysql": "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> CONNECTION_ID()",
}
_END = {"postgresql": "SELECT pg_terminate_backend({})", "mysql": "KILL {}"}


def end_sessions(url: str) -> None:
    """End all sessions of the database of this address. They notice it with their next message."""
    engine = sa.create_engine(url, isolation_level="AUTOCOMMIT", poolclass=sa.NullPool)
    # A session that ends by itself meanwhile is none of those to be ended; another call may end that of this one.
    with suppress(sa.exc.DBAPIError), engine.connect() as connection:
        for session in connection.exec_driver_sql(_SESSIONS[engine.dialect.name]).scalars().all():
            with suppress(sa.exc.DBAPIError):
                connection.exec_driver_sql(_END[engine.dialect.name].format(session))
