# SPDX-License-Identifier: Apache-2.0
"""Attaches a source to its stream: is it the one that was read before, and does the consumer fit?

Step by step:

1. Find the stream. If its end is before the known one, ask again for a while: a new leader of a cluster may be behind.
2. Ask for the known message, which identifies the stream.
3. If the stream is another one, forget the reply subjects of what is in flight.
4. Find, create or replace the consumer.
5. Look for what was discarded since.

For the event loop's thread only.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from oslo_log import log as logging

from watcher_sync.sources.cursors import FIRST
from watcher_sync.sources.nats.history import StreamHistory
from watcher_sync.sources.nats.in_flight import JetStreamInFlight
from watcher_sync.sources.nats.stream import ConsumerHandle, JetStream, NotReady, StreamInfo

LOG = logging.getLogger(__name__)

_BEHIND_SECONDS: Final = 2.0
"""After this time a stream whose end is before the known one is an older copy."""
_ASK_AGAIN_SECONDS: Final = 0.25


class Attachment:
    """The way from a connection to a consumer that can be pulled from.

    :param name: of the source.
    """

    def __init__(self, name: str, history: StreamHistory, in_flight: JetStreamInFlight) -> None:
        self._name = name
        self._history = history
        self._in_flight = in_flight
        self._warned = False

    async def attach(self, stream: JetStream) -> ConsumerHandle:
        """Find the stream and the consumer, or create them as the configuration allows.

        :raises NotReady: one is missing or does not fit.
        :raises NoAnswer: JetStream does not answer.
        """
        history = self._history
        info = await self._find(stream)
        if history.compare(info, await self._stored_at(stream, info)):
            self._in_flight.forget_replies()
        consumer = await stream.consumer()
        if consumer is not None and history.needs_new_consumer(consumer):
            await stream.delete_consumer()
            consumer = None
        if consumer is None:
            consumer = await stream.make_consumer(history.start or FIRST)
        stream.check(consumer)
        history.begin(info, consumer)
        return consumer

    async def _find(self, stream: JetStream) -> StreamInfo:
        info = await stream.find()
        until = time.monotonic() + _BEHIND_SECONDS
        while self._history.is_behind(info) and time.monotonic() < until:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
            info = await stream.find()
        return info

    async def _stored_at(self, stream: JetStream, info: StreamInfo) -> int | None:
        """When the known message was stored; None if that is unknown, as without the permission to ask for it."""
        sequence = self._history.known_message(info)
        if sequence is None:
            return None
        try:
            return await stream.stored_at(sequence)
        except NotReady as exc:
            if not self._warned:
                self._warned = True
                LOG.warning(
                    "source %s: an older copy of the stream may not be noticed: %s; the account needs the permission"
                    " STREAM.MSG.GET",
                    self._name,
                    exc,
                )
            return None
