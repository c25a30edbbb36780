# SPDX-License-Identifier: Apache-2.0
"""The journal for the outlets of a process: prompt, without a gap, and with few queries."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa

from tests.functional.storage.conftest import opened
from tests.functional.webhooks.subscribing import Instances
from tests.migrated import migrate
from tests.services.servers import Server
from tests.setting_back import Backup
from tests.waiting import Deadline, deadline, seconds_until, wait_until
from watcher_sync.exceptions import DatabaseUnavailable, HistoryChanged, JournalPurged
from watcher_sync.read import journal_reader, journal_signal
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

INTERVAL = 0.02


class Statements:
    """The queries of a store's connections."""

    def __init__(self, store: Store) -> None:
        self.texts: list[str] = []
        sa.event.listen(store.database, "before_cursor_execute", self._note)

    def _note(self, _connection: object, _cursor: object, statement: str, *_: object) -> None:
        self.texts.append(statement)

    def of(self, table: str) -> int:
        return sum(f"FROM {table}" in text.replace("\n", " ") for text in self.texts)


class Follower:
    """An outlet that reads after each wake-up, in its own thread."""

    def __init__(self, reader: JournalReader) -> None:
        self.seqs: list[int] = []
        self._reader = reader
        self._woken = threading.Event()
        self._stopped = False
        self._since = reader.head()
        self._unsubscribe = reader.subscribe(self._woken.set)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped = True
        self._unsubscribe()
        self._woken.set()
        self._thread.join(deadline(10))

    def _run(self) -> None:
        while not self._stopped:
            self._woken.wait(deadline(60))
            self._woken.clear()
            while self._reader.seen() > self._since:
                with contextlib.suppress(DatabaseUnavailable):
                    rows = self._reader.read(self._since)
                    self.seqs += [row.seq for row in rows]
                    self._since = rows[-1].seq


@contextlib.contextmanager
def reading(store: Store, *, interval: float = INTERVAL) -> Iterator[JournalReader]:
    reader = JournalReader(store.database, store.tables, interval=interval)
    reader.start()
    try:
        wait_until(lambda: reader.seen() >= 0, what="the first look at the journal")
        yield reader
    finally:
        reader.stop()


@contextlib.contextmanager
def following(reader: JournalReader, count: int) -> Iterator[list[Follower]]:
    followers = [Follower(reader) for _ in range(count)]
    try:
        yield followers
    finally:
        for each in followers:
            each.stop()


def backends(store: Store) -> list[int]:
    """The sessions of PostgreSQL that wait for announcements."""
    query = sa.text(
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND query LIKE 'LISTEN%' AND state = 'idle'"
    )
    with store.database.connect() as connection:
        return list(connection.execute(query).scalars())


def test_fifty_outlets_cost_one_read_of_the_new_rows(new_store: Callable[[], Store]) -> None:
    store, instances = new_store(), Instances(new_store())
    with reading(store) as reader, following(reader, 50) as followers:
        statements = Statements(store)
        for round_ in range(1, 4):
            head = instances.write(range(10))
            wait_until(lambda head=head: all(each.seqs[-1:] == [head] for each in followers))
            assert statements.of("journal ") == 2 * round_  # one is for the mark of the last known row
        assert all(each.seqs == list(range(1, head + 1)) for each in followers)


def test_a_commit_wakes_the_outlets_at_once(new_store: Callable[[], Store], figure: Callable[[str], None]) -> None:
    store, instances = new_store(), Instances(new_store())
    seconds = []
    with reading(store) as reader, following(reader, 1) as (follower,):
        for number in range(7):
            head = instances.write([number])
            seconds.append(seconds_until(lambda head=head: follower.seqs[-1:] == [head]))
    figure(f"woken after {sorted(seconds)[3] * 1000:.0f} ms, at most {max(seconds) * 1000:.0f} ms")
    # The fastest one: a loaded machine makes any of the others late. PostgreSQL without announcements takes 5 s.
    assert min(seconds) < 1.0


def test_an_outlet_far_behind_reads_every_row(new_store: Callable[[], Store]) -> None:
    store, instances = new_store(), Instances(new_store())
    for _ in range(3):
        head = instances.write(range(40))
    with reading(store) as reader:
        assert reader.cached(0) == []
        rows = []
        while len(rows) < head:
            rows += reader.read(len(rows), 50)
        assert [row.seq for row in rows] == list(range(1, head + 1))


def test_a_position_that_was_purged_is_refused(new_store: Callable[[], Store]) -> None:
    store, instances = new_store(), Instances(new_store())
    instances.write(range(10))
    t = store.tables.journal
    with store.database.begin() as connection:
        connection.execute(sa.delete(t).where(t.c.seq <= 5))
    with reading(store) as reader:
        for since in (0, 4):
            with pytest.raises(JournalPurged):
                reader.read(since)
        assert [row.seq for row in reader.read(5)] == [6, 7, 8, 9, 10]


@pytest.mark.parametrize("is_late", [False, True], ids=["before the next poll", "after it"])
def test_another_history_is_noticed_that_only_an_outlet_ahead_of_the_thread_can_notice(
    new_store: Callable[[], Store], is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is behind the cache, and reads a row of the table that the thread has not read, and that is lost then."""
    monkeypatch.setattr(journal_reader, "MAX_CACHED_ROWS", 1)
    store, instances = new_store(), Instances(new_store())
    with reading(store, interval=2.0) as reader:
        head = instances.write(range(3))
        wait_until(lambda: reader.seen() == head)
        epoch, backup = reader.position().epoch, Backup(store)
        lost = instances.write([8])
        assert [row.seq for row in reader.read(0)] == [*range(1, lost + 1)]
        backup.restore()
        others = Instances(new_store())
        with contextlib.suppress(HistoryChanged):  # the thread was faster, and has renewed the epoch
            for number in range(20, 24):
                others.write([number])
        if not is_late:
            with contextlib.suppress(JournalPurged):
                reader.read(lost)  # these rows must not count as the history that the outlet has read
        wait_until(lambda: not reader.is_of(epoch))


def test_postgresql_is_not_polled_while_nothing_happens(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_signal, "_SAFEGUARD_SECONDS", 600.0)
    stores = [opened(migrated_postgresql_url, builtin_kinds()) for _ in range(3)]
    store, other, watching = stores
    instances = Instances(other)
    with reading(store) as reader, following(reader, 1) as (follower,):
        wait_until(lambda: backends(watching), what="a session that listens")
        head = instances.write([1])
        wait_until(lambda: follower.seqs[-1:] == [head])
        statements = Statements(store)

        def is_quiet() -> bool:
            """No query in a second, where polls would be at 20 ms. An announcement may still be on its way at first."""
            statements.texts.clear()
            limit = Deadline(1.0)
            wait_until(lambda: limit.is_over)
            return not statements.texts

        wait_until(is_quiet, what="a second without a query")
        # The wait ends at the next commit, which shows that the reader still listens.
        head = instances.write([1])
        wait_until(lambda: follower.seqs[-1:] == [head])
    dispose(stores)


def test_a_killed_session_of_postgresql_is_replaced_and_no_row_is_lost(migrated_postgresql_url: str) -> None:
    stores = [opened(migrated_postgresql_url, builtin_kinds()) for _ in range(3)]
    store, other, watching = stores
    instances = Instances(other)
    with reading(store) as reader, following(reader, 3) as followers:
        for _ in range(3):
            wait_until(lambda: backends(watching), what="a session that listens")
            with watching.database.begin() as connection:
                connection.execute(
                    sa.text(
                        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                        " WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE 'LISTEN%'"
                    )
                )
            head = instances.write([1, 2])
            wait_until(lambda head=head: all(each.seqs[-1:] == [head] for each in followers))
        assert all(each.seqs == list(range(1, head + 1)) for each in followers)
    dispose(stores)


def test_announcements_that_do_not_arrive_lead_to_polls(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_signal, "_SAFEGUARD_SECONDS", 3.0)
    stores = [opened(migrated_postgresql_url, builtin_kinds()) for _ in range(2)]
    store, other = stores
    with other.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE journal_head DISABLE TRIGGER USER"))
    instances = Instances(other)
    with reading(store) as reader, following(reader, 1) as (follower,):
        wait_until(lambda: reader._signal._connection is not None, what="a session that listens")

        def written_and_polled() -> bool:
            # A commit may be before the first query, which follows the connection in any case.
            head = instances.write([1])
            wait_until(lambda: follower.seqs[-1:] == [head])
            return not reader._signal.listens

        wait_until(written_and_polled, what="the end of the listening")
        monkeypatch.setattr(journal_signal, "_SAFEGUARD_SECONDS", 600.0)  # nothing but polls finds the rest in time
        for _ in range(2):
            head = instances.write([1])
            wait_until(lambda head=head: follower.seqs[-1:] == [head])
    with other.database.begin() as connection:
        connection.execute(sa.text("ALTER TABLE journal_head ENABLE TRIGGER USER"))
    dispose(stores)


def test_a_backlog_beyond_one_read_is_read_at_once_and_does_not_end_the_listening(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_reader, "MAX_CACHED_ROWS", 20)
    # The query of the safeguard may come before an announcement that the server sends late.
    monkeypatch.setattr(journal_signal, "_SAFEGUARD_SECONDS", 600.0)
    stores = [opened(migrated_postgresql_url, builtin_kinds()) for _ in range(2)]
    store, other = stores
    instances = Instances(other)
    with reading(store) as reader, following(reader, 1) as (follower,):
        wait_until(lambda: reader._signal._connection is not None, what="a session that listens")
        for _ in range(3):
            head = instances.write(range(90))  # one commit, which is announced once
            wait_until(lambda head=head: follower.seqs[-1:] == [head])
        assert follower.seqs == list(range(1, head + 1))
        assert reader._signal.listens
    dispose(stores)


def test_a_commit_between_a_wait_and_its_query_does_not_end_the_listening(
    migrated_postgresql_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal_signal, "_LATE_SECONDS", 60.0)  # the server may send the announcement late
    stores = [opened(migrated_postgresql_url, builtin_kinds()) for _ in range(2)]
    instances = Instances(stores[1])
    signal = journal_signal.JournalSignal(stores[0].database, INTERVAL)
    signal.wait()  # it connects
    signal._announced = False  # as after a wait to its end
    instances.write([1])
    signal.moved()
    assert signal.listens
    monkeypatch.setattr(journal_signal, "_LATE_SECONDS", 0.5)
    signal._announced = False
    signal.moved()  # a change without an announcement
    assert not signal.listens
    signal.close()
    dispose(stores)


def test_a_database_that_was_away_costs_no_row(own_postgresql: Server) -> None:
    url = own_postgresql.url
    stores = [opened(url, builtin_kinds()) for _ in range(2)]
    migrate(stores[0])
    instances = Instances(stores[1])
    with reading(stores[0]) as reader, following(reader, 2) as followers:
        head = instances.write([1])
        wait_until(lambda: all(each.seqs[-1:] == [head] for each in followers))
        own_postgresql.kill()
        with pytest.raises(DatabaseUnavailable):
            reader.head()
        own_postgresql.start()
        stores[1].close()
        head = 0
        with contextlib.suppress(DatabaseUnavailable):
            head = instances.write([1, 2, 3])
        head = head or instances.write([1, 2, 3])
        wait_until(lambda: all(each.seqs[-1:] == [head] for each in followers))
        assert all(each.seqs == list(range(1, head + 1)) for each in followers)
    dispose(stores)


def dispose(stores: list[Store]) -> None:
    """The server counts the sessions that remain."""
    for store in stores:
        store.close()
        store.database.dispose()
