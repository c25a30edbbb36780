# SPDX-License-Identifier: Apache-2.0
"""What the two streams of a log on JetStream are to each other: the changes, and the model as a copy of them.

A mirror copies a message with its sequence and its time, and never compares. It ends for good if the stream that it
copies is made again with fewer messages. With more messages, it has some of both. So the publisher and every reader
check the copy before they use it. The rules are pure; who applies them asks the server.
"""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

_CLOCKS_DIFFER: Final = datetime.timedelta(minutes=1)
"""At most, between the servers of a cluster: one creates a stream, and another one stores its messages."""


class LogStream(NamedTuple):
    """One of the two streams, as the server describes it."""

    name: str
    created: datetime.datetime
    first_seq: int
    last_seq: int
    messages: int
    copies: str | None = None
    """The stream on the same server that it mirrors, empty if that is elsewhere; None: it is no mirror."""


class SnapshotMarkers(NamedTuple):
    """The sequences of the last begin and the last end of a snapshot; 0: there is none."""

    begin: int
    end: int

    @property
    def is_complete(self) -> bool:
        """Whether the stream has all of a snapshot."""
        return 0 < self.begin < self.end


class FirstMessage(NamedTuple):
    """The first message of a model."""

    time: datetime.datetime
    """When it was stored."""
    origin_time: datetime.datetime | None
    """When the message of the changes with its sequence was; None: they have discarded it."""


def why_no_copy(changes: LogStream, model: LogStream, first: FirstMessage | None) -> str:
    """Why a model belongs to other changes, in a phrase; empty: nothing shows that.

    After an election, the leader of the changes may have to catch up, so the first reason may pass.

    :param first: None: the model has no message.
    """
    if model.copies == changes.name and model.last_seq > changes.last_seq:
        why = f"it ends at message {model.last_seq}, and they end at {changes.last_seq}"
    elif first is not None and first.origin_time not in (None, first.time):
        why = f"its message {model.first_seq} is another one"
    elif first is not None and first.origin_time is None and _is_older(first.time, model, changes):
        why = f"its message {model.first_seq} is older than they are"
    else:
        return ""
    return f"the stream {model.name} is no copy of {changes.name}: {why}"


def _is_older(time: datetime.datetime, model: LogStream, changes: LogStream) -> bool:
    """Whether a message was stored before the changes were made, and the model was made before, too.

    Changes that are a mirror have messages that are older than the mirror.
    """
    return changes.copies is None and model.created < changes.created and time < changes.created - _CLOCKS_DIFFER


def why_not_whole(changes: LogStream, model: LogStream, markers: SnapshotMarkers) -> str:
    """Which messages a copy lacks for good, or until it has caught up; empty: nothing shows that.

    A snapshot has one message for each entity, without a message of others between. Each is in the model, or a later
    one of its entity, or a later deletion was and has expired.

    :param markers: in the model, at the same time or later.
    """
    if model.last_seq + 1 < changes.first_seq:
        return (
            f"the stream {model.name} lacks messages that {changes.name} has discarded: "
            f"it ends at {model.last_seq}, and they begin at {changes.first_seq}"
        )
    published, later = markers.end - markers.begin + 1, model.last_seq - markers.end
    if markers.is_complete and later >= 0 and model.messages + later < published:
        return (
            f"the stream {model.name} has {model.messages} messages, and its snapshot had {published}: "
            f"{changes.name} has discarded the others before they were copied"
        )
    return ""
