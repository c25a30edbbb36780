# SPDX-License-Identifier: Apache-2.0
"""Add clusters, workloads, pods, VNF instances, operation leases and the results of operations.

Revision: 0006, after 0005.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0006"
down_revision = "0005"

OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")


def upgrade() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("detail", LONG_TEXT, nullable=True),
        sa.Column("version", sa.String(length=255), nullable=True),
        sa.Column("has_synced", sa.Boolean(), nullable=True),
        sa.Column("last_sync_at", UtcDateTime(), nullable=True),
        sa.Column("counts", Document(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_table(
        "workloads",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=255), nullable=True),
        sa.Column("name", sa.String(length=253), nullable=True),
        sa.Column("namespace", sa.String(length=255), nullable=True),
        sa.Column("cluster", sa.String(length=255), nullable=True),
        sa.Column("full_name", sa.String(length=600), nullable=True),
        sa.Column("owner_uid", sa.String(length=255), nullable=True),
        sa.Column("owner_kind", sa.String(length=255), nullable=True),
        sa.Column("replicas", sa.BigInteger(), nullable=True),
        sa.Column("ready_replicas", sa.BigInteger(), nullable=True),
        sa.Column("updated_replicas", sa.BigInteger(), nullable=True),
        sa.Column("generation", sa.BigInteger(), nullable=True),
        sa.Column("observed_generation", sa.BigInteger(), nullable=True),
        sa.Column("labels", Document(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("resource_version", sa.String(length=255), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_workloads_cluster", "workloads", ["cluster"], unique=False)
    op.create_index("ix_workloads_full_name", "workloads", ["full_name"], unique=False)
    op.create_index("ix_workloads_namespace", "workloads", ["namespace"], unique=False)
    op.create_index("ix_workloads_owner_uid", "workloads", ["owner_uid"], unique=False)
    op.create_table(
        "pods",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=253), nullable=True),
        sa.Column("namespace", sa.String(length=255), nullable=True),
        sa.Column("cluster", sa.String(length=255), nullable=True),
        sa.Column("full_name", sa.String(length=600), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("phase", sa.String(length=255), nullable=True),
        sa.Column("reason", sa.String(length=255), nullable=True),
        sa.Column("ready", sa.Boolean(), nullable=True),
        sa.Column("restarts", sa.BigInteger(), nullable=True),
        sa.Column("crash_looping", sa.Boolean(), nullable=True),
        sa.Column("deleted_at", UtcDateTime(), nullable=True),
        sa.Column("ip_address", sa.String(length=255), nullable=True),
        sa.Column("owner_uid", sa.String(length=255), nullable=True),
        sa.Column("owner_kind", sa.String(length=255), nullable=True),
        sa.Column("workload_uid", sa.String(length=255), nullable=True),
        sa.Column("labels", Document(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("resource_version", sa.String(length=255), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_pods_cluster", "pods", ["cluster"], unique=False)
    op.create_index("ix_pods_full_name", "pods", ["full_name"], unique=False)
    op.create_index("ix_pods_namespace", "pods", ["namespace"], unique=False)
    op.create_index("ix_pods_node", "pods", ["node"], unique=False)
    op.create_index("ix_pods_owner_uid", "pods", ["owner_uid"], unique=False)
    op.create_index("ix_pods_workload_uid", "pods", ["workload_uid"], unique=False)
    op.create_table(
        "vnf_instances",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("cluster", sa.String(length=255), nullable=True),
        sa.Column("namespace", sa.String(length=255), nullable=True),
        sa.Column("vnfd_id", sa.String(length=255), nullable=True),
        sa.Column("flavour_id", sa.String(length=255), nullable=True),
        sa.Column("vdus", Document(), nullable=True),
        sa.Column("aspects", Document(), nullable=True),
        sa.Column("levels", Document(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("registered_at", UtcDateTime(), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("scale_level", Document(), nullable=True),
        sa.Column("nearest_level", Document(), nullable=True),
        sa.Column("observed", Document(), nullable=True),
        sa.Column("vdu_results", Document(), nullable=True),
        sa.Column("vnfc_resource_info", Document(), nullable=True),
        sa.Column("vnfc_info", Document(), nullable=True),
        sa.Column("vacant", Document(), nullable=True),
        sa.Column("observed_at", UtcDateTime(), nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_vnf_instances_cluster", "vnf_instances", ["cluster"], unique=False)
    op.create_index("ix_vnf_instances_namespace", "vnf_instances", ["namespace"], unique=False)
    op.create_index("ix_vnf_instances_state", "vnf_instances", ["state"], unique=False)
    op.create_index("ix_vnf_instances_vnfd_id", "vnf_instances", ["vnfd_id"], unique=False)
    op.create_table(
        "operation_leases",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("operation", sa.String(length=64), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "entity_id"),
        **OPTIONS,
    )
    op.create_table(
        "operations",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("operation", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), nullable=True),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_operations_entity", "operations", ["kind", "entity_id", "token"], unique=True)
    op.create_index("ix_operations_ended_at", "operations", ["ended_at"], unique=False)
