# SPDX-License-Identifier: Apache-2.0
"""A body that is too large for the database is stored as an excerpt, and never taken for an outage."""

from __future__ import annotations

import hashlib

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on, meter, rows
from tests.services.servers import Server
from tests.simulated import told
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.replay import decoded_again
from watcher_sync.events import EXCERPT_BYTES, Event
from watcher_sync.exceptions import RowRefused
from watcher_sync.model.changes import Upsert
from watcher_sync.storage.schema import schema
from watcher_sync.storage.stored.quarantine import Quarantine
from watcher_sync.storage.stored.stored_events import RefusedEvent
from watcher_sync.storage.writing.commits import Commit
from watcher_sync.storage.writing.statements import Statement
from watcher_sync.storage.writing.store import Store

LARGE = b'"' * 8_500_000
"""Escaped it has 17 MB."""


def large(number: int, body: bytes = LARGE) -> Event:
    return Event(id=f"e-{number}", type="t", source="test", data=body, undecodable="no JSON", size=len(body))


def test_a_body_of_8_5_mb_is_quarantined_with_digest_and_length_and_the_rest_is_applied(store):
    cycle = cycle_on(store)
    cycle.run(Batch(events=[told(1, meter("a")), large(2), told(3, meter("b"))]))
    (row,) = rows(store, "quarantine")
    assert {found.id for found in rows(store, "meters")} == {"a", "b"}
    if store.database.dialect.name == "mysql":
        assert bytes(row.body) == LARGE[:EXCERPT_BYTES]
        assert (row.whole_size, row.whole_digest) == (len(LARGE), hashlib.sha256(LARGE).hexdigest())
        ((row_id, event),) = Quarantine(store).events()
        again = decoded_again(row_id, event)
        assert (again.undecodable, again.whole_size) == ("no JSON", len(LARGE))
        assert Quarantine(store).show(row_id)["whole_digest"] == row.whole_digest
    else:
        assert bytes(row.body) == LARGE
        assert row.whole_size is None


def test_a_large_body_that_is_delivered_again_is_stored_once(store):
    cycle = cycle_on(store)
    commit(cycle, large(1))
    commit(cycle, large(1))
    assert [row.deliveries for row in rows(store, "quarantine")] == [2]


def test_with_a_small_max_allowed_packet_rows_of_the_model_are_refused_and_batches_are_split(own_mariadb: Server):
    plain = sa.create_engine(own_mariadb.url, isolation_level="AUTOCOMMIT")
    with plain.connect() as connection:
        connection.exec_driver_sql("SET GLOBAL max_allowed_packet = 1048576")
        connection.exec_driver_sql("CREATE DATABASE small CHARACTER SET utf8mb4")
    plain.dispose()
    store = opened(sa.make_url(own_mariadb.url).set(database="small").render_as_string(hide_password=False))
    schema.upgrade(store.database, store.tables)
    cycle = cycle_on(store)
    metadata = [
        Upsert(
            "instance",
            f"i{n}",
            "1",
            {"state": {}, "details": {"metadata": {"x": "x" * size}}, "flavor": {"extra_specs": {"x": "x" * size}}},
        )
        for n, size in enumerate([10, 520_000, 10])
    ]
    cycle.run(Batch(events=[told(n, change) for n, change in enumerate(metadata)]))
    assert {row.id for row in rows(store, "instances")} == {"i0", "i2"}
    (refused,) = rows(store, "quarantine")
    assert refused.event_id == "event-1"
    assert "exceeds max_allowed_packet of 1048576 bytes" in refused.reason
    many = [
        Upsert("instance", f"m{n}", "1", {"state": {}, "details": {"metadata": {"x": "y" * 30_000}}})
        for n in range(100)
    ]
    cycle.run(Batch(events=[told(10 + n, change) for n, change in enumerate(many)]))
    assert len(rows(store, "instances")) == 102
    commit(cycle, large(99, b"z" * 700_000))
    assert rows(store, "quarantine")[-1].whole_size == 700_000
    _unforeseen(store)
    store.close()
    store.database.dispose()


def _unforeseen(store: Store) -> None:
    """A statement that is too large in a way that nothing foresaw."""
    prepared = store.prepare(Commit(generation=0, quarantined=[RefusedEvent(large(100, b"a"), "r")]))
    prepared.statements.append(Statement("SELECT LENGTH(%s)", ("x" * 2_000_000,)))
    with pytest.raises(RowRefused, match=r"ended the connection|max_allowed_packet"):
        store._run(prepared)
    assert len(rows(store, "quarantine")) == 2
