# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: a source of CloudEvents from a JetStream stream.

Every message becomes one event. Its ``channel`` is the NATS subject. Its ``sequence`` is (epoch, sequence in the
stream); :mod:`~watcher_sync.extensions.dcm.source.history` has the epoch. Its ``position`` is when the server stored
it, in nanoseconds since 1970.

Acks have no answer. A lost ack means a redelivery, which the ordering guard makes harmless. The source extends the ack
deadline of messages in flight. A message above max_deliveries is emitted as undecodable.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from typing import ClassVar

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import CLOUD_EVENTS, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.extensions.dcm.source import settings
from watcher_sync.extensions.dcm.source.cursor import StreamCursor, read_cursor, read_start
from watcher_sync.extensions.dcm.source.history import StreamHistory
from watcher_sync.extensions.dcm.source.in_flight import JetStreamInFlight
from watcher_sync.extensions.dcm.source.session import NatsSession, jetstream_of
from watcher_sync.extensions.dcm.source.settings import JetStreamSettings
from watcher_sync.sources.base import SourceState, SourceStatus
from watcher_sync.sources.session_source import SessionSource
from watcher_sync.transports.nats.client_settings import insecure_servers, secret_files
from watcher_sync.transports.nats.connection import close, connect, describe
from watcher_sync.transports.nats.messages import JetStreamMessage
from watcher_sync.wire import envelopes

LOG = logging.getLogger(__name__)


class NatsJetStreamSource(SessionSource):
    """The driver ``nats_jetstream``."""

    envelopes: ClassVar[Collection[str]] = (CLOUD_EVENTS,)
    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS
    insecure_transports = staticmethod(insecure_servers)
    named_files = staticmethod(secret_files)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._settings = JetStreamSettings(name, conf)
        self.in_flight: JetStreamInFlight = JetStreamInFlight(self._stopping)
        self._is_flowing = False
        stream = self._settings.stream_id
        stored = read_cursor(cursor, stream)
        if cursor is not None and stored is None:
            LOG.warning("source %s: its stored position is not one in the stream %s and is not used", name, stream)
        self._cursor = stored or StreamCursor(stream=stream)
        self._history = StreamHistory(name, self._cursor)
        self.gaps = self._history.gaps
        self._session = NatsSession(name, self._settings, self.in_flight, self._history, stopping=self._stopping)

    # What the engine calls

    def cursor(self, events: Sequence[Event]) -> str | None:
        """What the rows come from. The server has the position of the consumer."""
        return self._history.cursor(events)

    def cursor_at(self, to: str) -> str:
        """The position whose source creates the consumer again, to begin elsewhere.

        :param to: ``first``, a sequence of the stream, or an ISO 8601 time.
        """
        try:
            read_start(to)
        except ValueError as exc:
            raise ConfigError(f"source {self.name}: {exc}") from None
        return self._cursor.starting_at(to).text()

    def rewind_to_cursor(self) -> bool:
        """Create the consumer again at the next connection, after the last event that the position certainly covers."""
        self._history.rewind_to_cursor()
        return True

    def status(self) -> SourceStatus:
        """The figures of this moment, with what the stream lost in the detail while connected."""
        status = super().status()
        if status.state is not SourceState.CONNECTED:
            return status
        detail = "; ".join(text for text in (status.detail, self._history.lost) if text)
        return msgspec.structs.replace(status, detail=detail)

    def probe(self) -> None:
        """Connect to the first server that answers, and ask for JetStream. The stream need not exist."""
        try:
            asyncio.run(self._probe())
        except SourceError:
            raise
        except Exception as exc:  # noqa: BLE001 - any failure is the answer
            raise SourceError(describe(exc)) from None

    async def _probe(self) -> None:
        client = await connect(self._settings, self.name)
        try:
            await jetstream_of(client, self._settings).consumer()
        finally:
            await close(client)

    # The emitting thread

    def _take(self) -> list[Event] | None:
        self._session.wake()  # it may ask for more
        batch = self.in_flight.take(self._settings.batch, self._settings.linger if self._is_flowing else 0.0)
        if batch is None:
            return None
        self._is_flowing = len(batch) > 1
        return [self._event_of(epoch, received) for epoch, received in batch]

    def _event_of(self, epoch: int, received: JetStreamMessage) -> Event:
        message, sequence, limit = received.message, received.sequence, self._settings.max_deliveries
        event = envelopes.read_message(
            message.data,
            message.headers,
            source=self.name,
            number=f"{self._settings.consumer.stream}/{epoch}/{sequence}",
            deliveries=received.deliveries,
            position=received.stored_at,
            channel=message.subject,
            sequence=(epoch, sequence),
            max_size=self._settings.max_event_size,
        )
        if event.undecodable is not None:
            why = event.undecodable
        elif 0 < limit < received.deliveries:
            why = f"delivered {received.deliveries} times and not done, {limit} is the limit"
            event = envelopes.unread(message.data, message.headers, event, why)
        else:
            return event
        return msgspec.structs.replace(event, undecodable=f"{why} (subject {message.subject}, sequence {sequence})")
