# SPDX-License-Identifier: Apache-2.0
"""Add which entities exist through each source.

Revision: 0020, after 0019.
"""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0020"
down_revision = "0019"


def upgrade() -> None:
    op.add_column("source_status", sa.Column("scopes", sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")))
