# SPDX-License-Identifier: Apache-2.0
"""The position of a partition in the headers of a message, in which a driver finds it without decoding the message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from watcher_sync.log.base import SNAPSHOT, SNAPSHOT_BEGIN, LogChange, LogPosition, LogPositions

EPOCH: Final = "watcher-sync-epoch"
SEQ: Final = "watcher-sync-seq"
CHANGE: Final = "watcher-sync-change"

_OPEN: Final = (SNAPSHOT_BEGIN, SNAPSHOT)


def headers_of(change: LogChange) -> dict[str, str]:
    """The headers of a published change."""
    return {EPOCH: change.epoch, SEQ: str(change.seq), CHANGE: change.change}


def position_in(headers: Mapping[str, str]) -> LogPosition | None:
    """The position of a log whose last message has these headers; None inside a snapshot.

    :raises KeyError: they are no headers of a change.
    :raises ValueError: the same.
    """
    position = headers[EPOCH], int(headers[SEQ])
    return None if headers[CHANGE] in _OPEN else position


def positions_after(change: LogChange) -> LogPositions:
    """What is durable once this change is: nothing inside a snapshot."""
    return {} if change.change in _OPEN else {change.partition: change.position}
