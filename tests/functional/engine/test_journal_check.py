# SPDX-License-Identifier: Apache-2.0
"""The check of the journal knows which deletions are final."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from tests import simulated
from tests.functional.engine.driving import Installation
from tests.simulated import by_facet
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Change, Delete, Upsert, Version, absent

NUMBERS = itertools.count()


def made(version: str) -> Change:
    return Upsert("pod", "p", Version(version), by_facet("pod", name="p"))


def missing(version: str) -> Change:
    """A listing lacks it."""
    return Delete("pod", "p", absent(Version(version)))


def write(site: Installation, *changes: Change) -> None:
    """One commit a change."""
    with DirectWriter(site.store, simulated.nova()).begin() as cycle:
        for change in changes:
            cycle.write(Event(id=f"e{next(NUMBERS)}", type="test", source="test"), [change])


@pytest.fixture
def site(tmp_path: Path) -> Installation:
    site = Installation(tmp_path, f"sqlite:///{tmp_path / 'model.sqlite'}", {})
    site.upgrade()
    return site


def test_what_an_absence_deleted_may_come_back_or_be_deleted_for_good(site: Installation) -> None:
    write(site, made("1"), missing("2"), made("3"), missing("4"), Delete("pod", "p", Version("5")))
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


def test_an_event_that_was_applied_twice_to_one_entity_is_noticed(site: Installation) -> None:
    write(site, made("1"), made("2"))
    with site.store.database.engine.begin() as connection:
        connection.exec_driver_sql("UPDATE journal SET event_id = 'once'")
    with pytest.raises(AssertionError, match="1 events were applied twice"):
        site.check_journal()
