# SPDX-License-Identifier: Apache-2.0
"""What a follower of a log receives: messages of the current model, then of the changes."""

from __future__ import annotations

from typing import Final, NamedTuple

from watcher_sync.client.log.messages import SNAPSHOT_BEGIN

NO_POSITION: Final = "no_position"
"""The reader was given no position."""
PURGED: Final = "purged"
"""The stream has discarded messages that the reader has not read."""
REPLACED: Final = "replaced"
"""The stream has another message at the position: it was created again, or went back in time."""


class LogMessage(NamedTuple):
    """A message of one of the two streams."""

    sequence: int
    data: bytes
    of_model: bool
    marker: str = ""
    """Which marker of a snapshot the subject names; empty: none."""


class ModelBegins(NamedTuple):
    """The current model follows."""

    data: bytes
    """The message that began the last snapshot."""
    reason: str
    sequence: int
    """That of the message."""
    marker: str = SNAPSHOT_BEGIN


class ModelEnds(NamedTuple):
    """What was received is the whole model as of the last message."""

    sequence: int  # up to which the stream was read; what follows the last message has expired


Received = LogMessage | ModelBegins | ModelEnds
