# SPDX-License-Identifier: Apache-2.0
"""Add the owner and the digest of the secret to operation leases, and the actor to the journal.

The columns are NULL in rows of earlier releases. Such an operation accepts no heartbeat; its lease expires.

Revision: 0009, after 0007.
"""

import sqlalchemy as sa
from alembic import op

from watcher_sync.storage.types import Document

revision = "0009"
down_revision = "0008"


def upgrade() -> None:
    for table in ("operation_leases", "operations"):
        op.add_column(table, sa.Column("user_id", sa.String(length=255), nullable=True))
        op.add_column(table, sa.Column("project_id", sa.String(length=255), nullable=True))
        op.add_column(table, sa.Column("secret_digest", sa.String(length=64), nullable=True))
    op.add_column("journal", sa.Column("actor", Document(), nullable=True))
