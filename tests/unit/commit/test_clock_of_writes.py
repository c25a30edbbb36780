# SPDX-License-Identifier: Apache-2.0
"""What ages gets its time from the database's clock, whichever process writes it."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import ClassVar

import pytest
import sqlalchemy as sa

from tests.migrated import migrate
from watcher_sync.commit.batch_dispatch import CommitLimits
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.replay import replay
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import NotYet
from watcher_sync.handlers.base import Handler
from watcher_sync.model.changes import Change, Delete, Version
from watcher_sync.model.view import View
from watcher_sync.storage.database.database_time import DatabaseTime
from watcher_sync.storage.writing.store import Store
from watcher_sync.testing.kinds import builtin_kinds

NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)
TTL = 3600.0
MINUTE = datetime.timedelta(seconds=60)


class Late(Handler):
    """Waits for an instance that never comes, or deletes a host."""

    events: ClassVar[Mapping[str, str | None]] = {"late": "on_late", "gone": "on_gone"}

    def on_late(self, event: Event, view: View) -> Iterator[Change]:
        raise NotYet("instance", "never")

    def on_gone(self, event: Event, view: View) -> Iterator[Change]:
        yield Delete("compute_node", "gone", Version("1"))


EVENTS = [Event(id=name, type=name, source="test", data={}, envelope=OSLO) for name in ("late", "gone")]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """A database whose clock is at noon of another day than this machine's."""
    store = migrate(Store(sa.create_engine(f"sqlite:///{tmp_path / 'model.sqlite'}"), builtin_kinds()))
    store.time = DatabaseTime(store.database, database_clock=lambda: NOON)
    yield store
    store.dispose()


def direct(store: Store, dispatcher: Dispatcher) -> None:
    DirectWriter(store, dispatcher, limits=CommitLimits(parked_ttl=TTL)).run(EVENTS)


def replayed(store: Store, dispatcher: Dispatcher) -> None:
    replay(store, dispatcher, EVENTS, batch_size=10, limits=CommitLimits(parked_ttl=TTL))


@pytest.mark.parametrize("write", [direct, replayed])
def test_parked_events_and_tombstones_have_the_time_of_the_database(
    store: Store, write: Callable[[Store, Dispatcher], None]
) -> None:
    write(store, Dispatcher([("late", Late())]))
    t = store.tables
    with store.database.connect() as connection:
        expires_at = connection.execute(sa.select(t.parked.c.expires_at)).scalar_one()
        deleted_at = connection.execute(sa.select(t.tombstones.c.deleted_at)).scalar_one()
    assert abs(expires_at - NOON - datetime.timedelta(seconds=TTL)) < MINUTE
    assert abs(deleted_at - NOON) < MINUTE
