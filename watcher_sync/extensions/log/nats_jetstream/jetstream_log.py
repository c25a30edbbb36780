# SPDX-License-Identifier: Apache-2.0
"""Both streams over one connection: where they end, and publishing. For the event loop's thread only."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from watcher_sync.extensions.log.base import LogPosition, OutletError
from watcher_sync.extensions.log.nats_jetstream.model_stream import ModelStream
from watcher_sync.extensions.log.nats_jetstream.publisher import FencedPublisher, StreamMessage
from watcher_sync.extensions.log.nats_jetstream.settings import JetStreamOutletSettings
from watcher_sync.extensions.log.nats_jetstream.streams import LogStreams
from watcher_sync.extensions.log.positions import positions_in
from watcher_sync.transports.nats.api import JetStreamApi
from watcher_sync.transports.nats.connection import NatsConnection, close, connect

_REFUSES_IDS_IN_BATCHES: Final = (2, 12, 0)
"""The only server with batches that may not have Nats-Msg-Id."""
REQUEST_TIMEOUT_SECONDS: Final = 3.0
"""For an answer of the administration; without a leader of a stream there is none."""
_HEADERS_BYTES: Final = 2048
"""More than the headers of a message have, which count as a part of it."""


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
        self._model: ModelStream
        self.is_atomic = False
        """Whether the server stores a batch as a whole."""
        self.deletion_ttl = 0
        """Seconds after which the server removes a deletion; 0: it does not."""
        self.limit = 0
        """Bytes of the largest body that the server and both streams take."""

    async def open(self) -> LogPosition | None:
        """Connect, and make or verify the streams.

        :returns: the position of the last change; None: there is none.
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
            await self._model.clean_from(last)

    async def verify(self) -> None:
        """Check what was published; as :meth:`ModelStream.verify`."""
        assert self._publisher is not None
        await self._model.verify(self._publisher.last)

    async def close(self) -> None:
        """Disconnect."""
        await self._model.end_cleaning()
        if self._connection is not None:
            await close(self._connection)

    def _wake(self) -> None:
        if self._publisher is not None:
            self._publisher.wake()

    def _api(self, connection: NatsConnection) -> JetStreamApi:
        return JetStreamApi(connection, prefix=self._settings.api_prefix, timeout=REQUEST_TIMEOUT_SECONDS)

    @property
    def lacks_snapshot(self) -> bool:
        """Whether a new reader needs a snapshot, although there is a position."""
        return self._model.lacks_snapshot

    async def _attach(self, connection: NatsConnection) -> LogPosition | None:
        settings = self._settings
        self._streams = LogStreams(self._api(connection), settings.streams)
        self._model = ModelStream(self._name, settings, self._streams)
        changes = await self._model.open()
        last = changes.state.last_seq
        position = await self._position(last)
        self._publisher = FencedPublisher(connection, self._streams, last=last, timeout=settings.timeout)
        await self._publisher.start()
        self._connection = connection
        self.deletion_ttl = changes.deletion_ttl
        self.limit = _limit_of(connection, await self._streams.message_sizes())
        version = connection.connected_server_version
        self.is_atomic = (
            changes.config.allow_atomic and (version.major, version.minor, version.patch) != _REFUSES_IDS_IN_BATCHES
        )
        return position

    async def _position(self, last: int) -> LogPosition | None:
        """What the last message tells; where it has expired, as deletions do, what the model's last one does."""
        headers = await self._streams.headers_at(last) if last else None
        is_expired = headers is None
        if is_expired and last:
            headers = await self._streams.last_headers(self._settings.streams.subjects)
        partition = self._settings.partition
        with suppress(OutletError):  # of a foreign message, which a snapshot follows
            found = positions_in(headers or {}, partition)[partition]
            return found._replace(is_in_snapshot=True) if is_expired else found
        return None


def _limit_of(connection: NatsConnection, sizes: Sequence[int]) -> int:
    """Bytes of the largest body that a server takes.

    :param sizes: the largest messages of the streams; not above 0: there is no limit.
    """
    return min([connection.max_payload, *(size for size in sizes if size > 0)]) - _HEADERS_BYTES
