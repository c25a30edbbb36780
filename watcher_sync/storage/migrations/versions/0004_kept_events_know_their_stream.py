# SPDX-License-Identifier: Apache-2.0
"""Kept events remember where their transport carried them: the channel, and their place in its order.

Events that are kept already came from transports that have neither.

Revision: 0004, after 0003.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    for table in ("quarantine", "parked"):
        op.add_column(table, sa.Column("channel", sa.String(length=255), nullable=True))
        op.add_column(table, sa.Column("stream_epoch", sa.BigInteger(), nullable=True))
        op.add_column(table, sa.Column("stream_sequence", sa.BigInteger(), nullable=True))
