# SPDX-License-Identifier: Apache-2.0
"""The providers of service types and their states, which their instances show.

Revision: 0005, after 0004.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0005"
down_revision = "0004"

OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")


def upgrade() -> None:
    op.create_table(
        "providers",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("service_type", sa.String(length=255), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=True),
        sa.Column("reason", LONG_TEXT, nullable=True),
        sa.Column("agent_name", sa.String(length=255), nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    for field in ("name", "state"):
        op.create_index(f"ix_providers_{field}", "providers", [field], unique=False)
    op.add_column("service_type_instances", sa.Column("provider_state", sa.String(length=255), nullable=True))
