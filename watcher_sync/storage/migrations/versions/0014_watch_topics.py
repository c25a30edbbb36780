# SPDX-License-Identifier: Apache-2.0
"""Add watch topics, and the positions up to which REST served them.

Revision: 0014, after 0013.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0014"
down_revision = "0013"

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    op.create_table(
        "watch_topics",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False, unique=True),
        sa.Column("project_id", sa.String(255)),
        sa.Column("title", sa.String(255), nullable=False),
        sa.Column("spec", Document(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_watch_topics_project", "watch_topics", ["project_id"])
    op.create_table(
        "watch_positions",
        sa.Column("topic_id", sa.String(36), primary_key=True),
        sa.Column("tenant", sa.String(255), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("page", sa.String(64), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_watch_positions_expires_at", "watch_positions", ["expires_at"])
