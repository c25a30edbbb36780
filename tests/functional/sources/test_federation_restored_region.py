# SPDX-License-Identifier: Apache-2.0
"""A region whose database is restored from a backup: the global model follows it, and deletes nothing that is real."""

from __future__ import annotations

from typing import Any

import msgspec
import sqlalchemy as sa

from tests.functional.client.conftest import Site
from tests.functional.engine.driving import Installation
from tests.functional.sources.federated import KINDS, dumped
from tests.functional.sources.test_federation import (
    SITE,
    deletion,
    outlet,
    overall,
    region,
    started,
    stored,
    wait_until_equal,
)
from tests.setting_back import Backup
from tests.simulated import nova
from tests.waiting import wait_until
from watcher_sync.commit.cycle import CommitCycle
from watcher_sync.events import Event
from watcher_sync.extensions.federation.source.states import RegionCursor, read_cursor
from watcher_sync.storage.epochs import read_position
from watcher_sync.storage.writing.journal import read_since

__all__ = ["outlet", "overall", "region"]


def without_versions(documents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(({**each, "versions": None} for each in documents), key=lambda each: str(each["id"]))


def differences(region: Site, overall: Installation) -> list[tuple[dict[str, Any] | None, dict[str, Any] | None]]:
    """Each entity that the two have differently: as the region has it, and as the global model does."""
    found = []
    for kind in KINDS:
        one, other = (
            {each["id"]: each for each in without_versions(documents)}
            for documents in (dumped(region.store, kind, SITE), dumped(overall.store, kind))
        )
        found += [(one.get(key), other.get(key)) for key in one | other if one.get(key) != other.get(key)]
    return found


def deletions(store: Any, site: str = "") -> set[str]:
    with store.database.connect() as connection:
        return {
            site + row.entity_id for row in read_since(connection, store.tables, 0, 10**6) if row.change == "deleted"
        }


def creation(region: Site) -> Event:
    """A server that the region gets after the backup."""
    event = next(each for each in region.events if each.type == "instance.create.end")
    payload = event.read(dict[str, Any])
    payload["nova_object.data"] = {**payload["nova_object.data"], "uuid": "0a0a0a0a-0000-4000-8000-000000000001"}
    return msgspec.structs.replace(event, id="creation", data=payload)


def cursor_of(overall: Installation) -> RegionCursor:
    return read_cursor(overall.store.cursors().get(SITE))


def head_of(region: Site) -> Any:
    with region.store.database.connect() as connection:
        return read_position(connection, region.store.tables)


def drifts(overall: Installation) -> list[Any]:
    with overall.store.database.connect() as connection:
        return list(connection.execute(sa.select(overall.store.tables.drifts)))


def test_a_restored_region_heals_the_global_model_without_a_deletion_that_is_not_real(
    region: Site, overall: Installation
) -> None:
    engine = started(overall)
    wait_until_equal(region, overall)
    backup, before = Backup(region.store), head_of(region)
    known = {each["id"] for each in dumped(overall.store, "instance")}
    lost = [*region.events[200:], creation(region), deletion(region)]
    region.commit(lost)
    wait_until_equal(region, overall)
    real = deletions(region.store, f"{SITE}:")
    everything = {kind: {each["id"] for each in dumped(overall.store, kind)} for kind in KINDS}
    assert everything["instance"] - known, "nothing was created after the backup"

    backup.restore()
    wait_until(lambda: cursor_of(overall).number == 1, 60, "the new epoch in the cursor of the source")
    assert cursor_of(overall).epoch == head_of(region).epoch != before.epoch
    assert engine.logged("the database of the region went back in time") == 1
    for kind in KINDS:  # what the region will find again is still there
        assert everything[kind] <= {each["id"] for each in dumped(overall.store, kind)}

    region.cycle = CommitCycle(region.store, region.store.load(), nova())
    region.commit(lost)
    wait_until(lambda: not differences(region, overall), 60, "the same entities")
    assert deletions(overall.store) <= real | deletions(region.store, f"{SITE}:")
    assert stored(overall) == 0
    assert not engine.logged("Traceback")
    overall.manage("reconcile", SITE)  # the engine's may have come while the region lacked what it found again
    assert drifts(overall) == []


def test_what_a_restored_region_says_wins_over_the_higher_versions_of_before(
    region: Site, overall: Installation
) -> None:
    engine = started(overall)
    wait_until_equal(region, overall)
    backup = Backup(region.store)
    region.commit(region.events[200:])
    wait_until_equal(region, overall)
    backup.restore()
    yesterday = without_versions(dumped(region.store, "compute_node", SITE))
    wait_until(lambda: cursor_of(overall).number == 1, 60, "the new epoch in the cursor of the source")

    def shown() -> list[dict[str, Any]]:
        found = {each["id"]: each for each in without_versions(dumped(overall.store, "compute_node"))}
        return [found[each["id"]] for each in yesterday if each["id"] in found]

    wait_until(lambda: shown() == yesterday, what="the hosts as the region has them")
    engine.kill()
    again = started(overall)
    again.wait_until_leading()
    wait_until(lambda: shown() == yesterday, what="the same after a restart")
    assert not again.logged("went back in time")
