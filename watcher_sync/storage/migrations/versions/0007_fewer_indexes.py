# SPDX-License-Identifier: Apache-2.0
"""No index over what takes a few values and changes often, nor over the journal's times.

They were written with every change, and no query needs them.

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
