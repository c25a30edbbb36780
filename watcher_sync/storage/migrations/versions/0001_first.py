# SPDX-License-Identifier: Apache-2.0
"""Create the first schema: the compute kinds, the journal and the tables beside them.

Revision: 0001, the first.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.types import Document, UtcDateTime

revision = "0001"
down_revision = None

OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")
BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql")
AUTO = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("hosts", Document(), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("discovered", sa.Boolean(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255), nullable=True),
        sa.Column("uuid", sa.String(length=255), nullable=True),
        sa.Column("status", sa.String(length=32), nullable=True),
        sa.Column("disabled_reason", LONG_TEXT, nullable=True),
        sa.Column("forced_down", sa.Boolean(), nullable=True),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("service_zone", sa.String(length=255), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("last_heard", UtcDateTime(), nullable=True),
        sa.Column("vcpus", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("disk_gb", sa.BigInteger(), nullable=True),
        sa.Column("reserved_vcpus", sa.BigInteger(), nullable=True),
        sa.Column("reserved_memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("reserved_disk_gb", sa.BigInteger(), nullable=True),
        sa.Column("vcpu_ratio", sa.Double(), nullable=True),
        sa.Column("memory_ratio", sa.Double(), nullable=True),
        sa.Column("disk_ratio", sa.Double(), nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_compute_nodes_availability_zone", "compute_nodes", ["availability_zone"], unique=False)
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("host_name", sa.String(length=255), nullable=True),
        sa.Column("project_id", sa.String(length=255), nullable=True),
        sa.Column("user_id", sa.String(length=255), nullable=True),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("node", sa.String(length=255), nullable=True),
        sa.Column("state", sa.String(length=255), nullable=True),
        sa.Column("task_state", sa.String(length=255), nullable=True),
        sa.Column("power_state", sa.String(length=255), nullable=True),
        sa.Column("locked", sa.Boolean(), nullable=True),
        sa.Column("locked_reason", LONG_TEXT, nullable=True),
        sa.Column("vcpus", sa.BigInteger(), nullable=True),
        sa.Column("memory_mb", sa.BigInteger(), nullable=True),
        sa.Column("disk_gb", sa.BigInteger(), nullable=True),
        sa.Column("root_gb", sa.BigInteger(), nullable=True),
        sa.Column("ephemeral_gb", sa.BigInteger(), nullable=True),
        sa.Column("swap_mb", sa.BigInteger(), nullable=True),
        sa.Column("flavor_id", sa.String(length=255), nullable=True),
        sa.Column("flavor_name", sa.String(length=255), nullable=True),
        sa.Column("extra_specs", Document(), nullable=True),
        sa.Column("image_id", sa.String(length=255), nullable=True),
        sa.Column("metadata", Document(), nullable=True),
        sa.Column("key_name", sa.String(length=255), nullable=True),
        sa.Column("availability_zone", sa.String(length=255), nullable=True),
        sa.Column("ip_addresses", Document(), nullable=True),
        sa.Column("created_at", UtcDateTime(), nullable=True),
        sa.Column("updated_at", UtcDateTime(), nullable=True),
        sa.Column("launched_at", UtcDateTime(), nullable=True),
        sa.Column("fault_type", sa.String(length=255), nullable=True),
        sa.Column("fault_message", LONG_TEXT, nullable=True),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_index("ix_instances_host", "instances", ["host"], unique=False)
    op.create_index("ix_instances_project_id", "instances", ["project_id"], unique=False)
    op.create_table(
        "journal",
        sa.Column("seq", AUTO, autoincrement=False, nullable=False),
        sa.Column("time", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("change", sa.String(length=16), nullable=False),
        sa.Column("delta", Document(), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("merged", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("seq"),
        **OPTIONS,
    )
    op.create_index("ix_journal_entity", "journal", ["entity_id", "seq"], unique=False)
    op.create_index(op.f("ix_journal_time"), "journal", ["time"], unique=False)
    op.create_table(
        "journal_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **OPTIONS,
    )
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **OPTIONS,
    )
    op.create_table(
        "parked",
        sa.Column("id", AUTO, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("time", UtcDateTime(), nullable=True),
        sa.Column("decoded", sa.Boolean(), nullable=False),
        sa.Column("body", BLOB, nullable=False),
        sa.Column("deliveries", sa.BigInteger(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("parked_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        **OPTIONS,
    )
    op.create_index("ix_parked_entity", "parked", ["kind", "entity_id"], unique=False)
    op.create_index(op.f("ix_parked_expires_at"), "parked", ["expires_at"], unique=False)
    op.create_table(
        "quarantine",
        sa.Column("id", AUTO, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("time", UtcDateTime(), nullable=True),
        sa.Column("decoded", sa.Boolean(), nullable=False),
        sa.Column("body", BLOB, nullable=False),
        sa.Column("deliveries", sa.BigInteger(), nullable=False),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("reason", LONG_TEXT, nullable=False),
        sa.Column("detail", LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        **OPTIONS,
    )
    op.create_index(op.f("ix_quarantine_received_at"), "quarantine", ["received_at"], unique=False)
    op.create_table(
        "source_cursors",
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("position", LONG_TEXT, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
        **OPTIONS,
    )
    op.create_table(
        "tombstones",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("versions", Document(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id"),
        **OPTIONS,
    )
    op.create_index(op.f("ix_tombstones_deleted_at"), "tombstones", ["deleted_at"], unique=False)
