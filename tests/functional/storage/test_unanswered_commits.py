# SPDX-License-Identifier: Apache-2.0
"""A commit whose connection freezes, deadlocks, and the time limits of a session."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.faulty_proxy import FaultyProxy
from tests.functional.storage.writing import seqs
from tests.simulated import NOON
from watcher_sync.assembly.store import open_store
from watcher_sync.conf import opts
from watcher_sync.events import Event
from watcher_sync.exceptions import DatabaseUnavailable, HeadMoved, LeaseLost
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.model.entities import builtin_kinds
from watcher_sync.model.kinds import Kinds
from watcher_sync.model.model import Model
from watcher_sync.model.transaction import Transaction
from watcher_sync.storage import database
from watcher_sync.storage.commits import Commit, Fence
from watcher_sync.storage.conflicts import run_with_retries
from watcher_sync.storage.database import translated
from watcher_sync.storage.store import Store
from watcher_sync.storage.time_limits import CommitWatch

_TIMEOUT = 1.0
_HEALTHY_TIMEOUT = 5.0
"""Longer than a wait for a lock, which is as long as a transaction may be idle."""
_SERVERS = ["postgresql", "mariadb"]


@pytest.fixture
def declared_kinds() -> Kinds:
    return builtin_kinds()


class Site:
    """A database behind a proxy, and one in front of it."""

    def __init__(self, url: str, proxy: FaultyProxy) -> None:
        far = sa.make_url(url).set(port=proxy.port).render_as_string(hide_password=False)
        self.proxy = proxy
        self.store, self.direct = _opened(far, _TIMEOUT), _opened(url, _HEALTHY_TIMEOUT)


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


def _opened(url: str, commit_timeout: float) -> Store:
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    database.register_opts(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in {"connection": url, "commit_timeout": commit_timeout, "idle_transaction_timeout": 2}.items():
        conf.set_override(name, value, group="database")
    return open_store(conf, builtin_kinds(), checked=False)


def _commit(model: Model, version: str) -> Commit:
    transaction = Transaction(model)
    change = Upsert("compute_node", "host", Version(version), {"service": {"disabled_reason": version}})
    transaction.apply(Event(id=f"e{version}", type="host.seen", source="nova", time=NOON), [change])
    return Commit(generation=model.generation, staged=transaction.staged())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("is_lost", ["commit", "answer"])
def test_a_commit_without_an_answer_ends_in_time_and_the_head_says_whether_it_happened(
    site: Site, is_lost: str, figure: Callable[[str], None]
) -> None:
    model = site.store.load()
    site.store.commit(_commit(model, "1"))
    site.store.catch_up(model)

    def freeze(_connection: sa.Connection) -> None:
        if is_lost == "commit":
            site.proxy.silence()
        else:
            site.proxy.discard_answers()

    sa.event.listen(site.store.commits, "commit", freeze, once=True)
    began = time.monotonic()
    with pytest.raises(DatabaseUnavailable):
        site.store.commit(_commit(model, "2"))
    failed = time.monotonic() - began
    assert _TIMEOUT <= failed < _TIMEOUT + 2
    assert site.store.watch.unanswered_seconds >= _TIMEOUT

    # As the engine does: it reads the journal over a new connection, and commits on top of what happened.
    site.store.catch_up(model)
    assert model.generation == (1 if is_lost == "commit" else 2)
    site.store.commit(_commit(model, "3"))
    figure(f"{is_lost} lost: failed after {failed:.1f} s, committed again after {time.monotonic() - began:.1f} s")
    assert site.store.watch.unanswered_seconds == 0
    assert seqs(site.direct) == list(range(1, model.generation + 2))


@pytest.mark.timeout(60)
def test_a_commit_frozen_within_its_statements_does_not_block_the_next_one(site: Site) -> None:
    model = site.store.load()
    site.store.commit(_commit(model, "1"))
    site.store.catch_up(model)
    sa.event.listen(site.store.commits, "after_cursor_execute", lambda *_: site.proxy.silence(), once=True)
    with pytest.raises(DatabaseUnavailable):
        site.store.commit(_commit(model, "2"))
    began = time.monotonic()
    site.store.catch_up(model)
    site.store.commit(_commit(model, "2"))
    assert time.monotonic() - began < 5
    assert seqs(site.direct) == [1, 2]


@pytest.mark.timeout(60)
@pytest.mark.parametrize("service", _SERVERS)
def test_a_session_that_stops_within_a_pipeline_is_ended(request: pytest.FixtureRequest, service: str) -> None:
    """Many rows of one statement are a pipeline on PostgreSQL: the server does not count its session as idle."""
    url = str(request.getfixturevalue(f"migrated_{service}_url"))
    with FaultyProxy(sa.make_url(url).port or 0) as proxy:
        site = Site(url, proxy)
        cursors = site.store.tables.source_cursors
        insert = sa.insert(cursors).values(source=sa.bindparam("s"), position="x" * 200, updated_at=NOON)
        connection = site.store.database.connect()
        connection.begin()
        connection.execute(sa.update(site.store.tables.journal_head).values(seq=0))
        proxy.silence_after(20_000)

        def write() -> None:
            with pytest.raises(sa.exc.DBAPIError):
                connection.execute(insert, [{"s": f"s{i}"} for i in range(5_000)])

        thread = threading.Thread(target=write, daemon=True)
        thread.start()
        began = time.monotonic()
        site.direct.commit(_commit(site.direct.load(), "1"))
        assert time.monotonic() - began < 6
        proxy.cut()
        thread.join(10)
        connection.close()
        for store in (site.store, site.direct):
            store.dispose()


@pytest.mark.timeout(60)
def test_a_deadlock_is_retried_and_is_no_outage(site: Site) -> None:
    cursors = site.direct.tables.source_cursors
    with site.direct.database.begin() as connection:
        connection.execute(
            sa.insert(cursors), [{"source": name, "position": "0", "updated_at": NOON} for name in ("a", "b")]
        )
    barrier = threading.Barrier(2)
    runs: list[str] = []

    def swap(first: str, second: str) -> None:
        is_first_run = True

        def work() -> None:
            nonlocal is_first_run
            runs.append(first)
            with translated(), site.direct.database.begin() as connection:
                connection.execute(sa.update(cursors).where(cursors.c.source == first).values(position=first))
                if is_first_run:
                    is_first_run = False
                    barrier.wait(10)
                connection.execute(sa.update(cursors).where(cursors.c.source == second).values(position=first))

        run_with_retries(work)

    threads = [threading.Thread(target=swap, args=names) for names in (("a", "b"), ("b", "a"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(runs) == 3, "one of the two was the victim, and ran again"
    assert len(set(site.direct.cursors().values())) == 1


@pytest.mark.timeout(60)
def test_a_commit_of_an_engine_does_not_lock_its_lease(site: Site) -> None:
    leases = site.direct.tables.leases
    with site.direct.database.begin() as connection:
        row = {"name": "g", "holder": "a", "token": 1, "beat": 0, "since": NOON, "heartbeat_at": NOON}
        connection.execute(sa.insert(leases).values(**row))
    seconds: list[float] = []

    def take(_connection: sa.Connection) -> None:
        began = time.monotonic()
        with site.direct.database.begin() as connection:
            connection.execute(sa.update(leases).values(token=2))
        seconds.append(time.monotonic() - began)

    sa.event.listen(site.store.commits, "commit", take, once=True)
    site.store.commit(Commit(generation=0, cursors={"nova": "1"}, fence=Fence("g", 1)))
    assert seconds
    assert seconds[0] < 0.9
    with pytest.raises((LeaseLost, HeadMoved)):
        site.store.commit(Commit(generation=0, cursors={"nova": "2"}, fence=Fence("g", 1)))


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
