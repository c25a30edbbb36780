# SPDX-License-Identifier: Apache-2.0
"""Both streams over one connection: where they end, publishing, and what leaves the model.

At the end of a snapshot, the messages before its begin leave the model: what is not in the snapshot does not exist. The
model is a copy, which may be late. So a task waits for it, and the next open does the same if the process ends before.
For the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from nats.errors import Error as NatsError
from oslo_log import log as logging

from watcher_sync.log.base import LogPosition, OutletError
from watcher_sync.log.nats_jetstream import messages
from watcher_sync.log.nats_jetstream.publisher import FencedPublisher, StreamMessage
from watcher_sync.log.nats_jetstream.settings import JetStreamOutletSettings
from watcher_sync.log.nats_jetstream.streams import LogStreamInfo, LogStreams, SnapshotMarkers
from watcher_sync.log.positions import positions_in
from watcher_sync.sources.nats.api import JetStreamApi
from watcher_sync.sources.nats.connection import NatsConnection, close, connect, describe
from watcher_sync.sources.session import NotReady, end_task

LOG = logging.getLogger(__name__)

_REFUSES_IDS_IN_BATCHES: Final = (2, 12, 0)
"""The only server with batches that may not have Nats-Msg-Id."""
REQUEST_TIMEOUT_SECONDS: Final = 3.0
"""For an answer of the administration; without a leader of a stream there is none."""
_HEADERS_BYTES: Final = 2048
"""More than the headers of a message have, which count as a part of it."""
_MODEL_POLL_SECONDS: Final = 0.5
_MODEL_LATE_SECONDS: Final = 60.0
"""After this time without the end of a snapshot in the model there is a warning."""


class JetStreamLog:
    """What an outlet has between open and close.

    :param name: of the outlet.
    """

    def __init__(self, name: str, settings: JetStreamOutletSettings) -> None:
        self._name = name
        self._settings = settings
        self._connection: NatsConnection | None = None
        self._streams: LogStreams
        self._publisher: FencedPublisher | None = None
        self._cleaning: asyncio.Task[None] | None = None
        self.is_atomic = False
        """Whether the server stores a batch as a whole."""
        self.deletion_ttl = 0
        """Seconds after which the server removes a deletion; 0: it does not."""
        self.limit = 0
        """Bytes of the largest body that the server and both streams take."""

    async def open(self) -> LogPosition | None:
        """Connect, and make or verify the streams.

        :returns: the position of the last change; None: there is none, or a snapshot is needed.
        :raises OutletError, NotReady, nats.errors.Error, OSError: no server accepts us, or a stream is not fit.
        """
        connection = await connect(self._settings, self._name, closed=self._wake)
        try:
            return await self._attach(connection)
        except BaseException:
            await close(connection)
            raise

    async def probe(self) -> int:
        """What :meth:`open` would find as limit; a stream that does not exist limits nothing.

        :raises: as :meth:`open`.
        """
        connection = await connect(self._settings, self._name)
        try:
            streams = LogStreams(self._api(connection), self._settings.streams)
            return _limit_of(connection, await streams.message_sizes())
        finally:
            await close(connection)

    async def publish(self, batches: Sequence[Sequence[StreamMessage]], *, ends_snapshot: bool) -> None:
        """Publish, and wait until the server has stored everything.

        :param ends_snapshot: whether the model is to be cleaned afterwards.
        :raises OutletDeposed: another publisher has published.
        :raises OutletError, NotReady: it is not known what is stored.
        """
        assert self._publisher is not None
        last = await self._publisher.publish(batches)
        if ends_snapshot:
            await self._clean_model_from(last)

    async def close(self) -> None:
        """Disconnect."""
        await self._end_cleaning()
        if self._connection is not None:
            await close(self._connection)

    def _wake(self) -> None:
        if self._publisher is not None:
            self._publisher.wake()

    def _api(self, connection: NatsConnection) -> JetStreamApi:
        return JetStreamApi(connection, prefix=self._settings.api_prefix, timeout=REQUEST_TIMEOUT_SECONDS)

    async def _attach(self, connection: NatsConnection) -> LogPosition | None:
        settings = self._settings
        self._streams = LogStreams(self._api(connection), settings.streams)
        changes = await self._streams.find_changes()
        model = await self._streams.find_model()
        last = changes.state.last_seq
        position = await self._position(last, model)
        self._publisher = FencedPublisher(connection, self._streams, last=last, timeout=settings.timeout)
        await self._publisher.start()
        self._connection = connection
        self.deletion_ttl = changes.deletion_ttl
        self.limit = _limit_of(connection, [changes.config.max_msg_size, model.config.max_msg_size])
        version = connection.connected_server_version
        self.is_atomic = (
            changes.config.allow_atomic and (version.major, version.minor, version.patch) != _REFUSES_IDS_IN_BATCHES
        )
        if last:
            await self._clean_model_from(last)
        return position

    async def _position(self, last: int, model: LogStreamInfo) -> LogPosition | None:
        """What the last message tells, unless a new reader needs a snapshot."""
        if not last or model.made:
            return None
        if model.state.last_seq >= last and not (await self._markers()).is_complete:
            LOG.warning("outlet %s: the current model lacks a snapshot, which is published now", self._name)
            return None
        headers = await self._streams.headers_at(last)
        partition = self._settings.partition
        with suppress(OutletError):  # of a foreign message, which a snapshot follows
            return positions_in(headers or {}, partition).get(partition)
        return None

    async def _markers(self) -> SnapshotMarkers:
        prefix = self._settings.prefix
        return await self._streams.snapshot_in_model(messages.begin_subject(prefix), messages.end_subject(prefix))

    # The model

    async def _clean_model_from(self, sequence: int) -> None:
        """Have the model cleaned once it has this sequence."""
        await self._end_cleaning()
        self._cleaning = asyncio.create_task(self._clean_model(sequence))

    async def _end_cleaning(self) -> None:
        if self._cleaning is not None:
            await end_task(self._cleaning)

    async def _clean_model(self, sequence: int) -> None:
        began = time.monotonic()
        is_late = False
        while not await self._is_cleaned(sequence):
            if not is_late and time.monotonic() - began > _MODEL_LATE_SECONDS:
                is_late = True
                LOG.warning(
                    "outlet %s: the stream %s does not follow the changes, it lacks message %d",
                    self._name,
                    self._settings.streams.model,
                    sequence,
                )
            await asyncio.sleep(_MODEL_POLL_SECONDS)

    async def _is_cleaned(self, sequence: int) -> bool:
        try:
            model = await self._streams.model()
            if model.last_seq < sequence:
                return False
            markers = await self._markers()
            if markers.is_complete and model.first_seq < markers.begin:
                await self._streams.purge_model(markers.begin)
        except (OutletError, NotReady, NatsError, OSError) as exc:
            LOG.debug("outlet %s: the current model cannot be cleaned yet: %s", self._name, describe(exc))
            return False
        return True


def _limit_of(connection: NatsConnection, sizes: Sequence[int]) -> int:
    """Bytes of the largest body that a server takes.

    :param sizes: the largest messages of the streams; not above 0: there is no limit.
    """
    return min([connection.max_payload, *(size for size in sizes if size > 0)]) - _HEADERS_BYTES
