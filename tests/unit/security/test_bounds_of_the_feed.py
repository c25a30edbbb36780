# SPDX-License-Identifier: Apache-2.0
"""What streams and pages hold of the journal is bounded in bytes."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from tests.simulated import telling, told
from watcher_sync.api.edge.feed import MAX_CACHED_BYTES, Feed
from watcher_sync.commit.batch import Batch
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.conf import opts
from watcher_sync.model.changes import Upsert
from watcher_sync.read.reading import read_last
from watcher_sync.storage.database import database
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.schema import schema
from watcher_sync.storage.writing.journal import read_since
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

COUNT = 150
SIZE = 400_000


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A journal of 150 rows with 400 KB each."""
    conf = cfg.ConfigOpts()
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("connection", f"sqlite:///{tmp_path_factory.mktemp('a') / 'a.sqlite'}", group="database")
    made = Store(database.open_database(conf), builtin_kinds())
    schema.upgrade(made.database, made.tables)
    cycle = CommitCycle(made, made.load(), telling())
    for n in range(COUNT):
        spec = {"service_type": "vm", "spec": {"x": "y" * SIZE}}
        cycle.run(Batch(events=[told(n, Upsert("service_type_instance", f"i{n}", "1", {"spec": spec}))]))
    yield made
    made.close()
    made.database.dispose()


@pytest.mark.slow
def test_a_read_of_the_journal_ends_at_its_bytes_and_goes_on_without_a_gap(store):
    seqs = []
    with store.database.connect() as connection:
        while rows := read_since(connection, store.tables, len(seqs), 5_000, 4_000_000):
            assert len(rows) <= 4_000_000 // SIZE + 1
            seqs += [row.seq for row in rows]
        assert len(read_last(connection, store.tables, 1_000)) <= 8_388_608 // SIZE + 1
    assert seqs == list(range(1, COUNT + 1))


def test_the_cache_of_the_feed_and_a_chunk_of_a_stream_are_bounded_in_bytes(store):
    feed = Feed(store.database, store.tables, slots=1, interval=0.1)
    with store.database.connect() as connection:
        head = read_position(connection, store.tables)
    feed._head, feed._known = 0, Position(head.epoch, 0, "")
    while feed._head < COUNT:
        feed._read_new()
    assert feed._bytes <= MAX_CACHED_BYTES
    assert 1 < len(feed._rows) <= MAX_CACHED_BYTES // SIZE
    assert feed._bytes == sum(row.size for row in feed._rows)
    chunk = feed.read(feed._rows[0].seq - 1)
    assert 1 <= len(chunk) <= 4_194_304 // SIZE + 1
    assert feed.read(COUNT) == []
