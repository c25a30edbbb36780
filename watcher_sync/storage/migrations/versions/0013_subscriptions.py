# SPDX-License-Identifier: Apache-2.0
"""Add subscriptions, the log of their deliveries, and the workers that share them.

On PostgreSQL a trigger notifies the listeners of the journal's head of each commit.

Revision: 0013, after 0012.
"""

from typing import Any

import sqlalchemy as sa
from alembic import op

from watcher_sync.storage.types import Document, UtcDateTime, blob_type, text_type

revision = "0013"
down_revision = "0012"

_OPTIONS: dict[str, Any] = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4", "mysql_collate": "utf8mb4_bin"}

_NOTIFY = """
CREATE OR REPLACE FUNCTION watcher_sync_notify() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  PERFORM pg_notify('watcher_sync_' || TG_TABLE_NAME, '');
  RETURN NULL;
END
$$
"""


def upgrade() -> None:
    op.create_table(
        "subscription_head",
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        **_OPTIONS,
    )
    op.execute("INSERT INTO subscription_head (id, revision) VALUES (1, 0)")
    _create_subscriptions()
    _create_deliveries()
    op.create_table(
        "outlet_workers",
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("outlet", sa.String(64), nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        **_OPTIONS,
    )
    op.create_table(
        "outlet_shards",
        sa.Column("outlet", sa.String(64), primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        **_OPTIONS,
    )
    if op.get_bind().dialect.name == "postgresql":
        op.execute(_NOTIFY)
        op.execute(
            "CREATE OR REPLACE TRIGGER watcher_sync_notify AFTER UPDATE ON journal_head "
            "FOR EACH STATEMENT EXECUTE FUNCTION watcher_sync_notify()"
        )


def _create_subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("instance_kind", sa.String(64), nullable=False),
        sa.Column("instance_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255)),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("sees_admin_only", sa.Boolean, nullable=False),
        sa.Column("callback_url", text_type(None), nullable=False),
        sa.Column("min_notify_interval", sa.Double, nullable=False),
        sa.Column("metadata", Document(), nullable=False),
        sa.Column("payload", sa.String(16), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("filter", Document(), nullable=False),
        sa.Column("secrets", text_type(None)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", text_type(None), nullable=False),
        sa.Column("consent", sa.String(16), nullable=False),
        sa.Column("max_rate", sa.Integer),
        sa.Column("replay_since", sa.BigInteger),
        sa.Column("start_after", sa.BigInteger, nullable=False),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        **_OPTIONS,
    )
    op.create_index("ix_subscriptions_revision", "subscriptions", ["revision"])
    op.create_index("ix_subscriptions_instance", "subscriptions", ["instance_id", "name", "owner"], unique=True)
    op.create_index("ix_subscriptions_project", "subscriptions", ["project_id"])
    op.create_table(
        "subscription_progress",
        sa.Column("subscription_id", sa.String(36), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("held_since", sa.BigInteger),
        sa.Column("behind_since", UtcDateTime()),
        sa.Column("last_notify_time", UtcDateTime()),
        sa.Column("last_notify_status", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failing_since", UtcDateTime()),
        sa.Column("next_attempt_at", UtcDateTime()),
        **_OPTIONS,
    )


def _create_deliveries() -> None:
    auto = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", auto, primary_key=True, autoincrement=True),
        sa.Column("webhook_id", sa.String(64), nullable=False, unique=True),
        sa.Column("subscription_id", sa.String(36), nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("previous_sequence", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("content_type", sa.String(128), nullable=False),
        sa.Column("body", blob_type()),
        sa.Column("attempts", Document(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime()),
        **_OPTIONS,
    )
    op.create_index("ix_webhook_deliveries_ended_at", "webhook_deliveries", ["ended_at"])
    op.create_index("ix_webhook_deliveries_subscription", "webhook_deliveries", ["subscription_id", "id"])
    op.create_index("ix_webhook_deliveries_state", "webhook_deliveries", ["state", "subscription_id"])
