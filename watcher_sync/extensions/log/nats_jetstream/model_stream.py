# SPDX-License-Identifier: Apache-2.0
"""The stream of the current model: whether it is a whole copy of the changes, and what leaves it.

At the end of a snapshot, the messages before its begin leave the model: what is not in the snapshot does not exist. The
model is a copy, which may be late. So a task waits for it, and the next open does the same if the process ends before.

The model has nothing of its own. One that is no copy is made again. One that has lost messages is emptied, so that no
reader takes it as whole before the next snapshot. For the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from nats.errors import Error as NatsError
from oslo_log import log as logging

from watcher_sync.extensions.log.base import OutletDeposed, OutletError
from watcher_sync.extensions.log.nats_jetstream import messages
from watcher_sync.extensions.log.nats_jetstream.settings import JetStreamOutletSettings
from watcher_sync.extensions.log.nats_jetstream.streams import LogStreamInfo, LogStreams
from watcher_sync.tasks import end_tasks
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.api import NANOSECONDS
from watcher_sync.transports.nats.connection import describe
from watcher_sync.wire.log_streams import SnapshotMarkers, why_no_copy, why_not_whole

LOG = logging.getLogger(__name__)

_POLL_SECONDS: Final = 0.5
_LATE_SECONDS: Final = 60.0
"""After this time without the end of a snapshot in the model there is a warning."""
_CLEANING_SECONDS: Final = 2.0
"""For which a verification waits, because the copy of a snapshot is seldom later."""
_MAX_DOUBTS: Final = 5
"""So often in a row the changes may end too early: a new leader has to apply first what it has."""


class ModelStream:
    """The model of one outlet, over one connection.

    :param name: of the outlet.
    """

    def __init__(self, name: str, settings: JetStreamOutletSettings, streams: LogStreams) -> None:
        self._name = name
        self._spec = settings.streams
        self._markers = messages.begin_subject(settings.prefix), messages.end_subject(settings.prefix)
        self._streams = streams
        self._changes: LogStreamInfo
        self._whole_from = 0
        """A model that has this sequence has a whole snapshot."""
        self._cleaning: asyncio.Task[None] | None = None
        self.lacks_snapshot = False
        """Whether a new reader needs a snapshot, although the changes may have a position."""

    async def open(self) -> LogStreamInfo:
        """Make or verify both streams. Return that of the changes.

        :raises OutletError, NotReady: one is not fit, or no server answers.
        """
        changes, model, why = await self._find(make=True)
        if why:
            if not self._spec.create:
                raise OutletError(f"{why}; delete {self._spec.model}, and make it again")
            LOG.warning("outlet %s: %s; it is made again", self._name, why)
            await self._streams.delete_model()
            model = await self._streams.find_model(make=True)
        lost = await self._lost(changes, model)
        if last := changes.state.last_seq:
            is_mirrored = model.state.last_seq >= last
            self.lacks_snapshot = model.made or bool(lost) or (is_mirrored and not (await self._snapshot()).is_complete)
            if self.lacks_snapshot:
                LOG.warning("outlet %s: the current model lacks a snapshot, which is published now", self._name)
            await self.clean_from(last)
        self._changes = changes
        return changes

    async def verify(self, last: int) -> None:
        """Check what was published.

        :param last: the sequence of the last message.
        :raises OutletError, NotReady: it is not there any more, or new readers have no whole model.
        :raises OutletDeposed: another publisher has published.
        """
        if self._cleaning is not None:
            done, _ = await asyncio.wait({self._cleaning}, timeout=_CLEANING_SECONDS)
            for task in done:
                task.result()
        changes, model, why = await self._find(make=False, last=last)
        if changes.created != self._changes.created:
            raise OutletError(f"the stream {self._spec.changes} was made again")
        if changes.state.last_seq > last:
            raise OutletDeposed(f"the stream {self._spec.changes} ends at {changes.state.last_seq}, not at {last}")
        why = why or await self._lost(changes, model)
        if not why and model.state.last_seq >= self._whole_from and not (await self._snapshot()).is_complete:
            why = f"the stream {self._spec.model} lacks a snapshot"
        if why:
            raise OutletError(why)

    async def _find(self, *, make: bool, last: int = 0) -> tuple[LogStreamInfo, LogStreamInfo, str]:
        """Both streams, and why the model is no copy of the changes, or these end too early; empty: all is well."""
        for doubts in range(_MAX_DOUBTS + 1):
            if doubts:
                await asyncio.sleep(_POLL_SECONDS)
            changes = await self._streams.find_changes(make=make)
            model = await self._streams.find_model(make=make)
            if not changes.made:
                changes = await self._streams.changes()  # last: a copy is never ahead
            why = why_no_copy(changes.described, model.described, await self._streams.first_of_model(model))
            if changes.state.last_seq < last:
                why = f"the stream {self._spec.changes} ends at {changes.state.last_seq}, not at {last}"
            if not why or changes.made:
                break
        return changes, model, why

    async def _lost(self, changes: LogStreamInfo, model: LogStreamInfo) -> str:
        """Why the model has lost messages that it needs, after which it is empty; empty text: it has not."""
        why = why_not_whole(changes.described, model.described, SnapshotMarkers(0, 0))
        if not why or (await self._snapshot(self._spec.changes)).is_complete:
            return ""  # the copy begins with that snapshot
        await self._streams.purge_model()
        return f"{why}; {_limits(changes)}"

    async def _snapshot(self, stream: str = "") -> SnapshotMarkers:
        return await self._streams.snapshot_in(stream or self._spec.model, *self._markers)

    # Cleaning

    async def clean_from(self, sequence: int) -> None:
        """Have the model cleaned once it has this sequence."""
        await self.end_cleaning()
        self._whole_from = sequence
        self._cleaning = asyncio.create_task(self._clean(sequence))

    async def end_cleaning(self) -> None:
        """Leave the rest to the next open."""
        if self._cleaning is not None:
            await end_tasks([self._cleaning])

    async def _clean(self, sequence: int) -> None:
        began = time.monotonic()
        is_late = False
        while not await self._is_cleaned(sequence):
            if not is_late and time.monotonic() - began > _LATE_SECONDS:
                is_late = True
                LOG.warning(
                    "outlet %s: the stream %s does not follow the changes, it lacks message %d",
                    self._name,
                    self._spec.model,
                    sequence,
                )
            await asyncio.sleep(_POLL_SECONDS)

    async def _is_cleaned(self, sequence: int) -> bool:
        """:raises OutletError: the model has not all of its snapshot, and is empty now."""
        try:
            model = await self._streams.model()
            if model.state.last_seq < sequence:
                return False
            markers = await self._snapshot()
            if markers.is_complete and model.state.first_seq < markers.begin:
                await self._streams.purge_model(markers.begin)
                model = await self._streams.model()
            changes = await self._streams.changes()
            why = why_not_whole(changes.described, model.described, markers)
            if why:
                await self._streams.purge_model()
        except (OutletError, NotReady, NatsError, OSError) as exc:
            LOG.debug("outlet %s: the current model cannot be cleaned yet: %s", self._name, describe(exc))
            return False
        if why:
            raise OutletError(f"{why}; {_limits(changes)}")
        return True


def _limits(changes: LogStreamInfo) -> str:
    config = changes.config
    return f"its max_bytes is {config.max_bytes}, and its max_age {config.max_age / NANOSECONDS:g} s"
