# SPDX-License-Identifier: Apache-2.0
"""Discards the connections to a server that refuses all writes: it was the primary before a failover.

The server keeps such connections open and answers the ping of the pool. Without this they would be used until
``[database] connection_recycle_time`` is over. A new connection finds the primary, by the URL's hosts or by a proxy.
"""

from __future__ import annotations

from typing import Any, Final

import sqlalchemy as sa

_REFUSES_WRITES: Final = {"25006", 1047, 1290, 1792, 1836}
"""PostgreSQL: the transaction is read-only. MariaDB: the node of a cluster is not ready, the server or the transaction
is read-only."""


def discard_read_only(database: sa.Engine) -> None:
    """Treat the refusal of a write as the end of the connection, and of all others of the pool."""
    is_lost = database.dialect.is_disconnect

    def is_disconnect(error: Any, connection: Any, cursor: Any) -> bool:
        code = getattr(error, "sqlstate", None) or next(iter(error.args), None)
        return code in _REFUSES_WRITES or is_lost(error, connection, cursor)

    database.dialect.is_disconnect = is_disconnect  # type: ignore[assignment,method-assign]
