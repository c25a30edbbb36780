# SPDX-License-Identifier: Apache-2.0
"""The tables of the outlets: subscriptions and their deliveries, workers, cursors, watch topics.

The migrations create them, as those of :mod:`watcher_sync.storage.schema.tables`.
"""

from __future__ import annotations

import sqlalchemy as sa

from watcher_sync.storage.database.types import (
    AUTO_ID,
    TABLE_OPTIONS,
    JsonDocument,
    MessageText,
    UtcDateTime,
    blob_type,
    text_type,
)


def subscription_head(metadata: sa.MetaData) -> sa.Table:
    """One row: the revision of the last write to subscriptions."""
    return sa.Table(
        "subscription_head",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )


def subscriptions(metadata: sa.MetaData) -> sa.Table:
    """What subscribers wrote."""
    return sa.Table(
        "subscriptions",
        metadata,
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("instance_kind", sa.String(64), nullable=False),
        sa.Column("instance_id", sa.String(255), nullable=False),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255)),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("user_id", sa.String(255)),
        sa.Column("sees_admin_only", sa.Boolean, nullable=False),
        sa.Column("sees_all_projects", sa.Boolean, nullable=False),
        sa.Column("callback_url", text_type(None), nullable=False),
        sa.Column("min_notify_interval", sa.Double, nullable=False),
        sa.Column("metadata", JsonDocument(), nullable=False),
        sa.Column("payload", sa.String(16), nullable=False),
        sa.Column("format", sa.String(16), nullable=False),
        sa.Column("filter", JsonDocument(), nullable=False),
        sa.Column("secrets", text_type(None)),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("reason", MessageText(), nullable=False),
        sa.Column("replay_since", sa.BigInteger),
        sa.Column("start_after", sa.BigInteger, nullable=False),
        sa.Column("shard", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False, index=True),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Index("ix_subscriptions_instance", "instance_id", "name", "owner", unique=True),
        sa.Index("ix_subscriptions_project", "project_id"),
        **TABLE_OPTIONS,
    )


def subscription_progress(metadata: sa.MetaData) -> sa.Table:
    """How far each subscription is."""
    return sa.Table(
        "subscription_progress",
        metadata,
        sa.Column("subscription_id", sa.String(36), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("held_since", sa.BigInteger),
        sa.Column("behind_since", UtcDateTime()),
        sa.Column("last_notify_time", UtcDateTime()),
        sa.Column("last_notify_status", sa.Integer, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("failing_since", UtcDateTime()),
        sa.Column("next_attempt_at", UtcDateTime()),
        **TABLE_OPTIONS,
    )


def webhook_deliveries(metadata: sa.MetaData) -> sa.Table:
    """Deliveries that wait, and the log of those that ended."""
    return sa.Table(
        "webhook_deliveries",
        metadata,
        sa.Column("id", AUTO_ID, primary_key=True, autoincrement=True),
        sa.Column("webhook_id", sa.String(64), nullable=False, unique=True),
        sa.Column("subscription_id", sa.String(36), nullable=False),
        sa.Column("purpose", sa.String(16), nullable=False),
        sa.Column("previous_sequence", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("content_type", sa.String(128), nullable=False),
        sa.Column("body", blob_type()),
        sa.Column("attempts", JsonDocument(), nullable=False),
        sa.Column("next_attempt_at", UtcDateTime()),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), index=True),
        sa.Index("ix_webhook_deliveries_subscription", "subscription_id", "id"),
        sa.Index("ix_webhook_deliveries_state", "state", "subscription_id"),
        **TABLE_OPTIONS,
    )


def outlet_workers(metadata: sa.MetaData) -> sa.Table:
    """The workers that share the subscriptions."""
    return sa.Table(
        "outlet_workers",
        metadata,
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("outlet", sa.String(64), nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        **TABLE_OPTIONS,
    )


def outlet_shards(metadata: sa.MetaData) -> sa.Table:
    """Which worker owns a shard, and how far it has planned."""
    return sa.Table(
        "outlet_shards",
        metadata,
        sa.Column("outlet", sa.String(64), primary_key=True),
        sa.Column("shard", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("owner", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.String(32)),
        **TABLE_OPTIONS,
    )


def outlet_cursors(metadata: sa.MetaData) -> sa.Table:
    """How far each outlet has published on its log, and the state of its publisher."""
    return sa.Table(
        "outlet_cursors",
        metadata,
        sa.Column("outlet", sa.String(64), primary_key=True),
        sa.Column("driver", sa.String(64), nullable=False),
        sa.Column("partition", sa.String(64), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("selection", sa.String(64), nullable=False),
        sa.Column("epoch", sa.String(32), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("published_seq", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", MessageText(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        **TABLE_OPTIONS,
    )


def watch_topics(metadata: sa.MetaData) -> sa.Table:
    """The topics of the watch stream."""
    return sa.Table(
        "watch_topics",
        metadata,
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("name", sa.String(255), nullable=False),
        sa.Column("project_id", sa.String(255), nullable=False),
        sa.Column("title", sa.String(255), nullable=False),
        sa.Column("spec", JsonDocument(), nullable=False),
        sa.Column("created_at", UtcDateTime(), nullable=False),
        sa.Index("ix_watch_topics_project", "project_id", "name", unique=True),
        sa.Index("ix_watch_topics_name", "name"),
        **TABLE_OPTIONS,
    )


def watch_positions(metadata: sa.MetaData) -> sa.Table:
    """The last sequence that the REST catch-up served to a caller."""
    return sa.Table(
        "watch_positions",
        metadata,
        sa.Column("topic_id", sa.String(36), primary_key=True),
        sa.Column("tenant", sa.String(255), primary_key=True),
        sa.Column("subject", sa.String(255), primary_key=True),
        sa.Column("sequence", sa.BigInteger, nullable=False),
        sa.Column("page", sa.String(64), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False, index=True),
        **TABLE_OPTIONS,
    )
