# SPDX-License-Identifier: Apache-2.0
"""Single messages of a stream: one at a sequence, the last one, and what their headers say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from nats.js.api import RawStreamMsg
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from watcher_sync.client.log.messages import SNAPSHOT_BEGIN, SNAPSHOT_END

_POSITION_HEADER: Final = "Watcher-Sync-Position"
_CHANGE_HEADER: Final = "Watcher-Sync-Change"
_MARKERS: Final = {"begin": SNAPSHOT_BEGIN, "end": SNAPSHOT_END}


def label_of(headers: Mapping[str, str] | None) -> tuple[str | None, str | None]:
    """The position and the change that a message has in its headers."""
    found = headers or {}
    return found.get(_POSITION_HEADER), found.get(_CHANGE_HEADER)


def marker_of(subject: str) -> str:
    """The begin or the end of a snapshot, if a subject names that; else empty."""
    return _MARKERS.get(subject.rpartition("._snapshot.")[2], "")


async def message_at(js: JetStreamContext, stream: str, sequence: int) -> RawStreamMsg | None:
    """The message with a sequence; None: the stream does not have it.

    :raises nats.errors.Error: the stream does not answer.
    """
    try:
        return await js.get_msg(stream, sequence)
    except NotFoundError:
        return None


async def last_message(js: JetStreamContext, stream: str, subject: str) -> RawStreamMsg | None:
    """The last message of a subject, which may have wildcards; None: there is none.

    :raises nats.errors.Error: the stream does not answer.
    """
    try:
        return await js.get_last_msg(stream, subject)
    except NotFoundError:
        return None
