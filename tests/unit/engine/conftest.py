# SPDX-License-Identifier: Apache-2.0
"""An engine over an SQLite file, and a source that the test speaks through."""

from __future__ import annotations

import threading
import time

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from tests.migrated import migrate
from tests.simulated import telling
from tests.waiting import PATIENCE_SECONDS, Deadline
from watcher_sync.conf import opts
from watcher_sync.engine.engine import Engine
from watcher_sync.sources.base import IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.storage.database import database
from watcher_sync.storage.groups.leases import EngineLease
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds


def until(condition, seconds=PATIENCE_SECONDS):
    """Wait for the condition; whether it came true in time."""
    limit = Deadline(seconds)
    while not condition():
        if limit.is_over:
            return False
        time.sleep(0.01)
    return True


class Spoken(Source):
    """A source whose events are what the test says."""

    def __init__(self, name="spoken"):
        self.name = name
        self.acked, self.released = [], []
        self.started, self.stopped = 0, 0
        self.state = SourceState.CONNECTED
        self._emit = None

    def start(self, emit):
        self._emit = emit
        self.started += 1

    def say(self, *events):
        """Emit from a thread of its own, as sources do."""
        assert until(lambda: self._emit is not None)

        def emit():
            try:
                self._emit(events)
            except IntakeClosed:
                self.released += events

        threading.Thread(target=emit, daemon=True).start()

    def ack(self, events):
        self.acked += [e.id for e in events]

    def nack(self, events, delay):
        self.released += [e.id for e in events]

    def stop(self, deadline):
        self.stopped += 1

    def status(self):
        return SourceStatus(state=self.state)

    def cursor(self, events):
        return events[-1].id


@pytest.fixture
def conf(tmp_path):
    conf = cfg.ConfigOpts()
    opts.register_opts(conf)
    opts.register_database(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    conf.set_override("state_path", str(tmp_path))
    conf.set_override("connection", f"sqlite:///{tmp_path / 'ws.sqlite'}", group="database")
    conf.set_override("lease_time", 2.0, group="database")
    conf.set_override("journal_poll_interval", 0.05, group="database")
    return conf


@pytest.fixture
def store(conf):
    store = Store(database.open_database(conf), builtin_kinds())
    migrate(store)
    yield store
    store.close()
    store.database.dispose()


class Running:
    """An engine in a thread."""

    def __init__(self, conf, store, source, dispatcher=None, services=(), *, lease_seconds=2.0, holder=None, **options):
        name = "engine:default"
        self.lease = EngineLease(store.database, store.tables, name, seconds=lease_seconds, holder=holder)
        sources = source if isinstance(source, dict) else {"spoken": lambda: source}
        self.engine = Engine(conf, store, dispatcher or telling(), self.lease, sources, services, **options)
        self.error = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self):
        try:
            self.engine.run()
        except BaseException as exc:  # noqa: BLE001 - the test checks it
            self.error = exc

    def lose_lease(self, holder="other/1", *, silent_for=90.0):
        """Another engine takes the lease. This one finds it alive for so many seconds."""
        with self.engine.store.database.begin() as connection:
            connection.execute(sa.update(self.engine.store.tables.leases).values(token=99, holder=holder))
            self.lease.seconds = silent_for  # in the transaction: no beat can notice the loss before

    def stop(self, timeout=30.0):
        """Stop; whether it ended in time."""
        self.engine.stop(timeout)
        self._thread.join(timeout + PATIENCE_SECONDS)
        return not self._thread.is_alive()


@pytest.fixture
def run(conf, store):
    """Starts an engine over the store; stops it at the end."""
    started = []

    def start(source, dispatcher=None, services=(), **options):
        started.append(Running(conf, store, source, dispatcher, services, **options))
        return started[-1]

    yield start
    for running in started:
        assert running.stop()
