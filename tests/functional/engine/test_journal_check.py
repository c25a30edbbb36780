# SPDX-License-Identifier: Apache-2.0
"""The check of the journal knows which deletions are final."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests import simulated
from tests.functional.engine.driving import Installation
from tests.simulated import by_facet
from tests.waiting import PATIENCE_SECONDS
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Change, Delete, Upsert, Version, absent

NUMBERS = itertools.count()


def made(version: str) -> Change:
    return Upsert("instance", "p", Version(version), by_facet("instance", name="p"))


def missing(version: str) -> Change:
    """A listing lacks it."""
    return Delete("instance", "p", absent(Version(version)))


def named(name: str, version: str) -> Change:
    return Upsert("instance", "p", Version(version), by_facet("instance", name=name))


_IDLE_LIMITS = {
    "postgresql": "SELECT setting::integer / 1000 FROM pg_settings WHERE name = 'idle_in_transaction_session_timeout'",
    "mysql": "SELECT @@SESSION.idle_readonly_transaction_timeout",
}


def write(site: Installation, *changes: Change, ids: Iterable[str] = ()) -> None:
    """One commit a change.

    :param ids: of the events; empty: each has one of its own.
    """
    names = iter(ids or (f"e{next(NUMBERS)}" for _ in changes))
    with DirectWriter(site.store, simulated.nova()).begin() as cycle:
        for change in changes:
            cycle.write(Event(id=next(names), type="test", source="test"), [change])


@pytest.fixture
def site(tmp_path: Path) -> Installation:
    site = Installation(tmp_path, f"sqlite:///{tmp_path / 'model.sqlite'}", {})
    site.upgrade()
    return site


def test_what_an_absence_deleted_may_come_back_or_be_deleted_for_good(site: Installation) -> None:
    write(site, made("1"), missing("2"), made("3"), missing("4"), Delete("instance", "p", Version("5")))
    assert [row.change for row in site.rows()] == ["created", "deleted", "created", "deleted", "updated"]
    site.check_journal()


@pytest.mark.parametrize("seq", [2, 3])
def test_what_an_event_deleted_must_not_come_back(site: Installation, seq: int) -> None:
    write(site, made("1"), missing("2"), missing("3"), made("4"))
    assert [row.change for row in site.rows()] == ["created", "deleted", "updated", "created"]
    with site.store.database.engine.begin() as connection:  # as if an event had reported the deletion
        connection.exec_driver_sql(f"UPDATE journal SET versions = replace(versions, '!', '') WHERE seq = {seq}")
    with pytest.raises(AssertionError, match="came back after it was deleted for good"):
        site.check_journal()


def test_an_event_is_applied_again_only_after_a_repair(site: Installation) -> None:
    write(site, named("a", "1"), named("b", "1~1"), named("a", "2"), ids=["p/1", "p/reconciled", "p/1"])
    site.check_journal()
    write(site, named("b", "3"), named("a", "4"), ids=["p/2", "p/1"])
    with pytest.raises(AssertionError, match=r"1 events were applied twice.*'p/1', 'instance', 'p', 3, 5"):
        site.check_journal()


@pytest.mark.parametrize("database", ["postgresql_url", "mariadb_url"])
def test_a_check_may_compute_for_longer_within_its_transaction_than_an_engine(
    tmp_path: Path, request: pytest.FixtureRequest, database: str
) -> None:
    site = Installation(tmp_path, request.getfixturevalue(database), {})
    with site.store.database.connect() as connection:
        seconds = connection.exec_driver_sql(_IDLE_LIMITS[connection.dialect.name]).scalar_one()
    assert seconds >= PATIENCE_SECONDS
    site.store.database.dispose()
