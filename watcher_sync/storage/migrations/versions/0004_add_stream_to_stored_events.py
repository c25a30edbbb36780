# SPDX-License-Identifier: Apache-2.0
"""Add the channel and the position in its stream to quarantined and parked events.

Rows that exist before came from transports that have neither, so the new columns are null there.

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
