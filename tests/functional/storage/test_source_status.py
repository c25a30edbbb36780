# SPDX-License-Identifier: Apache-2.0
"""What one process writes about its sources, another reads, on every database; and when a source is stale."""

from __future__ import annotations

import datetime

import pytest

from tests.simulated import NOON
from watcher_sync.storage.groups.source_status import (
    SourceRow,
    list_sources,
    mark_removed,
    problem_of,
    record_full_sync,
    write_sources,
)

SECOND = datetime.timedelta(seconds=1)


def row(source="nova", **fields):
    given = {"engine_group": "g", "host": "h", "pid": 1, "state": "connected", "since": NOON, "updated_at": NOON}
    return SourceRow(source=source, **{**given, **fields})


def test_what_is_written_is_read_by_name_and_the_next_writing_replaces_it(store):
    first = [row("nova", detail="é" * 1000, lag=5, last_event_at=NOON + SECOND / 7), row("edge", pid=2)]
    write_sources(store.database, first)
    assert list_sources(store.database) == [first[1], first[0]]
    write_sources(store.database, [row("nova", state="failed", restarts=3)])
    assert list_sources(store.database) == [first[1], row("nova", state="failed", restarts=3)]
    write_sources(store.database, [])
    assert len(list_sources(store.database)) == 2


def test_the_engines_writes_leave_the_last_full_sync_alone(store):
    assert not record_full_sync(store.database, "nova", NOON)
    write_sources(store.database, [row()])
    assert record_full_sync(store.database, "nova", NOON + SECOND)
    write_sources(store.database, [row(lag=9)])
    assert list_sources(store.database) == [row(lag=9, last_full_sync_at=NOON + SECOND)]


def test_sources_that_a_group_has_no_more_are_removed_until_they_come_back(store):
    write_sources(store.database, [row("a"), row("b", lag=3, notes="x", scopes="[]"), row("c", engine_group="other")])
    assert mark_removed(store.database, "g", ["a"], NOON + SECOND) == 1
    assert mark_removed(store.database, "g", ["a"], NOON + 2 * SECOND) == 0
    assert [r.source for r in list_sources(store.database)] == ["a", "c"]
    removed = row("b", state="removed", since=NOON + SECOND, updated_at=NOON + SECOND, scopes="[]")
    assert list_sources(store.database, removed=True)[1] == removed
    assert problem_of(removed, NOON + 10**6 * SECOND, stale_after=60, idle_after=60) == ""
    write_sources(store.database, [row("b")])
    assert list_sources(store.database)[1] == row("b")


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, ""),
        ({"updated_at": NOON - 61 * SECOND}, "no engine has reported it for 61 s"),
        ({"state": "stopped", "updated_at": NOON - 61 * SECOND}, "no engine has reported it for 61 s"),
        ({"state": "stopped", "since": NOON - 99 * SECOND}, ""),
        ({"state": "disconnected", "since": NOON - 60 * SECOND}, ""),
        ({"state": "disconnected", "since": NOON - 61 * SECOND, "detail": "no"}, "disconnected for 61 s: no"),
        ({"state": "failed", "since": NOON - 61 * SECOND}, "failed for 61 s"),
        ({"last_event_at": NOON - 600 * SECOND, "since": NOON - 999 * SECOND}, ""),
        ({"last_event_at": NOON - 601 * SECOND}, "connected, but no event for 601 s"),
        ({"since": NOON - 601 * SECOND}, "connected, but no event for 601 s"),
    ],
)
def test_a_source_is_stale_without_news_without_connection_or_without_events(given, problem):
    assert problem_of(row(**given), NOON, stale_after=60, idle_after=600) == problem


def test_a_silent_source_is_fresh_where_nothing_else_is_asked_for():
    assert problem_of(row(since=NOON - 10**6 * SECOND), NOON, stale_after=60) == ""
