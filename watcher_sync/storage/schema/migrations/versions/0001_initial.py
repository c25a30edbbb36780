# SPDX-License-Identifier: Apache-2.0
"""Create the schema of the first release.

On PostgreSQL a trigger announces each change of the journal's head, so that readers need not poll it.

Revision: 0001, the first.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

from watcher_sync.storage.database.types import JsonDocument, UtcDateTime

revision = "0001"
down_revision = None

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}
_LONG_TEXT = sa.Text().with_variant(mysql.MEDIUMTEXT(), "mysql")
_BLOB = sa.LargeBinary().with_variant(mysql.MEDIUMBLOB(), "mysql")
_AUTO_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

_NOTIFY = """
CREATE OR REPLACE FUNCTION watcher_sync_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('watcher_sync_' || TG_TABLE_NAME, '');
  RETURN NULL;
END
$$
"""


def upgrade() -> None:
    _create_compute_kinds()
    _create_instances()
    _create_service_kinds()
    _create_kubernetes_kinds()
    _create_vnf_instances()
    _create_journal()
    _create_stored_events()
    _create_leases()
    _create_status()
    _create_subscriptions()
    _create_outlets()
    _create_watch()
    _create_compatibility()


def _create_filter_index(table: str, field: str) -> None:
    """Index a text by which lists are filtered, with the id, so that one value has its rows in the order of a list."""
    op.create_index(f"ix_{table}_{field}", table, [field, "id"], postgresql_ops={field: "varchar_pattern_ops"})


def _create_compute_kinds() -> None:
    op.create_table(
        "aggregates",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255)),
        sa.Column("number", sa.BigInteger()),
        sa.Column("metadata", JsonDocument()),
        sa.Column("hosts", JsonDocument()),
        sa.Column("joins", JsonDocument()),
        sa.Column("availability_zone", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("aggregates", "availability_zone")
    _create_filter_index("aggregates", "name")
    op.create_table(
        "compute_nodes",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("discovered", sa.Boolean(), nullable=False),
        sa.Column("gone", sa.Boolean(), nullable=False),
        sa.Column("hypervisor_hostname", sa.String(length=255)),
        sa.Column("hypervisor_type", sa.String(length=255)),
        sa.Column("uuid", sa.String(length=255)),
        sa.Column("status", sa.String(length=32)),
        sa.Column("disabled_reason", _LONG_TEXT),
        sa.Column("forced_down", sa.Boolean()),
        sa.Column("liveness", sa.String(length=32)),
        sa.Column("liveness_reason", sa.String(length=255)),
        sa.Column("liveness_since", UtcDateTime()),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("service_zone", sa.String(length=255)),
        sa.Column("availability_zone", sa.String(length=255)),
        sa.Column("last_heard", UtcDateTime()),
        sa.Column("vcpus", sa.BigInteger()),
        sa.Column("memory_mb", sa.BigInteger()),
        sa.Column("disk_gb", sa.BigInteger()),
        sa.Column("reserved_vcpus", sa.BigInteger()),
        sa.Column("reserved_memory_mb", sa.BigInteger()),
        sa.Column("reserved_disk_gb", sa.BigInteger()),
        sa.Column("vcpu_ratio", sa.Double()),
        sa.Column("memory_ratio", sa.Double()),
        sa.Column("disk_ratio", sa.Double()),
        sa.Column("inventories", JsonDocument()),
        sa.Column("capacity_source", sa.String(length=255)),
        sa.Column("failures", JsonDocument()),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("compute_nodes", "availability_zone")
    _create_filter_index("compute_nodes", "hypervisor_hostname")
    _create_filter_index("compute_nodes", "state")
    _create_filter_index("compute_nodes", "status")


def _create_instances() -> None:
    op.create_table(
        "instances",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255)),
        sa.Column("host_name", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("user_id", sa.String(length=255)),
        sa.Column("host", sa.String(length=255)),
        sa.Column("node", sa.String(length=255)),
        sa.Column("source_host", sa.String(length=255)),
        sa.Column("state", sa.String(length=255)),
        sa.Column("task_state", sa.String(length=255)),
        sa.Column("power_state", sa.String(length=255)),
        sa.Column("locked", sa.Boolean()),
        sa.Column("locked_reason", _LONG_TEXT),
        sa.Column("vcpus", sa.BigInteger()),
        sa.Column("memory_mb", sa.BigInteger()),
        sa.Column("disk_gb", sa.BigInteger()),
        sa.Column("root_gb", sa.BigInteger()),
        sa.Column("ephemeral_gb", sa.BigInteger()),
        sa.Column("swap_mb", sa.BigInteger()),
        sa.Column("flavor_id", sa.String(length=255)),
        sa.Column("flavor_name", sa.String(length=255)),
        sa.Column("extra_specs", JsonDocument()),
        sa.Column("image_id", sa.String(length=255)),
        sa.Column("metadata", JsonDocument()),
        sa.Column("key_name", sa.String(length=255)),
        sa.Column("tags", JsonDocument()),
        sa.Column("server_group", sa.String(length=255)),
        sa.Column("availability_zone", sa.String(length=255)),
        sa.Column("pinned_zone", sa.String(length=255)),
        sa.Column("ip_addresses", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("updated_at", UtcDateTime()),
        sa.Column("launched_at", UtcDateTime()),
        sa.Column("fault_type", sa.String(length=255)),
        sa.Column("fault_message", _LONG_TEXT),
        sa.Column("request_id", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("instances", "host")
    _create_filter_index("instances", "name")
    _create_filter_index("instances", "project_id")
    op.create_index("ix_instances_request_id", "instances", ["request_id"])
    op.create_index("ix_instances_source_host", "instances", ["source_host"])


def _create_service_kinds() -> None:
    op.create_table(
        "service_type_instances",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("service_type", sa.String(length=255)),
        sa.Column("instance_name", sa.String(length=255)),
        sa.Column("spec", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("spec_updated_at", UtcDateTime()),
        sa.Column("provider_name", sa.String(length=255)),
        sa.Column("provider_id", sa.String(length=511)),
        sa.Column("agent_name", sa.String(length=255)),
        sa.Column("status", sa.String(length=255)),
        sa.Column("status_message", _LONG_TEXT),
        sa.Column("output_spec", JsonDocument()),
        sa.Column("status_updated_at", UtcDateTime()),
        sa.Column("updated_at", UtcDateTime()),
        sa.Column("provider_state", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("service_type_instances", "instance_name")
    _create_filter_index("service_type_instances", "project_id")
    op.create_index("ix_service_type_instances_provider_id", "service_type_instances", ["provider_id"])
    _create_filter_index("service_type_instances", "provider_name")
    _create_filter_index("service_type_instances", "service_type")
    _create_filter_index("service_type_instances", "status")
    op.create_table(
        "providers",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255)),
        sa.Column("service_type", sa.String(length=255)),
        sa.Column("state", sa.String(length=32)),
        sa.Column("reason", _LONG_TEXT),
        sa.Column("agent_name", sa.String(length=255)),
        sa.Column("updated_at", UtcDateTime()),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("providers", "name")
    _create_filter_index("providers", "state")
    _create_filter_index("providers", "agent_name")
    op.create_table(
        "provider_bindings",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("provider_name", sa.String(length=255)),
        sa.Column("source", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("provider_bindings", "provider_name")
    _create_filter_index("provider_bindings", "source")


def _create_kubernetes_kinds() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("detail", _LONG_TEXT),
        sa.Column("version", sa.String(length=255)),
        sa.Column("has_synced", sa.Boolean()),
        sa.Column("unlisted", JsonDocument()),
        sa.Column("last_sync_at", UtcDateTime()),
        sa.Column("counts", JsonDocument()),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_table(
        "workloads",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("api_group", sa.String(length=255)),
        sa.Column("kind", sa.String(length=255)),
        sa.Column("name", sa.String(length=253)),
        sa.Column("namespace", sa.String(length=255)),
        sa.Column("cluster", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("full_name", sa.String(length=768)),
        sa.Column("owner_uid", sa.String(length=255)),
        sa.Column("owner_kind", sa.String(length=255)),
        sa.Column("replicas", sa.BigInteger()),
        sa.Column("ready_replicas", sa.BigInteger()),
        sa.Column("updated_replicas", sa.BigInteger()),
        sa.Column("generation", sa.BigInteger()),
        sa.Column("observed_generation", sa.BigInteger()),
        sa.Column("deleted_at", UtcDateTime()),
        sa.Column("labels", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("resource_version", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("workloads", "cluster")
    op.create_index("ix_workloads_full_name", "workloads", ["full_name"])
    _create_filter_index("workloads", "name")
    _create_filter_index("workloads", "namespace")
    op.create_index("ix_workloads_owner_uid", "workloads", ["owner_uid"])
    _create_filter_index("workloads", "project_id")
    op.create_table(
        "custom_objects",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("api_group", sa.String(length=255)),
        sa.Column("kind", sa.String(length=255)),
        sa.Column("name", sa.String(length=253)),
        sa.Column("namespace", sa.String(length=255)),
        sa.Column("cluster", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("state", sa.String(length=255)),
        sa.Column("owner_uid", sa.String(length=255)),
        sa.Column("owner_kind", sa.String(length=255)),
        sa.Column("properties", JsonDocument()),
        sa.Column("labels", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("resource_version", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    for field in ("cluster", "kind", "name", "namespace"):
        _create_filter_index("custom_objects", field)
    op.create_index("ix_custom_objects_owner_uid", "custom_objects", ["owner_uid"])
    for field in ("project_id", "state"):
        _create_filter_index("custom_objects", field)
    op.create_table(
        "pods",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=253)),
        sa.Column("namespace", sa.String(length=255)),
        sa.Column("cluster", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("full_name", sa.String(length=768)),
        sa.Column("node", sa.String(length=255)),
        sa.Column("phase", sa.String(length=255)),
        sa.Column("reason", sa.String(length=255)),
        sa.Column("ready", sa.Boolean()),
        sa.Column("restarts", sa.BigInteger()),
        sa.Column("crash_looping", sa.Boolean()),
        sa.Column("deleted_at", UtcDateTime()),
        sa.Column("ip_address", sa.String(length=255)),
        sa.Column("owner_uid", sa.String(length=255)),
        sa.Column("owner_kind", sa.String(length=255)),
        sa.Column("workload_uid", sa.String(length=255)),
        sa.Column("labels", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("resource_version", sa.String(length=255)),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("pods", "cluster")
    op.create_index("ix_pods_full_name", "pods", ["full_name"])
    _create_filter_index("pods", "name")
    _create_filter_index("pods", "namespace")
    _create_filter_index("pods", "node")
    op.create_index("ix_pods_owner_uid", "pods", ["owner_uid"])
    _create_filter_index("pods", "phase")
    _create_filter_index("pods", "project_id")
    op.create_index("ix_pods_ready", "pods", ["ready", "id"])
    op.create_index("ix_pods_workload_uid", "pods", ["workload_uid"])


def _create_vnf_instances() -> None:
    op.create_table(
        "vnf_instances",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("name", sa.String(length=255)),
        sa.Column("cluster", sa.String(length=255)),
        sa.Column("namespace", sa.String(length=255)),
        sa.Column("vnfd_id", sa.String(length=255)),
        sa.Column("flavour_id", sa.String(length=255)),
        sa.Column("vnf_provider", sa.String(length=255)),
        sa.Column("vnf_product_name", sa.String(length=255)),
        sa.Column("vnf_software_version", sa.String(length=255)),
        sa.Column("vnfd_version", sa.String(length=255)),
        sa.Column("ext_cp_info", JsonDocument()),
        sa.Column("vdus", JsonDocument()),
        sa.Column("aspects", JsonDocument()),
        sa.Column("sync_after_failure", sa.Boolean(), nullable=False),
        sa.Column("failed_operation", JsonDocument()),
        sa.Column("created_at", UtcDateTime()),
        sa.Column("registered_at", UtcDateTime()),
        sa.Column("state", sa.String(length=32), nullable=False),
        sa.Column("scale_level", JsonDocument()),
        sa.Column("nearest_level", JsonDocument()),
        sa.Column("observed", JsonDocument()),
        sa.Column("vdu_results", JsonDocument()),
        sa.Column("vnfc_resource_info", JsonDocument()),
        sa.Column("vnfc_info", JsonDocument()),
        sa.Column("vacant", JsonDocument()),
        sa.Column("workload_uids", JsonDocument()),
        sa.Column("pod_uids", JsonDocument()),
        sa.Column("observed_at", UtcDateTime()),
        sa.Column("updated_at", UtcDateTime()),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    _create_filter_index("vnf_instances", "cluster")
    _create_filter_index("vnf_instances", "name")
    _create_filter_index("vnf_instances", "namespace")
    _create_filter_index("vnf_instances", "project_id")
    _create_filter_index("vnf_instances", "state")
    _create_filter_index("vnf_instances", "vnfd_id")


def _create_journal() -> None:
    op.create_table(
        "journal_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.String(length=32), server_default="", nullable=False),
        sa.Column("mark", sa.BigInteger(), server_default="0", nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_table(
        "former_epochs",
        sa.Column("epoch", sa.String(length=32), nullable=False),
        sa.Column("is_own", sa.Boolean(), nullable=False),
        sa.PrimaryKeyConstraint("epoch"),
        **_OPTIONS,
    )
    op.create_table(
        "journal",
        sa.Column("seq", _AUTO_ID, autoincrement=False, nullable=False),
        sa.Column("time", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("change", sa.String(length=16), nullable=False),
        sa.Column("delta", JsonDocument(), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("merged", sa.Integer(), nullable=False),
        sa.Column("actor", JsonDocument()),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("mark", sa.BigInteger()),
        sa.PrimaryKeyConstraint("seq"),
        **_OPTIONS,
    )
    op.create_index("ix_journal_entity", "journal", ["entity_id", "seq"])
    op.create_index("ix_journal_kind", "journal", ["kind", "seq"])
    op.create_index("ix_journal_project", "journal", ["project_id", "seq"])
    op.create_table(
        "tombstones",
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("versions", JsonDocument(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("kind", "id"),
        **_OPTIONS,
    )
    op.create_index("ix_tombstones_deleted_at", "tombstones", ["deleted_at"])
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_NOTIFY)
        op.execute(
            "CREATE OR REPLACE TRIGGER watcher_sync_notify AFTER UPDATE ON journal_head "
            "FOR EACH STATEMENT EXECUTE FUNCTION watcher_sync_notify()"
        )


def _create_stored_events() -> None:
    op.create_table(
        "source_cursors",
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("position", _LONG_TEXT, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
        **_OPTIONS,
    )
    op.create_table(
        "quarantine",
        sa.Column("id", _AUTO_ID, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("time", UtcDateTime()),
        sa.Column("decoded", sa.Boolean(), nullable=False),
        sa.Column("body", _BLOB, nullable=False),
        sa.Column("deliveries", sa.BigInteger(), nullable=False),
        sa.Column("channel", sa.String(length=255)),
        sa.Column("stream_epoch", sa.BigInteger()),
        sa.Column("stream_sequence", sa.BigInteger()),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("whole_size", sa.BigInteger()),
        sa.Column("whole_digest", sa.String(length=64)),
        sa.Column("actor", JsonDocument()),
        sa.Column("received_at", UtcDateTime(), nullable=False),
        sa.Column("reason", _LONG_TEXT, nullable=False),
        sa.Column("detail", _LONG_TEXT, nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        **_OPTIONS,
    )
    op.create_index("ix_quarantine_received_at", "quarantine", ["received_at"])
    op.create_index("ix_quarantine_source", "quarantine", ["source", "id", "size"])
    op.create_table(
        "parked",
        sa.Column("id", _AUTO_ID, autoincrement=True, nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("event_id", sa.String(length=255), nullable=False),
        sa.Column("event_type", sa.String(length=255), nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("origin", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("time", UtcDateTime()),
        sa.Column("decoded", sa.Boolean(), nullable=False),
        sa.Column("body", _BLOB, nullable=False),
        sa.Column("deliveries", sa.BigInteger(), nullable=False),
        sa.Column("channel", sa.String(length=255)),
        sa.Column("stream_epoch", sa.BigInteger()),
        sa.Column("stream_sequence", sa.BigInteger()),
        sa.Column("size", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("whole_size", sa.BigInteger()),
        sa.Column("whole_digest", sa.String(length=64)),
        sa.Column("actor", JsonDocument()),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("parked_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("digest"),
        **_OPTIONS,
    )
    op.create_index("ix_parked_entity", "parked", ["kind", "entity_id"])
    op.create_index("ix_parked_expires_at", "parked", ["expires_at"])
    op.create_index("ix_parked_source", "parked", ["source", "id", "size"])


def _create_leases() -> None:
    op.create_table(
        "leases",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("holder", sa.String(length=255), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **_OPTIONS,
    )
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
        sa.Column("user_id", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("secret_digest", sa.String(length=64)),
        sa.PrimaryKeyConstraint("kind", "entity_id"),
        **_OPTIONS,
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
        sa.Column("ended_at", UtcDateTime()),
        sa.Column("user_id", sa.String(length=255)),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("secret_digest", sa.String(length=64)),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_index("ix_operations_ended_at", "operations", ["ended_at"])
    op.create_index("ix_operations_entity", "operations", ["kind", "entity_id", "token"], unique=True)


def _create_status() -> None:
    op.create_table(
        "engines",
        sa.Column("id", sa.String(length=255), nullable=False),
        sa.Column("engine_group", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("release", sa.String(length=64), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("lag_seconds", sa.Double(), nullable=False),
        sa.Column("sources", JsonDocument(), nullable=False),
        sa.Column("stopped_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_table(
        "source_status",
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("engine_group", sa.String(length=255), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", _LONG_TEXT, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("lag", sa.BigInteger()),
        sa.Column("last_event_at", UtcDateTime()),
        sa.Column("last_full_sync_at", UtcDateTime()),
        sa.Column("reconnects", sa.BigInteger(), nullable=False),
        sa.Column("restarts", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("current_until", UtcDateTime()),
        sa.Column("notes", _LONG_TEXT),
        sa.Column("scopes", _LONG_TEXT),
        sa.PrimaryKeyConstraint("source"),
        **_OPTIONS,
    )
    op.create_table(
        "inventories",
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("complete_since", UtcDateTime()),
        sa.Column("last_complete_at", UtcDateTime()),
        sa.Column("changes_since", UtcDateTime()),
        sa.Column("problem", _LONG_TEXT, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("source"),
        **_OPTIONS,
    )
    op.create_table(
        "drifts",
        sa.Column("id", _AUTO_ID, autoincrement=True, nullable=False),
        sa.Column("source", sa.String(length=255), nullable=False),
        sa.Column("kind", sa.String(length=64), nullable=False),
        sa.Column("entity_id", sa.String(length=255), nullable=False),
        sa.Column("field", sa.String(length=64), nullable=False),
        sa.Column("model_value", JsonDocument()),
        sa.Column("live_value", JsonDocument()),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("policy", sa.String(length=16), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_index("ix_drifts_entity", "drifts", ["source", "kind", "entity_id", "field"], unique=True)


def _create_subscriptions() -> None:
    head = op.create_table(
        "subscription_head",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.bulk_insert(head, [{"id": 1, "revision": 0}])
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("instance_kind", sa.String(length=64), nullable=False),
        sa.Column("instance_id", sa.String(length=255), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255)),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("user_id", sa.String(length=255)),
        sa.Column("sees_admin_only", sa.Boolean(), nullable=False),
        sa.Column("sees_all_projects", sa.Boolean(), nullable=False),
        sa.Column("callback_url", _LONG_TEXT, nullable=False),
        sa.Column("min_notify_interval", sa.Double(), nullable=False),
        sa.Column("metadata", JsonDocument(), nullable=False),
        sa.Column("payload", sa.String(length=16), nullable=False),
        sa.Column("format", sa.String(length=16), nullable=False),
        sa.Column("filter", JsonDocument(), nullable=False),
        sa.Column("secrets", _LONG_TEXT),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("reason", _LONG_TEXT, nullable=False),
        sa.Column("replay_since", sa.BigInteger()),
        sa.Column("start_after", sa.BigInteger(), nullable=False),
        sa.Column("shard", sa.Integer(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_index("ix_subscriptions_instance", "subscriptions", ["instance_id", "name", "owner"], unique=True)
    op.create_index("ix_subscriptions_project", "subscriptions", ["project_id"])
    op.create_index("ix_subscriptions_revision", "subscriptions", ["revision"])
    op.create_table(
        "subscription_progress",
        sa.Column("subscription_id", sa.String(length=36), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("held_since", sa.BigInteger()),
        sa.Column("behind_since", UtcDateTime()),
        sa.Column("last_notify_time", UtcDateTime()),
        sa.Column("last_notify_status", sa.Integer(), nullable=False),
        sa.Column("failures", sa.Integer(), nullable=False),
        sa.Column("failing_since", UtcDateTime()),
        sa.Column("next_attempt_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("subscription_id"),
        **_OPTIONS,
    )


def _create_outlets() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", _AUTO_ID, autoincrement=True, nullable=False),
        sa.Column("webhook_id", sa.String(length=64), nullable=False),
        sa.Column("subscription_id", sa.String(length=36), nullable=False),
        sa.Column("purpose", sa.String(length=16), nullable=False),
        sa.Column("previous_sequence", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("content_type", sa.String(length=128), nullable=False),
        sa.Column("body", _BLOB),
        sa.Column("attempts", JsonDocument(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime()),
        sa.PrimaryKeyConstraint("id"),
        sa.UniqueConstraint("webhook_id"),
        **_OPTIONS,
    )
    op.create_index("ix_webhook_deliveries_ended_at", "webhook_deliveries", ["ended_at"])
    op.create_index("ix_webhook_deliveries_state", "webhook_deliveries", ["state", "subscription_id"])
    op.create_index("ix_webhook_deliveries_subscription", "webhook_deliveries", ["subscription_id", "id"])
    op.create_table(
        "outlet_workers",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("outlet", sa.String(length=64), nullable=False),
        sa.Column("beat", sa.BigInteger(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("name"),
        **_OPTIONS,
    )
    op.create_table(
        "outlet_shards",
        sa.Column("outlet", sa.String(length=64), nullable=False),
        sa.Column("shard", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("epoch", sa.String(length=32)),
        sa.PrimaryKeyConstraint("outlet", "shard"),
        **_OPTIONS,
    )
    op.create_table(
        "outlet_cursors",
        sa.Column("outlet", sa.String(length=64), nullable=False),
        sa.Column("driver", sa.String(length=64), nullable=False),
        sa.Column("partition", sa.String(length=64), nullable=False),
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("selection", sa.String(length=64), nullable=False),
        sa.Column("epoch", sa.String(length=32), nullable=False),
        sa.Column("seq", sa.BigInteger(), nullable=False),
        sa.Column("published_seq", sa.BigInteger(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("detail", _LONG_TEXT, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("outlet"),
        **_OPTIONS,
    )


def _create_watch() -> None:
    op.create_table(
        "watch_topics",
        sa.Column("id", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("project_id", sa.String(length=255), nullable=False),
        sa.Column("title", sa.String(length=255), nullable=False),
        sa.Column("spec", JsonDocument(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.create_index("ix_watch_topics_project", "watch_topics", ["project_id", "name"], unique=True)
    op.create_index("ix_watch_topics_name", "watch_topics", ["name"])
    op.create_table(
        "watch_positions",
        sa.Column("topic_id", sa.String(length=36), nullable=False),
        sa.Column("tenant", sa.String(length=255), nullable=False),
        sa.Column("subject", sa.String(length=255), nullable=False),
        sa.Column("sequence", sa.BigInteger(), nullable=False),
        sa.Column("page", sa.String(length=64), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.PrimaryKeyConstraint("topic_id", "tenant", "subject"),
        **_OPTIONS,
    )
    op.create_index("ix_watch_positions_expires_at", "watch_positions", ["expires_at"])


def _create_compatibility() -> None:
    table = op.create_table(
        "schema_compatibility",
        sa.Column("id", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("oldest_revision", sa.String(length=32), nullable=False),
        sa.PrimaryKeyConstraint("id"),
        **_OPTIONS,
    )
    op.bulk_insert(table, [{"id": 1, "oldest_revision": revision}])
