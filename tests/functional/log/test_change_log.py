# SPDX-License-Identifier: Apache-2.0
"""A log that begins at a position of the past has what the log that followed the journal has."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pytest

from tests.functional.storage.conftest import opened
from tests.functional.storage.writing import commit, cycle_on, kinds, meter
from tests.simulated import batches, cloud, nova, told
from watcher_sync.extensions.log import change_log
from watcher_sync.extensions.log.base import LogChange, LogPosition
from watcher_sync.extensions.log.change_log import ChangeLog, ChangeLogs
from watcher_sync.model.changes import Delete
from watcher_sync.model.kinds import Kinds
from watcher_sync.read.journal_reader import JournalReader
from watcher_sync.storage.epochs import position_of
from watcher_sync.storage.writing.journal import JournalRow
from watcher_sync.storage.writing.store import Store


@pytest.fixture
def declared_kinds() -> Kinds:
    return kinds()


@pytest.fixture
def store(one_migrated_url: str) -> Iterator[Store]:
    store = opened(one_migrated_url, kinds())
    yield store
    store.dispose()


def _all(log: ChangeLog, after: int) -> list[LogChange | None]:
    found: list[LogChange | None] = []
    while rows := log.read(after + len(found), 500):
        found += [row.change for row in rows]
    return found


def _logs(store: Store) -> ChangeLogs:
    return ChangeLogs(store, JournalReader(store.database, store.tables, interval=1.0))


@pytest.mark.parametrize("seed", range(2))
def test_a_log_that_begins_in_the_past_has_the_same_changes(store: Store, seed: int) -> None:
    """Nova's events, and a kind whose ids are used again."""
    rng = random.Random(seed)
    followed, position = _logs(store), position_of(store.load())
    assert position is not None
    log = followed.at(LogPosition(position.epoch, position.seq))
    writer = cycle_on(store, nova())
    teller = cycle_on(store)
    events, _ = cloud(seed, 250)
    number, seen = 0, []
    for batch in batches(events, rng, 20):
        commit(writer, *batch)
        seen += _all(log, position.seq + len(seen))
        told_changes = []
        for _ in range(rng.randint(0, 4)):
            number += 1
            name, version = f"m{rng.randint(0, 3)}", f"{number:06d}"
            values = {
                "owner": rng.choice(["a", None]),
                "reading": rng.randint(0, 2),
                "ratio": rng.choice([1.0, 0.5, None]),
            }
            change = Delete("meter", name, version) if rng.random() < 0.3 else meter(name, version, **values)
            told_changes.append(told(100_000 + number, change))
        if told_changes:
            teller.follow()
            commit(teller, *told_changes)
            writer.follow()
            seen += _all(log, position.seq + len(seen))
    head = store.head()
    assert len(seen) == head - position.seq
    for change in seen:
        if change is None:
            continue
        before, after = change.before or {}, change.after or {}
        assert all((before.get(n), after.get(n)) == tuple(pair) for n, pair in change.delta.items()), change
        assert {n for n in {*before, *after} - {"id"} if before.get(n) != after.get(n)} <= set(change.delta), change
    for start in rng.sample(range(position.seq, head), 12):
        assert _all(_logs(store).at(LogPosition(position.epoch, start)), start) == seen[start - position.seq :], start


@pytest.mark.parametrize("function", ["_written", "_changed"])
def test_a_row_that_cannot_be_converted_leaves_no_gap(
    store: Store, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A defect in what makes the entity, or the change. Each read raises until it is gone, and then none is missing."""
    position = position_of(store.load())
    assert position is not None
    log = _logs(store).at(LogPosition(position.epoch, position.seq))
    writer = cycle_on(store)
    for number in range(1, 5):
        changes = (meter(f"m{place}", str(number), reading=number) for place in range(3))
        commit(writer, *(told(10 * number + place, change) for place, change in enumerate(changes)))
    sound = getattr(change_log, function)

    def fails(*arguments: Any) -> Any:
        if any(isinstance(each, JournalRow) and each.seq == 5 for each in arguments):
            raise RuntimeError("a defect")
        return sound(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(change_log, function, fails)
        for _ in range(2):
            with pytest.raises(RuntimeError, match="a defect"):
                log.read(position.seq, 500)
        assert not log.is_before(LogPosition(position.epoch, 4))
        assert log.is_before(LogPosition(position.epoch, 5))
    found = log.read(position.seq, 500)
    assert [row.seq for row in found] == list(range(1, store.head() + 1))
    assert [row.change for row in found] == _all(_logs(store).at(LogPosition(position.epoch, 0)), 0)
