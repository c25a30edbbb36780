# SPDX-License-Identifier: Apache-2.0
"""Create the schema of the first release, without the tables of kinds.

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
    _create_journal()
    _create_stored_events()
    _create_leases()
    _create_status()
    _create_subscriptions()
    _create_outlets()
    _create_watch()
    _create_compatibility()


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
