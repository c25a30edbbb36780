# SPDX-License-Identifier: Apache-2.0
"""The position of a log is in the headers of its last message."""

from __future__ import annotations

import pytest

from watcher_sync.log.base import LogPositions, OutletError
from watcher_sync.log.positions import positions_in


@pytest.mark.parametrize(
    ("what", "position", "durable"),
    [
        ("updated", "epoch:1:42", {"north": ("epoch:1", 42)}),
        ("snapshot_end", "e:1", {"north": ("e", 1)}),
        ("snapshot_begin", "e:1", {}),
        ("snapshot", "e:1", {}),
    ],
)
def test_half_of_a_snapshot_has_no_position(what: str, position: str, durable: LogPositions) -> None:
    headers = {"Watcher-Sync-Change": what, "Watcher-Sync-Position": position, "Watcher-Sync-Partition": "north"}
    assert positions_in(headers, "north") == durable


@pytest.mark.parametrize(("position", "partition"), [("", "north"), ("e", "north"), ("e:x", "north"), ("e:1", "south")])
def test_a_foreign_message_is_refused(position: str, partition: str) -> None:
    headers = {"Watcher-Sync-Change": "updated", "Watcher-Sync-Position": position, "Watcher-Sync-Partition": partition}
    with pytest.raises(OutletError):
        positions_in(headers, "north")
