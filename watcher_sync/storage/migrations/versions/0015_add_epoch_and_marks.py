# SPDX-License-Identifier: Apache-2.0
"""Add the epoch of the installation, the mark of each commit, and the epoch that each shard of an outlet knows.

The columns have defaults, so a process of the release before may still write. Of the journal's rows, only the last one
gets a mark.

Revision: 0015, after 0014.
"""

import secrets
import uuid

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"


def upgrade() -> None:
    op.add_column("journal_head", sa.Column("epoch", sa.String(32), nullable=False, server_default=""))
    op.add_column("journal_head", sa.Column("mark", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("journal", sa.Column("mark", sa.BigInteger, nullable=True))
    op.add_column("outlet_shards", sa.Column("epoch", sa.String(32), nullable=True))
    head = sa.table("journal_head", sa.column("seq"), sa.column("epoch"), sa.column("mark"))
    journal = sa.table("journal", sa.column("seq"), sa.column("mark"))
    mark = secrets.randbits(62)
    op.execute(sa.update(head).values(epoch=uuid.uuid4().hex, mark=mark))
    last = sa.select(head.c.seq).scalar_subquery()
    op.execute(sa.update(journal).where(journal.c.seq == last).values(mark=mark))
