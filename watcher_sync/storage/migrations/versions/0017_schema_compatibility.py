# SPDX-License-Identifier: Apache-2.0
"""Add the oldest revision whose release can work on the schema.

From here on ``db_sync`` only adds, so that a release works on the schema of a newer one until ``db_sync --contract``.

Revision: 0017, after 0016.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}


def upgrade() -> None:
    table = op.create_table(
        "schema_compatibility",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest_revision", sa.String(32), nullable=False),
        **_OPTIONS,
    )
    op.bulk_insert(table, [{"id": 1, "oldest_revision": revision}])
