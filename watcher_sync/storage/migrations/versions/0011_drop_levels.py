# SPDX-License-Identifier: Apache-2.0
"""Drop the stored levels of VNF instances.

The evaluation computes a level from the registration. A stored table of levels could be a thousand times as large as
the registration that it was made of.

Revision: 0011, after 0007.
"""

from alembic import op

revision = "0011"
down_revision = "0010"


def upgrade() -> None:
    op.drop_column("vnf_instances", "levels")
