# SPDX-License-Identifier: Apache-2.0
"""The position of a partition in the headers of a message, in which a driver finds it without decoding the message.

The names of the headers are the same on each log that has headers.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from typing import Final

from watcher_sync.extensions.log.base import SNAPSHOT, SNAPSHOT_BEGIN, LogChange, LogPosition, LogPositions, OutletError
from watcher_sync.wire.limits import is_epoch

PARTITION: Final = "Watcher-Sync-Partition"
POSITION: Final = "Watcher-Sync-Position"
"""``<epoch>:<seq>``."""
TIME: Final = "Watcher-Sync-Time"
"""The time of the change as in its document, to the microsecond. A log of an earlier release lacks it."""
CHANGE: Final = "Watcher-Sync-Change"
"""created, updated, deleted, snapshot, snapshot_begin or snapshot_end."""

_SEQ: Final = re.compile("[0-9]{1,18}")
_OPEN: Final = (SNAPSHOT_BEGIN, SNAPSHOT)


def headers_of(change: LogChange) -> dict[str, str]:
    """The headers of a published change."""
    return {
        PARTITION: change.partition,
        POSITION: f"{change.epoch}:{change.seq}",
        TIME: change.time.isoformat(),
        CHANGE: change.change,
    }


def positions_in(headers: Mapping[str, str], partition: str) -> LogPositions:
    """The position of a log whose last message has these headers.

    :param partition: that the log should contain.
    :raises OutletError: the message is of another partition, or of another publisher.
    """
    epoch, _, seq = headers.get(POSITION, "").rpartition(":")
    if not is_epoch(epoch) or not _SEQ.fullmatch(seq):
        raise OutletError("the last message of the log is not of an outlet")
    if headers.get(PARTITION) != partition:
        raise OutletError(f"the log contains the partition {headers.get(PARTITION)}, not {partition}")
    try:
        time = datetime.datetime.fromisoformat(headers[TIME]) if TIME in headers else None
    except ValueError:
        raise OutletError("the last message of the log has no valid time") from None
    return {partition: LogPosition(epoch, int(seq), time, headers.get(CHANGE) in _OPEN)}


def positions_after(change: LogChange) -> LogPositions:
    """What is durable once this change is: nothing inside a snapshot."""
    return {} if change.change in _OPEN else {change.partition: change.position}
