# SPDX-License-Identifier: Apache-2.0
"""Whether the stream of the current model can be read: a copy of the present changes, with a whole snapshot.

For the event loop's thread only.
"""

from __future__ import annotations

import datetime
from typing import Final, NamedTuple

from nats.js.api import RawStreamMsg, StreamInfo
from nats.js.client import JetStreamContext
from nats.js.errors import NotFoundError

from watcher_sync.client.log.consumer import LogLost
from watcher_sync.client.log.stored import last_message, message_at
from watcher_sync.wire.log_streams import FirstMessage, LogStream, SnapshotMarkers, why_no_copy, why_not_whole

MODEL_SUFFIX: Final = "-model"
BEGIN: Final = "._snapshot.begin"
END: Final = "._snapshot.end"
ANY: Final = "*.>"
"""All subjects. For ``>`` alone, a server has no last message if the stream's last one has expired."""


class CurrentModel(NamedTuple):
    """What can be read of the stream of the model."""

    begin: int
    """The sequence of the message that began the last snapshot."""
    begin_data: bytes
    last: int
    """The sequence of the last message."""
    tail: int
    """Where the changes continue it. What it had between has expired."""
    is_complete: bool
    """Whether the publisher has ended the snapshot."""
    created: datetime.datetime
    """When the stream of the changes was."""

    def continues(self, before: CurrentModel) -> bool:
        """Whether it has all that it had before, or a later snapshot that follows it."""
        return self.tail >= before.last and (self.begin == before.begin or self.begin > before.last)


async def find_model(js: JetStreamContext, stream: str) -> CurrentModel:
    """The current model of a stream of changes.

    :raises LogLost: it is missing, or is not whole.
    :raises nats.errors.Error: a stream does not answer.
    """
    name = stream + MODEL_SUFFIX
    try:
        model = _described(await js.stream_info(name))
    except NotFoundError:
        raise LogLost(f"the stream {name} does not exist, which is the current model of {stream}") from None
    changes = _described(await js.stream_info(stream))  # asked last, because a copy is never ahead
    why = why_no_copy(changes, model, await _first_message(js, changes, model))
    if why:
        raise LogLost(why)
    last = await last_message(js, name, ANY)
    base = last.subject.rsplit(".", 2)[0] if last is not None and last.subject else ""
    # The end first: so both are of one snapshot, or its end is the earlier one.
    end, begin = [await last_message(js, name, base + subject) for subject in (END, BEGIN)]
    markers = SnapshotMarkers(_sequence(begin), _sequence(end))
    why = why_not_whole(changes, model, markers)
    if why:
        raise LogLost(why)
    if begin is None:
        raise LogLost(f"{name} has no snapshot yet, it is the current model of {stream}")
    until = max(_sequence(last), markers.begin)
    is_complete = markers.is_complete and markers.end <= until
    tail = max(model.last_seq, until)
    return CurrentModel(markers.begin, begin.data or b"", until, tail, is_complete, changes.created)


async def _first_message(js: JetStreamContext, changes: LogStream, model: LogStream) -> FirstMessage | None:
    if not model.messages:
        return None
    ours, origin = [await message_at(js, name, model.first_seq) for name in (model.name, changes.name)]
    if ours is None or ours.time is None:
        return None
    return FirstMessage(ours.time, origin.time if origin is not None else None)


def _described(info: StreamInfo) -> LogStream:
    config, state, mirror = info.config, info.state, info.config.mirror
    assert info.created is not None
    assert config.name is not None
    return LogStream(
        config.name,
        info.created,
        state.first_seq,
        state.last_seq,
        state.messages,
        None if mirror is None else "" if mirror.external is not None else mirror.name,
    )


def _sequence(message: RawStreamMsg | None) -> int:
    return (message.seq or 0) if message is not None else 0
