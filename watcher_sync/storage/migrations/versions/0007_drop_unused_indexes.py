# SPDX-License-Identifier: Apache-2.0
"""Drop the indexes over states and over the journal's times.

Every change wrote to them, and no query used them.

Revision: 0007, after 0006.
"""

from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.drop_index("ix_service_type_instances_status", table_name="service_type_instances")
    op.drop_index("ix_providers_state", table_name="providers")
    op.drop_index("ix_vnf_instances_state", table_name="vnf_instances")
    op.drop_index("ix_journal_time", table_name="journal")
