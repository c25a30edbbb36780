# SPDX-License-Identifier: Apache-2.0
"""The tables: one per entity kind, derived from its declaration, and the few that hold the rest.

``db_sync`` creates the tables of kinds from the declarations. The migrations create the others, so that an upgrade is
explicit; a test holds both against each other.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from watcher_sync.model.kinds import Kind, Kinds
from watcher_sync.storage.database.types import (
    AUTO_ID,
    TABLE_OPTIONS,
    DeltaDocument,
    JsonDocument,
    MessageText,
    UtcDateTime,
    VersionsDocument,
    blob_type,
    column_type,
)
from watcher_sync.storage.schema import outlet_tables


def _event_columns() -> list[Any]:
    """The columns of a quarantined or parked event."""
    return [
        sa.Column("id", AUTO_ID, primary_key=True, autoincrement=True),
        sa.Column("digest", sa.String(64), nullable=False, unique=True),
        sa.Column("event_id", sa.String(255), nullable=False),
        sa.Column("event_type", sa.String(255), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("origin", sa.String(255), nullable=False),
        sa.Column("subject", sa.String(255), nullable=False),
        sa.Column("time", UtcDateTime()),
        sa.Column("decoded", sa.Boolean, nullable=False),
        sa.Column("body", blob_type(), nullable=False),
        sa.Column("deliveries", sa.BigInteger, nullable=False),
        sa.Column("channel", sa.String(255)),
        sa.Column("stream_epoch", sa.BigInteger),
        sa.Column("stream_sequence", sa.BigInteger),
        sa.Column("size", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("whole_size", sa.BigInteger),
        sa.Column("whole_digest", sa.String(64)),
        sa.Column("actor", JsonDocument()),
    ]


class Tables:
    """All tables of a set of kinds, in one metadata."""

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.metadata = metadata = sa.MetaData()
        self.entities = {name: self._entity(declared) for name, declared in kinds.items()}
        self.tombstones = _tombstones(metadata)
        self.schema_compatibility = _schema_compatibility(metadata)
        self.journal_head = _journal_head(metadata)
        self.former_epochs = _former_epochs(metadata)
        self.journal = _journal(metadata)
        self.source_cursors = _source_cursors(metadata)
        self.quarantine = _quarantine(metadata)
        self.parked = _parked(metadata)
        self.leases = _leases(metadata)
        self.operation_leases = _operation_leases(metadata)
        self.operations = _operations(metadata)
        self.engines = _engines(metadata)
        self.source_status = _source_status(metadata)
        self.drifts = _drifts(metadata)
        self.inventories = _inventories(metadata)
        self.subscription_head = outlet_tables.subscription_head(metadata)
        self.subscriptions = outlet_tables.subscriptions(metadata)
        self.subscription_progress = outlet_tables.subscription_progress(metadata)
        self.webhook_deliveries = outlet_tables.webhook_deliveries(metadata)
        self.outlet_workers = outlet_tables.outlet_workers(metadata)
        self.outlet_shards = outlet_tables.outlet_shards(metadata)
        self.outlet_cursors = outlet_tables.outlet_cursors(metadata)
        self.watch_topics = outlet_tables.watch_topics(metadata)
        self.watch_positions = outlet_tables.watch_positions(metadata)

    def _entity(self, declared: Kind) -> sa.Table:
        fields = declared.fields.values()
        return sa.Table(
            declared.plural,
            self.metadata,
            sa.Column("id", sa.String(255), primary_key=True),
            *(sa.Column(f.name, column_type(f), nullable=f.nullable) for f in fields),
            sa.Column("seq", sa.BigInteger, nullable=False),
            sa.Column("versions", VersionsDocument(), nullable=False),
            *_indexes(declared),
            **TABLE_OPTIONS,
        )


def tables_of(kinds: Kinds) -> Tables:
    """The tables of these kinds. The stores of a process share them, because nothing changes tables."""
    return _tables_of(tuple(kinds.values()))


@functools.cache
def _tables_of(kinds: tuple[Kind, ...]) -> Tables:
    return Tables(Kinds(*(each.cls for each in kinds)))


def _indexes(declared: Kind) -> Iterator[sa.Index]:
    """The indexes of a kind's table.

    A filter index has the id, too: it has the rows of one value in the order of a list. On PostgreSQL its operator
    class compares texts by their characters, as prefixes need it.
    """
    for name in declared.indexes:
        is_left_out = name in declared.low_cardinality or name in declared.filter_indexes
        if declared.fields[name].python is str and not is_left_out:
            yield sa.Index(f"ix_{declared.plural}_{name}", name)
    for name in declared.filter_indexes:
        operators = {name: "varchar_pattern_ops"} if declared.fields[name].python is str else {}
        yield sa.Index(f"ix_{declared.plural}_{name}", name, "id", postgresql_ops=operators)


def _tombstones(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "tombstones",
        metadata,
        sa.Column("kind", sa.String(64), primary_key=True),
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("versions", VersionsDocument(), nullable=False),
        sa.Column("deleted_at", UtcDateTime(), nullable=False, index=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
        **TABLE_OPTIONS,
    )


def _schema_compatibility(metadata: sa.MetaData) -> sa.Table:
    """One row: the oldest revision whose release can work on this schema."""
    return sa.Table(
        "schema_compatibility",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("oldest_revision", sa.String(32), nullable=False),
        **TABLE_OPTIONS,
    )


def _journal_head(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "journal_head",
        metadata,
        sa.Column("id", sa.Integer, primary_key=True, autoincrement=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("epoch", sa.String(32), nullable=False, server_default=""),
        sa.Column("mark", sa.BigInteger, nullable=False, server_default="0"),
        **TABLE_OPTIONS,
    )


def _former_epochs(metadata: sa.MetaData) -> sa.Table:
    """The epochs that this database had before the present one, or its original if it is a copy (not ``is_own``)."""
    return sa.Table(
        "former_epochs",
        metadata,
        sa.Column("epoch", sa.String(32), primary_key=True),
        sa.Column("is_own", sa.Boolean, nullable=False),
        **TABLE_OPTIONS,
    )


def _journal(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "journal",
        metadata,
        sa.Column("seq", AUTO_ID, primary_key=True, autoincrement=False),
        sa.Column("time", UtcDateTime(), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("entity_id", sa.String(255), nullable=False),
        sa.Column("change", sa.String(16), nullable=False),
        sa.Column("delta", DeltaDocument(), nullable=False),
        sa.Column("versions", VersionsDocument(), nullable=False),
        sa.Column("event_id", sa.String(255), nullable=False),
        sa.Column("event_type", sa.String(255), nullable=False),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("merged", sa.Integer, nullable=False),
        sa.Column("actor", JsonDocument()),
        sa.Column("project_id", sa.String(255)),
        sa.Column("mark", sa.BigInteger),
        sa.Index("ix_journal_entity", "entity_id", "seq"),
        sa.Index("ix_journal_kind", "kind", "seq"),
        sa.Index("ix_journal_project", "project_id", "seq"),
        **TABLE_OPTIONS,
    )


def _source_cursors(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "source_cursors",
        metadata,
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("position", MessageText(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        **TABLE_OPTIONS,
    )


def _quarantine(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "quarantine",
        metadata,
        *_event_columns(),
        sa.Column("received_at", UtcDateTime(), nullable=False, index=True),
        sa.Column("reason", MessageText(), nullable=False),
        sa.Column("detail", MessageText(), nullable=False),
        sa.Index("ix_quarantine_source", "source", "id", "size"),
        **TABLE_OPTIONS,
    )


def _parked(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "parked",
        metadata,
        *_event_columns(),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("entity_id", sa.String(255), nullable=False),
        sa.Column("parked_at", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False, index=True),
        sa.Index("ix_parked_entity", "kind", "entity_id"),
        sa.Index("ix_parked_source", "source", "id", "size"),
        **TABLE_OPTIONS,
    )


def _leases(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "leases",
        metadata,
        sa.Column("name", sa.String(255), primary_key=True),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("beat", sa.BigInteger, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        **TABLE_OPTIONS,
    )


def _owner_columns() -> list[Any]:
    """The columns of the owner of an operation lease."""
    return [
        sa.Column("user_id", sa.String(255)),
        sa.Column("project_id", sa.String(255)),
        sa.Column("secret_digest", sa.String(64)),
    ]


def _operation_leases(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "operation_leases",
        metadata,
        sa.Column("kind", sa.String(64), primary_key=True),
        sa.Column("entity_id", sa.String(255), primary_key=True),
        sa.Column("id", sa.String(36), nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("operation", sa.String(64), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("expires_at", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        *_owner_columns(),
        **TABLE_OPTIONS,
    )


def _operations(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "operations",
        metadata,
        sa.Column("id", sa.String(36), primary_key=True),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("entity_id", sa.String(255), nullable=False),
        sa.Column("token", sa.BigInteger, nullable=False),
        sa.Column("holder", sa.String(255), nullable=False),
        sa.Column("operation", sa.String(64), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("ended_at", UtcDateTime(), index=True),
        *_owner_columns(),
        sa.Index("ix_operations_entity", "kind", "entity_id", "token", unique=True),
        **TABLE_OPTIONS,
    )


def _engines(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "engines",
        metadata,
        sa.Column("id", sa.String(255), primary_key=True),
        sa.Column("engine_group", sa.String(255), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("release", sa.String(64), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("heartbeat_at", UtcDateTime(), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("lag_seconds", sa.Double, nullable=False),
        sa.Column("sources", JsonDocument(), nullable=False),
        sa.Column("stopped_at", UtcDateTime()),
        **TABLE_OPTIONS,
    )


def _source_status(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "source_status",
        metadata,
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("engine_group", sa.String(255), nullable=False),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("pid", sa.BigInteger, nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("detail", MessageText(), nullable=False),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("lag", sa.BigInteger),
        sa.Column("last_event_at", UtcDateTime()),
        sa.Column("last_full_sync_at", UtcDateTime()),
        sa.Column("reconnects", sa.BigInteger, nullable=False),
        sa.Column("restarts", sa.BigInteger, nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        sa.Column("current_until", UtcDateTime()),
        sa.Column("notes", MessageText()),
        sa.Column("scopes", MessageText()),
        **TABLE_OPTIONS,
    )


def _drifts(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "drifts",
        metadata,
        sa.Column("id", AUTO_ID, primary_key=True, autoincrement=True),
        sa.Column("source", sa.String(255), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        sa.Column("entity_id", sa.String(255), nullable=False),
        sa.Column("field", sa.String(64), nullable=False),
        sa.Column("model_value", JsonDocument()),
        sa.Column("live_value", JsonDocument()),
        sa.Column("since", UtcDateTime(), nullable=False),
        sa.Column("policy", sa.String(16), nullable=False),
        sa.Index("ix_drifts_entity", "source", "kind", "entity_id", "field", unique=True),
        **TABLE_OPTIONS,
    )


def _inventories(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        "inventories",
        metadata,
        sa.Column("source", sa.String(255), primary_key=True),
        sa.Column("complete_since", UtcDateTime()),
        sa.Column("last_complete_at", UtcDateTime()),
        sa.Column("changes_since", UtcDateTime()),
        sa.Column("problem", MessageText(), nullable=False),
        sa.Column("updated_at", UtcDateTime(), nullable=False),
        **TABLE_OPTIONS,
    )
