# SPDX-License-Identifier: Apache-2.0
"""Add what Nova's API and the capacity providers tell, and the product of a VNF instance.

The facets details, flavor and network of instances were parts of the facet state. They get its version, because else
every copy in an event would count as newer than what is stored.

Revision: 0012, after 0007.
"""

import sqlalchemy as sa
from alembic import op

from watcher_sync.storage.types import Document, UtcDateTime, text_type

revision = "0012"
down_revision = "0011"

_COLUMNS = {
    "aggregates": (("number", sa.BigInteger()), ("metadata", Document())),
    "compute_nodes": (
        ("hypervisor_type", sa.String(length=255)),
        ("liveness", sa.String(length=32)),
        ("liveness_reason", sa.String(length=255)),
        ("liveness_since", UtcDateTime()),
        ("inventories", Document()),
        ("capacity_source", sa.String(length=255)),
    ),
    "vnf_instances": (
        ("vnf_provider", sa.String(length=255)),
        ("vnf_product_name", sa.String(length=255)),
        ("vnf_software_version", sa.String(length=255)),
        ("vnfd_version", sa.String(length=255)),
        ("ext_cp_info", Document()),
    ),
    "instances": (("source_host", sa.String(length=255)), ("pinned_zone", sa.String(length=255))),
}
"""Table -> (column, type)."""

_SPLIT = ("details", "flavor", "network")
"""Facets of instances that were parts of the facet state."""

_ROWS = 1000

_INSTANCES = sa.table("instances", sa.column("id", sa.String), sa.column("versions", Document()))


def upgrade() -> None:
    for table, columns in _COLUMNS.items():
        for name, type_ in columns:
            op.add_column(table, sa.Column(name, type_, nullable=True))
    op.create_index("ix_instances_source_host", "instances", ["source_host"])
    op.create_table(
        "inventories",
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("complete_since", UtcDateTime()),
        sa.Column("last_complete_at", UtcDateTime()),
        sa.Column("changes_since", UtcDateTime()),
        sa.Column("trouble", text_type(None), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        mysql_engine="InnoDB",
        mysql_charset="utf8mb4",
        mysql_collate="utf8mb4_bin",
    )
    _give_versions()


def _give_versions() -> None:
    """Give the new facets of instances the version of the facet that they were a part of."""
    connection, t = op.get_bind(), _INSTANCES
    query = sa.select(t.c.id, t.c.versions).order_by(t.c.id).limit(_ROWS)
    update = (
        sa.update(t).where(t.c.id == sa.bindparam("b_id")).values(versions=sa.bindparam("b_versions", type_=Document()))
    )
    rows = connection.execute(query).all()
    while rows:
        changed = [
            {"b_id": row.id, "b_versions": {**dict.fromkeys(_SPLIT, row.versions["state"]), **row.versions}}
            for row in rows
            if "state" in row.versions
        ]
        if changed:
            connection.execute(update, changed)
        rows = connection.execute(query.where(t.c.id > rows[-1].id)).all()
