# SPDX-License-Identifier: Apache-2.0
"""The position of a log is in the headers of its last message."""

from __future__ import annotations

import datetime

import pytest

from watcher_sync.extensions.log.base import LogChange, LogPosition, OutletError
from watcher_sync.extensions.log.positions import headers_of, positions_after, positions_in


@pytest.mark.parametrize(
    ("what", "position", "found"),
    [
        ("updated", "epoch-1:42", LogPosition("epoch-1", 42)),
        ("snapshot_end", "e:1", LogPosition("e", 1)),
        ("snapshot_begin", "e:1", LogPosition("e", 1, is_in_snapshot=True)),
        ("snapshot", "e:1", LogPosition("e", 1, is_in_snapshot=True)),
    ],
)
def test_the_headers_say_whether_the_log_ends_within_a_snapshot(what: str, position: str, found: LogPosition) -> None:
    headers = {"Watcher-Sync-Change": what, "Watcher-Sync-Position": position, "Watcher-Sync-Partition": "north"}
    assert positions_in(headers, "north") == {"north": found}


@pytest.mark.parametrize(
    ("position", "partition"),
    [
        ("", "north"),
        ("e", "north"),
        ("e:x", "north"),
        ("e:1", "south"),
        (f"{'9' * 4400}:1", "north"),
        (f"e:{'9' * 4400}", "north"),
        ("e:\u0661", "north"),
    ],
)
def test_a_foreign_message_is_refused(position: str, partition: str) -> None:
    headers = {"Watcher-Sync-Change": "updated", "Watcher-Sync-Position": position, "Watcher-Sync-Partition": partition}
    with pytest.raises(OutletError):
        positions_in(headers, "north")


def test_the_headers_tell_the_time_of_a_change_to_the_microsecond() -> None:
    time = datetime.datetime(2026, 1, 2, 3, 4, 5, 60_007, tzinfo=datetime.UTC)
    change = LogChange(partition="north", epoch="e", seq=7, change="updated", time=time)
    assert positions_in(headers_of(change), "north") == {"north": LogPosition("e", 7, time)} == positions_after(change)


def test_a_time_that_is_none_is_refused() -> None:
    headers = {"Watcher-Sync-Change": "updated", "Watcher-Sync-Position": "e:1", "Watcher-Sync-Partition": "north"}
    with pytest.raises(OutletError):
        positions_in(headers | {"Watcher-Sync-Time": "noon"}, "north")
