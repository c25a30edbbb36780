# SPDX-License-Identifier: Apache-2.0
"""A commit whose connection freezes, deadlocks, and the time limits of a session."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest
import sqlalchemy as sa
from oslo_config import cfg
from oslo_db.exception import DBError

from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.conftest import connecting_patiently
from tests.functional.storage.writing import seqs
from tests.simulated import NOON
from tests.waiting import PATIENCE_SECONDS, Deadline, deadline, wait_until
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, HeadMoved, LeaseLost
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage.database.database import retried, run_with_retries, translated
from watcher_sync.storage.database.time_limits import CommitWatch
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.commits import Commit, Fence
from watcher_sync.storage.writing.locked import lock_head
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

T = TypeVar("T")

_TIMEOUT = 4.0
_HEALTHY_TIMEOUT = 60.0
"""Longer than a wait for a lock, which is as long as a transaction may be idle."""
_IDLE = 2
_HEALTHY_IDLE = 30
_PAUSES = 40.0
"""Seconds that a loaded machine may add. With them, the limit of commits is still below that of other statements."""
_SERVERS = ["postgresql", "mariadb"]


@pytest.fixture
def declared_kinds() -> Kinds:
    return builtin_kinds()


class Site:
    """A database behind a proxy with short time limits, and one in front of it.

    :param direct_idle: the limit of an idle transaction in front of the proxy, in seconds.
    """

    def __init__(self, url: str, proxy: FaultyProxy, direct_idle: int = _HEALTHY_IDLE) -> None:
        far = sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        self.proxy = proxy
        self.store, self.direct = _opened(far, _TIMEOUT, _IDLE), _opened(url, _HEALTHY_TIMEOUT, direct_idle)


@pytest.fixture(params=_SERVERS)
def site(request: pytest.FixtureRequest) -> Iterator[Site]:
    url = str(request.getfixturevalue(f"migrated_{request.param}_url"))
    port = sa.make_url(url).port
    assert port is not None
    with FaultyProxy(port) as proxy:
        site = Site(url, proxy)
        yield site
        proxy.cut()
        for store in (site.store, site.direct):
            store.dispose()


def _opened(url: str, commit_timeout: float, idle: int) -> Store:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in {"connection": url, "commit_timeout": commit_timeout, "idle_transaction_timeout": idle}.items():
        conf.set_override(name, value, group="database")
    store = open_store(conf, builtin_kinds(), checked=False)
    connecting_patiently(store.database)
    connecting_patiently(store.commits)
    return store


def _commit(model: Model, version: str) -> Commit:
    transaction = Transaction(model)
    change = Upsert("compute_node", "host", Version(version), {"service": {"disabled_reason": version}})
    transaction.apply(Event(id=f"e{version}", type="host.seen", source="nova", time=NOON), [change])
    return Commit(generation=model.generation, staged=transaction.staged())


def _answered(work: Callable[[], T]) -> T:
    """What it returns. A pause of the machine may exceed the time limits of the store behind the proxy."""
    limit = Deadline(PATIENCE_SECONDS)
    while True:
        try:
            return work()
        except DatabaseUnavailable:
            assert not limit.is_over


def _committed(store: Store, model: Model, version: str) -> None:
    """Commit as an engine does: it reads the journal over a new connection, and commits on top of what happened."""
    generation = model.generation

    def is_written() -> bool:
        with contextlib.suppress(DatabaseUnavailable):
            store.catch_up(model)
            if model.generation == generation:
                store.commit(_commit(model, version))
                store.catch_up(model)
        return model.generation > generation

    wait_until(is_written, what="the commit")


def _seconds_to_fail(store: Store, model: Model, frozen: threading.Event) -> float:
    """How long a commit took that was frozen. A pause of the machine may end another one before it."""
    while True:
        began = time.monotonic()
        with pytest.raises(DatabaseUnavailable):
            store.commit(_commit(model, "2"))
        if frozen.is_set():
            return time.monotonic() - began


def test_a_process_that_stops_when_it_has_the_head_and_wrote_nothing_yet_does_not_keep_it(
    site: Site, figure: Callable[[str], None]
) -> None:
    """The update that locks the head changes nothing, so the server has not seen a write."""
    began = 0.0
    while not began:  # a pause of the machine may end the session before
        with pytest.raises(DatabaseUnavailable), lock_head(site.store):
            site.proxy.silence()
            began, limit = time.monotonic(), Deadline(PATIENCE_SECONDS)
            while True:
                try:
                    with lock_head(site.direct):
                        break
                except DatabaseUnavailable:
                    assert not limit.is_over
    figure(f"the head is free after {time.monotonic() - began:.1f} s")


def test_a_lease_is_renewed_over_a_new_connection_if_the_old_one_freezes_before_any_statement(site: Site) -> None:
    pool = site.store.commits  # its connections have a short time limit
    lease = EngineLease(pool, site.store.tables, "engine:default", seconds=6.0, holder="machine/1")
    assert _answered(lease.try_take)
    sa.event.listen(pool, "checkout", lambda *_: site.proxy.silence(), once=True)
    lease.beat()
    view = _answered(lease.read)
    assert view is not None
    assert view.beat == 1


@pytest.mark.parametrize("is_lost", ["commit", "answer"])
def test_a_commit_without_an_answer_ends_in_time_and_the_head_says_whether_it_happened(
    site: Site, is_lost: str, figure: Callable[[str], None]
) -> None:
    model = _answered(site.store.load)
    _committed(site.store, model, "1")
    frozen = threading.Event()

    def freeze(_connection: sa.Connection) -> None:
        frozen.set()
        if is_lost == "commit":
            site.proxy.silence()
        else:
            site.proxy.discard_answers()

    sa.event.listen(site.store.commits, "commit", freeze, once=True)
    limit = Deadline(_TIMEOUT + _PAUSES)
    failed = _seconds_to_fail(site.store, model, frozen)
    assert not limit.is_over
    assert site.store.watch.unanswered_seconds >= _TIMEOUT

    began = time.monotonic()
    _answered(lambda: site.store.catch_up(model))
    assert model.generation == (1 if is_lost == "commit" else 2)
    _committed(site.store, model, "3")
    figure(f"{is_lost} lost: failed after {failed:.1f} s, committed again {time.monotonic() - began:.1f} s later")
    assert site.store.watch.unanswered_seconds == 0
    assert seqs(site.direct) == list(range(1, model.generation + 1))


def test_a_commit_frozen_within_its_statements_does_not_block_the_next_one(site: Site) -> None:
    model = _answered(site.store.load)
    _committed(site.store, model, "1")
    frozen = threading.Event()

    def freeze(*_: object) -> None:
        frozen.set()
        site.proxy.silence()

    sa.event.listen(site.store.commits, "after_cursor_execute", freeze, once=True)
    _seconds_to_fail(site.store, model, frozen)
    _committed(site.store, model, "2")
    assert seqs(site.direct) == [1, 2]


def test_the_clock_of_the_database_is_read_within_the_time_limit_of_a_commit(site: Site) -> None:
    """The engine's thread reads it: while that waits, nothing is committed and the lease is renewed."""
    assert _answered(site.store.time.read) is not None
    site.proxy.silence()
    limit = Deadline(_TIMEOUT + _PAUSES)
    assert site.store.time.read() is not None
    assert not limit.is_over


@pytest.mark.parametrize("service", _SERVERS)
def test_a_session_that_stops_within_a_pipeline_is_ended(request: pytest.FixtureRequest, service: str) -> None:
    """Many rows of one statement are a pipeline on PostgreSQL: the server does not count its session as idle."""
    url = str(request.getfixturevalue(f"migrated_{service}_url"))
    with FaultyProxy(sa.make_url(url).port or 0) as proxy:
        site = Site(url, proxy, direct_idle=_IDLE)  # its own limit is the one after which it ends the other session
        cursors = site.store.tables.source_cursors
        insert = sa.insert(cursors).values(source=sa.bindparam("s"), position="x" * 200, updated_at=NOON)
        connection = site.store.database.connect()
        connection.begin()
        connection.execute(sa.update(site.store.tables.journal_head).values(seq=0))
        proxy.silence_after(20_000)

        def write() -> None:
            with pytest.raises((sa.exc.DBAPIError, DBError)):
                connection.execute(insert, [{"s": f"s{i}"} for i in range(5_000)])

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        _committed(site.direct, _answered(site.direct.load), "1")
        proxy.cut()
        thread.join(deadline(60))
        connection.close()
        for store in (site.store, site.direct):
            store.dispose()


def test_a_deadlock_is_retried_and_is_no_outage(site: Site) -> None:
    cursors = site.direct.tables.source_cursors
    with site.direct.database.begin() as connection:
        connection.execute(
            sa.insert(cursors), [{"source": name, "position": "0", "updated_at": NOON} for name in ("a", "b")]
        )
    barrier = threading.Barrier(2)
    runs: list[str] = []
    done = {"a": threading.Event(), "b": threading.Event()}

    def swap(first: str, second: str) -> None:
        is_first_run = True

        def work() -> None:
            nonlocal is_first_run
            runs.append(first)
            if not is_first_run:
                done[second].wait(deadline(60))  # else it may lock its row before the other one, which waits for it
            with translated(), site.direct.database.begin() as connection:
                connection.execute(sa.update(cursors).where(cursors.c.source == first).values(position=first))
                if is_first_run:
                    is_first_run = False
                    barrier.wait(deadline(60))
                connection.execute(sa.update(cursors).where(cursors.c.source == second).values(position=first))

        run_with_retries(work)
        done[first].set()

    threads = [threading.Thread(target=swap, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(deadline(60))
    assert len(runs) == 3, "one of the two was the victim, and ran again"
    assert len(set(site.direct.cursors().values())) == 1


@pytest.mark.parametrize("site", ["mariadb"], indirect=True)
def test_a_deadlock_of_a_commit_under_the_locked_head_is_retried(site: Site) -> None:
    store, cursors = site.direct, site.direct.tables.source_cursors
    rows = [{"source": f"s{i}", "position": "0", "updated_at": NOON} for i in range(300)]
    has_row, has_head = threading.Event(), threading.Event()
    runs: list[str] = []

    def block() -> None:
        with store.database.begin() as connection:
            connection.execute(sa.insert(cursors), rows)  # InnoDB ends the transaction with fewer rows
            has_row.set()
            has_head.wait(deadline(60))
            connection.execute(sa.update(store.tables.journal_head).values(seq=0))

    @retried
    def work() -> None:
        runs.append("run")
        with lock_head(store) as (locked, _):
            has_head.set()
            locked.commit(Commit(generation=0, cursors={"s0": "1"}))

    thread = threading.Thread(target=block)
    thread.start()
    assert has_row.wait(deadline(60))
    work()
    thread.join(deadline(60))
    assert len(runs) == 2, "it was the victim, and ran again"
    assert store.cursors()["s0"] == "1"


def test_a_commit_of_an_engine_does_not_lock_its_lease(site: Site) -> None:
    leases = site.direct.tables.leases
    with site.direct.database.begin() as connection:
        row = {"name": "g", "holder": "a", "token": 1, "beat": 0, "since": NOON, "heartbeat_at": NOON}
        connection.execute(sa.insert(leases).values(**row))
    taken: list[bool] = []

    def take(_connection: sa.Connection) -> None:
        with site.direct.database.begin() as connection:
            # The server ends one of the two transactions if the row is locked.
            connection.execute(sa.update(leases).values(token=2))
        taken.append(True)

    sa.event.listen(site.direct.commits, "commit", take, once=True)
    site.direct.commit(Commit(generation=0, cursors={"nova": "1"}, fence=Fence("g", 1)))
    assert taken
    with pytest.raises((LeaseLost, HeadMoved)):
        site.direct.commit(Commit(generation=0, cursors={"nova": "2"}, fence=Fence("g", 1)))


def test_the_time_limit_of_commits_doubles_while_the_database_is_slower() -> None:
    watch = CommitWatch(0.01, 0.03)

    def wait_in_vain() -> None:
        threading.Event().wait(watch.seconds)
        raise DatabaseUnavailable("no answer")

    for expected in (0.02, 0.03, 0.03):
        with pytest.raises(DatabaseUnavailable):
            watch.run(wait_in_vain)
        assert watch.seconds == expected
    assert watch.unanswered_seconds > 0
    watch.run(lambda: None)
    assert (watch.seconds, watch.unanswered_seconds) == (0.01, 0)
