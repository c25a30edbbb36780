# SPDX-License-Identifier: Apache-2.0
"""Add the engines of all groups, and up to which moment each source is current.

Revision: 0018, after 0017.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0018"
down_revision = "0017"

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
_LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")


def upgrade() -> None:
    op.create_table(
        "engines",
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("engine_group", sa.String(255), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("lag_seconds", sa.Double, nullable=False),
        sa.Column("sources", Document(), nullable=False),
        **_OPTIONS,
    )
    op.add_column("source_status", sa.Column("current_until", UtcDateTime()))
    op.add_column("source_status", sa.Column("notes", _LONG_TEXT))
