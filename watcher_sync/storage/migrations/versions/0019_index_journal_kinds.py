# SPDX-License-Identifier: Apache-2.0
"""Index the journal by kind, so that the last changes of a rare kind are found without reading those of others.

Revision: 0019, after 0018.
"""

from alembic import op

revision = "0019"
down_revision = "0018"


def upgrade() -> None:
    op.create_index("ix_journal_kind", "journal", ["kind", "seq"])
