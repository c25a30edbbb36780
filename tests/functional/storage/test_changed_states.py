# SPDX-License-Identifier: Apache-2.0
"""Each kind of database gives the states of what changed after a seq, and of nothing else."""

from __future__ import annotations

import datetime
import itertools

import msgspec
import pytest

from tests.functional.storage.writing import commit, cycle_on, head
from tests.simulated import told
from watcher_sync.exceptions import JournalPurged
from watcher_sync.model.changes import Delete, Upsert
from watcher_sync.read import changed_states
from watcher_sync.read.changed_states import ChangedPage, ChangedStates
from watcher_sync.read.entity_reader import state_reader
from watcher_sync.storage.stored.retention import Retention, purge
from watcher_sync.storage.writing.store import Store


def meter(entity_id: str, version: str, **fields: object) -> Upsert:
    return Upsert("meter", entity_id, version, {"state": fields})


def read(store: Store, since: int, limit: int = 1_000) -> ChangedPage:
    dialect = store.database.dialect.name.replace("mariadb", "mysql")
    readers = {name: state_reader(store.tables, kind, dialect) for name, kind in store.kinds.items()}
    with store.database.connect() as connection:
        return ChangedStates(store.tables, readers).read(connection, since, limit)


def states(page: ChangedPage) -> dict[str, object]:
    """Id -> owner and version."""
    decoded = [msgspec.json.decode(raw) for raw in page.states.get("meter", ())]
    return {each["id"]: (each["owner"], each["versions"].get("state")) for each in decoded}


@pytest.fixture
def history(store: Store) -> Store:
    """Eight changes of meters, the last but one of a version alone."""
    cycle = cycle_on(store)
    for number, change in enumerate(
        [
            meter("a", "1", owner="x"), meter("b", "1", owner="x"), meter("a", "2", owner="y"), meter("c", "1"),
            Delete("meter", "b", "2"), meter("d", "1"), meter("c", "3"), Delete("meter", "d", "2"),
        ]
    ):  # fmt: skip
        commit(cycle, told(number, change))
    assert head(store) == 8
    return store


def test_each_entity_comes_once_in_its_present_state(history: Store) -> None:
    page = read(history, 0)
    assert states(page) == {"a": ("y", "2"), "c": (None, "3")}
    assert [(each.kind, each.id, each.seq) for each in sorted(page.deleted, key=lambda each: each.seq)] == [
        ("meter", "b", 5), ("meter", "d", 8),
    ]  # fmt: skip
    assert {each.versions["state"] for each in page.deleted} == {"2"}
    assert (page.next_since, page.head) == (8, 8)


def test_a_change_of_a_version_alone_counts(history: Store) -> None:
    assert states(read(history, 6)) == {"c": (None, "3")}


def test_nothing_has_changed_after_the_head(history: Store) -> None:
    assert read(history, 8) == ChangedPage({}, [], 8, 8)


def test_pages_reach_every_change(history: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, max_bytes in itertools.product((1, 2, 3), (1, 8_388_608)):
        monkeypatch.setattr(changed_states, "MAX_PAGE_BYTES", max_bytes)
        assert read_to_the_head(history, limit) == ({"a": ("y", "2"), "c": (None, "3")}, {"b", "d"})


def read_to_the_head(history: Store, limit: int) -> tuple[dict[str, object], set[str]]:
    """The states and the deleted ids on all pages."""
    since, model, deleted = 0, {}, set()
    for _ in range(20):
        page = read(history, since, limit)
        if page.next_since == since:
            break
        assert len(states(page)) + len(page.deleted) <= limit
        model |= states(page)
        deleted |= {each.id for each in page.deleted}
        since = page.next_since
    assert since == 8
    return model, deleted


def test_a_page_ends_at_its_bytes(store: Store) -> None:
    cycle, spec = cycle_on(store), {"service_type": "vm", "spec": {"x": "🦀" * 125_000}}
    for number in range(24):
        commit(cycle, told(number, Upsert("service_type_instance", f"i{number:02}", "1", {"spec": spec})))
    first = read(store, 0)
    second = read(store, first.next_since)
    counts = [len(page.states["service_type_instance"]) for page in (first, second)]
    assert sum(counts) == 24
    assert 10 < counts[0] < 20
    assert (first.next_since, second.next_since) == (counts[0], 24)


def test_a_position_outside_of_the_journal_is_refused(history: Store) -> None:
    with pytest.raises(JournalPurged, match="ends at seq 8"):
        read(history, 9)
    retention = Retention(journal_rows=3, journal_age=None, tombstone_age=datetime.timedelta(1), quarantine_age=None)
    purge(history.database, history.tables, retention, datetime.datetime.now(datetime.UTC))
    assert read(history, 5).next_since == 8
    with pytest.raises(JournalPurged, match="begins after seq 5"):
        read(history, 4)
