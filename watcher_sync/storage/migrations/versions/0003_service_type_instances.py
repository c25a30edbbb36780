# SPDX-License-Identifier: Apache-2.0
"""The instances of service types, which are written through the REST API.

Revision: 0003, after 0002.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0003"
down_revision = "0002"

OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")
TABLE = "service_type_instances"


def upgrade() -> None:
    op.create_table(
        TABLE,
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("service_type", sa.String(length=255), nullable=True),
        sa.Column("instance_name", sa.String(length=255), nullable=True),
        sa.Column("spec", Document(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("spec_updated_at", UtcDateTime(), nullable=True),
        sa.Column("provider_name", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=255), nullable=True),
        sa.Column("status_message", LONG_TEXT, nullable=True),
        sa.Column("output_spec", Document(), nullable=True),
        sa.Column("status_updated_at", UtcDateTime(), nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    for field in ("service_type", "status", "provider_name"):
        op.create_index(f"ix_{TABLE}_{field}", TABLE, [field], unique=False)
