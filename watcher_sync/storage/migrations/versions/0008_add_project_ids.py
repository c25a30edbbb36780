# SPDX-License-Identifier: Apache-2.0
"""Add the project that owns an entity to four kinds and to the journal.

Rows from before have no project, so only callers who see all projects see them. No row is rewritten.

Revision: 0008, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    for table in ("pods", "service_type_instances", "vnf_instances", "workloads"):
        op.add_column(table, sa.Column("project_id", sa.String(length=255), nullable=True))
        op.create_index(f"ix_{table}_project_id", table, ["project_id"], unique=False)
    op.add_column("journal", sa.Column("project_id", sa.String(length=255), nullable=True))
    op.create_index("ix_journal_project", "journal", ["project_id", "seq"], unique=False)
