# SPDX-License-Identifier: Apache-2.0
"""What a region may claim: entities of the projects that its source names, and of no other."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from pathlib import Path

from tests.functional.engine.driving import Installation
from tests.functional.sources.federated import Member, sequence_of
from tests.simulated import nova
from tests.waiting import wait_until
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.events import Event
from watcher_sync.model.changes import Upsert, Version

SITE = "north"
OWN, FOREIGN = "project-of-the-region", "project-of-another-tenant"


def write(region: Member, number: int, *claims: tuple[str, str]) -> None:
    """Instances of the region, each with its project."""
    with DirectWriter(region.site.store, nova()).begin() as cycle:
        changes = [
            Upsert("instance", entity_id, Version(f"{number:06d}"), {"state": {"state": "active"}, "details": details})
            for entity_id, details in ((entity_id, {"project_id": project}) for entity_id, project in claims)
        ]
        cycle.write(Event(id=f"{number}", type="test", source="test"), changes)


def followed(install: Callable[..., Installation], folder: Path, **options: object) -> tuple[Member, Member, Path]:
    region = Member(SITE, install(f"sqlite:///{folder / 'region.sqlite'}"))
    whole = Member("global", install(f"sqlite:///{folder / 'global.sqlite'}"))
    whole.follow(SITE, region, **options)
    write(region, 1, ("mine", OWN), ("claimed", FOREIGN))
    region.start("api", "outlet")
    region.wait_until_serving()
    whole.start("engine")
    wait_until(lambda: SITE in whole.site.store.cursors(), what="the listing")
    write(region, 2, ("mine", OWN), ("claimed", FOREIGN), ("late", FOREIGN))
    head = region.site.head()
    wait_until(lambda: sequence_of(whole.site.store.cursors()[SITE]) >= head, what="the changes")
    return region, whole, folder / "global.sqlite"


def mentions(file: Path, text: str) -> list[str]:
    """The rows of a whole database that have a text: entities, journal, deliveries, quarantine."""
    with contextlib.closing(sqlite3.connect(file)) as database:
        return [line for line in database.iterdump() if text in line]


def test_a_project_that_the_source_does_not_name_gets_nothing_of_the_region(
    install: Callable[..., Installation], tmp_path: Path
) -> None:
    _, whole, file = followed(install, tmp_path, projects=f"{OWN}, another")
    assert mentions(file, OWN)
    for entity in ("mine", "claimed", "late"):
        assert mentions(file, f"{SITE}:{entity}"), "administrators see it"
    assert mentions(file, FOREIGN) == []
    wait_until(lambda: "other projects" in (whole.source_rows()[SITE].detail or ""), what="the detail")
    assert whole.processes["engine"].logged("has entities of other projects") == 1


def test_by_default_a_region_may_name_any_project(install: Callable[..., Installation], tmp_path: Path) -> None:
    _, whole, file = followed(install, tmp_path)
    assert mentions(file, FOREIGN)
    assert not whole.processes["engine"].logged("has entities of other projects")
