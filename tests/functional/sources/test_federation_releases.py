# SPDX-License-Identifier: Apache-2.0
"""Installations of two releases that follow each other: the newer one has a field and a kind more."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.functional.engine.driving import Installation
from tests.functional.engine.next_release import NextRelease
from tests.functional.sources.federated import Member
from tests.waiting import wait_until
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.extensions.federation.handler.naming import led
from watcher_sync.model.changes import Upsert, Version

pytestmark = [pytest.mark.rare, pytest.mark.timeout(300)]

SITE = "north"
_WRITE = """
import sys

import sqlalchemy as sa

from watcher_sync.model.loading import load_kinds
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.dispatch import Dispatcher
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert, Version
from watcher_sync.storage.writing.store import Store

url, kind, entity_id, version, *fields = sys.argv[1:]
values = dict(zip(fields[::2], fields[1::2]))
with DirectWriter(Store(sa.create_engine(url), load_kinds()), Dispatcher([])).begin() as cycle:
    event = Event(id=f"{entity_id}/{version}", type="test", source="test")
    cycle.write(event, [Upsert(kind, entity_id, Version(version), {"state": values})])
"""


class Releases:
    """A region and its follower, each of this release until it is upgraded."""

    def __init__(self, install: Callable[..., Installation], folder: Path) -> None:
        self.region = Member(SITE, install(f"sqlite:///{folder / 'region.sqlite'}"))
        self.whole = Member("global", install(f"sqlite:///{folder / 'whole.sqlite'}"))
        self.whole.follow(SITE, self.region)
        self.next = NextRelease(folder / "next")
        self._parts = {self.region.name: ("api", "outlet"), self.whole.name: ("engine",)}
        self._upgraded: set[str] = set()

    def start(self, member: Member) -> None:
        installed = self.next.installed(member.site) if member.name in self._upgraded else contextlib.nullcontext()
        with installed:
            member.start(*self._parts[member.name])

    def upgrade(self, member: Member) -> None:
        """As an operator does it; its processes are not started again."""
        member.kill()
        self.next.db_sync(member.site)
        self._upgraded.add(member.name)

    def write(self, kind: str, entity_id: str, version: str, **fields: str) -> None:
        """In the region, as its release does it."""
        pairs = [text for pair in fields.items() for text in pair]
        self.next.run(self.region.site, _WRITE, self.region.site.url, kind, entity_id, version, *pairs)

    def has(self, table: str, entity_id: str, **fields: Any) -> bool:
        """Whether the follower has an entity with these values."""
        row = rows(self.whole, f"SELECT * FROM {table} WHERE id = '{SITE}:{entity_id}'")  # noqa: S608
        return bool(row) and {name: row[0][name] for name in fields} == fields

    @property
    def log(self) -> str:
        return self.whole.processes["engine"].log

    def rests(self, *, completed: bool = False) -> None:
        """Nothing is stored for later, and the region was listed once.

        :param completed: whether an upgrade of the follower applied states again, with what it did not know before.
        """
        for table in ("quarantine", "parked"):
            assert not rows(self.whole, f"SELECT id FROM {table}")  # noqa: S608
        self.whole.site.check_journal(published_twice=SITE if completed else None)
        assert "Traceback" not in self.log
        assert self.log.count("listing the region") == 1


def rows(member: Member, statement: str) -> list[dict[str, Any]]:
    with member.site.store.database.connect() as connection:
        return [dict(row) for row in connection.execute(sa.text(statement)).mappings()]


@pytest.fixture
def releases(install: Callable[..., Installation], tmp_path: Path) -> Releases:
    return Releases(install, tmp_path)


def test_a_field_and_a_kind_that_only_the_region_has_arrive_after_the_upgrade_of_the_follower(
    releases: Releases,
) -> None:
    releases.upgrade(releases.region)
    releases.start(releases.region)
    releases.region.wait_until_serving()
    releases.write("aggregate", "listed", "1", name="n", colour="red")
    releases.write("licence", "l", "1", name="n")
    releases.start(releases.whole)
    wait_until(lambda: releases.has("aggregates", "listed", name="n"), what="an entity of the listing")
    releases.whole.processes["engine"].wait_for_log(": connected")
    releases.write("aggregate", "changed", "1", name="n", colour="green")
    releases.write("licence", "later", "1", name="n")
    wait_until(lambda: releases.has("aggregates", "changed", name="n"), what="an entity of the stream")
    releases.write("aggregate", "last", "1", name="n")
    wait_until(lambda: releases.has("aggregates", "last"), what="the last entity")
    for word in ("colour", "licence"):
        assert sum(word in line for line in releases.log.splitlines()) == 1, releases.log
    releases.rests()
    assert releases.whole.site.head() == 3

    releases.upgrade(releases.whole)
    releases.start(releases.whole)
    wait_until(lambda: releases.has("aggregates", "listed", name="n", colour="red"), what="the field")
    wait_until(lambda: releases.has("aggregates", "changed", colour="green"), what="the field")
    wait_until(lambda: releases.has("licences", "l", name="n"), what="an entity of the new kind")
    wait_until(lambda: releases.has("licences", "later", name="n"), what="an entity of the new kind")
    releases.whole.processes["engine"].wait_for_log(": connected")
    releases.rests(completed=True)
    assert releases.whole.site.head() == 3 + 4, "each of these came once"
    versions = {row["id"]: row["versions"] for row in rows(releases.region, "SELECT id, versions FROM aggregates")}
    found = {row["id"]: row["versions"] for row in rows(releases.whole, "SELECT id, versions FROM aggregates")}
    ids = [f"{SITE}:{name}" for name in versions]
    assert set(versions.values()) == {'{"1":"state"}'}
    assert found == {entity_id: f'{{"{led("1", entity_id, 0)}":"state"}}' for entity_id in ids}


def test_an_older_region_is_followed_and_its_new_fields_arrive_after_its_upgrade(releases: Releases) -> None:
    region, whole = releases.region, releases.whole
    releases.upgrade(whole)
    releases.start(region)
    region.wait_until_serving()
    releases.start(whole)
    releases.whole.processes["engine"].wait_for_log(": connected")
    with DirectWriter(region.site.store, Dispatcher([])).begin() as cycle:
        upsert = Upsert("aggregate", "old", Version("1"), {"state": {"name": "n"}})
        cycle.write(Event(id="old/1", type="test", source="test"), [upsert])
    wait_until(lambda: releases.has("aggregates", "old", name="n", colour=None), what="an entity of the older region")
    releases.rests()
    head = whole.site.head()

    region.kill()
    with releases.next.installed(region.site):
        region.start("api")
    api = region.processes["api"]
    assert api.wait() != 0
    assert "run watcher-sync-manage db_sync" in api.log
    wait_until(lambda: region.url in whole.source_rows()[SITE].detail, what="the region is away")
    assert whole.source_rows()[SITE].state == "disconnected"
    releases.upgrade(region)
    releases.start(region)
    releases.write("aggregate", "old", "2", colour="red")
    wait_until(lambda: releases.has("aggregates", "old", name="n", colour="red"), what="the new field")
    wait_until(lambda: whole.source_rows()[SITE].state == "connected", what="the connection")
    releases.rests()
    assert whole.site.head() == head + 1
