# SPDX-License-Identifier: Apache-2.0
"""Add to quarantined and parked events how many bytes a row stores, and the whole of which it stores an excerpt.

``size`` counts what the row stores. The index has it, so that the usage of each source is read from the index alone.

Revision: 0010, after 0007.
"""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"


def upgrade() -> None:
    for table in ("quarantine", "parked"):
        op.add_column(table, sa.Column("size", sa.BigInteger(), nullable=False, server_default="0"))
        op.add_column(table, sa.Column("whole_size", sa.BigInteger(), nullable=True))
        op.add_column(table, sa.Column("whole_digest", sa.String(length=64), nullable=True))
        op.execute(f"UPDATE {table} SET size = LENGTH(body)")
        op.create_index(f"ix_{table}_source", table, ["source", "id", "size"])
