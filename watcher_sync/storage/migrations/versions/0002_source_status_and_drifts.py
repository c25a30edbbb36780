# SPDX-License-Identifier: Apache-2.0
"""What the engine tells about its sources, and the drifts that reconciliation found.

Revision: 0002, after 0001.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0002"
down_revision = "0001"

OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")
AUTO = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "source_status",
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("engine_group", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", LONG_TEXT, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("lag", sa.BigInteger(), nullable=True),
        sa.Column("last_event_at", UtcDateTime(), nullable=True),
        sa.Column("last_full_sync_at", UtcDateTime(), nullable=True),
        sa.Column("reconnects", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
        **OPTIONS,
    )
    op.create_table(
        "drifts",
        sa.Column("id", AUTO, autoincrement=True, nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("field", sa.String(length=64), nullable=False),
        sa.Column("model_value", Document(), nullable=True),
        sa.Column("live_value", Document(), nullable=True),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("policy", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_drifts_entity", "drifts", ["source", "kind", "entity_id", "field"], unique=True)
