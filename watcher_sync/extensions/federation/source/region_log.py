# SPDX-License-Identifier: Apache-2.0
"""The log of one region on JetStream, and what was received of it.

The streams are those of the outlet ``nats_jetstream`` of the region: each change, and the current model. What waits at
a connection is read from the model, so an entity that changed several times arrives once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Sequence
from typing import Final

from nats.aio.client import Client
from nats.errors import Error as NatsError

from watcher_sync.client.log.current_model import MODEL_SUFFIX
from watcher_sync.client.log.follower import LogFollower
from watcher_sync.client.log.messages import SNAPSHOT_BEGIN, SNAPSHOT_END, PublishedChange, UnknownMessage, decoded
from watcher_sync.client.log.received import ModelBegins, ModelEnds, Received
from watcher_sync.client.log.servers import Closed, close
from watcher_sync.exceptions import SourceError
from watcher_sync.extensions.federation.source.following import logger_for_debugging
from watcher_sync.extensions.federation.source.log_options import LogSettings
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.api import JetStreamAnswer, JetStreamApi
from watcher_sync.transports.nats.connection import NatsConnection, connect, describe
from watcher_sync.wire import json

_TIMEOUT_SECONDS: Final = 5.0
_POLL_SECONDS: Final = 0.2
_LOG: Final = logger_for_debugging(f"{__name__}.stream")
"""The source shows outages itself."""


def follow_log(settings: LogSettings, places: Sequence[tuple[str, int, int]]) -> LogFollower:
    """What reads the log of a region; it is started.

    :param places: where to continue, as :class:`LogFollower` has them; none: with the current model.
    """

    async def connected(closed: Closed) -> Client:
        connection: NatsConnection | None = None

        def ended() -> None:
            closed(connection.why if connection is not None else None)

        connection = await connect(settings, f"source {settings.site.source}", closed=ended)
        return connection

    follower = LogFollower(
        connected, settings.stream, places, states=True, prefix=settings.api_prefix, logger=_LOG
    )  # fmt: skip
    follower.start()
    return follower


class RegionLog:
    """Decodes what was received, and knows its place in the log."""

    def __init__(self) -> None:
        self.seq = self.message = 0
        """Of the journal and of the stream: the last change."""

    def change_of(self, received: Received) -> PublishedChange | None:
        """The state of an entity, or the begin or end of a whole model; None: neither.

        :raises UnknownMessage: it is no change.
        """
        if isinstance(received, ModelEnds):
            return PublishedChange(partition="", epoch="", seq=self.seq, change=SNAPSHOT_END)
        change = decoded(received.data, received.sequence, received.marker)
        _check_depth(received.data, received.sequence)
        if isinstance(received, ModelBegins):
            return change
        self.seq, self.message = change.seq, received.sequence
        return change if change.kind or not received.of_model else None


def _check_depth(message: bytes, sequence: int) -> None:
    """Refuse what this decoder still reads, but not each of those that come after it.

    :raises UnknownMessage: it is nested too deeply.
    """
    if message.count(b"{") + message.count(b"[") > json.MAX_DEPTH:
        try:
            json.decode(message, max_size=len(message))
        except json.BadJson as exc:
            raise UnknownMessage(sequence, exc) from None


def list_log(settings: LogSettings, kinds: Collection[str], deadline: float) -> tuple[dict[str, set[str]], int, int]:
    """The ids of all entities of some kinds in the log, and up to where: the seq of the journal, and of the stream.

    The last change may have expired, so the journal may be further.

    :param deadline: ``time.monotonic()`` by which the reading has to end.
    :raises SourceError: the reading is not complete.
    """
    follower, log = follow_log(settings, ()), RegionLog()
    ids: dict[str, set[str]] = {}
    try:
        while time.monotonic() < deadline:
            for received in follower.take(_POLL_SECONDS) or ():
                change = log.change_of(received)
                if change is None:
                    continue
                if change.change == SNAPSHOT_END:
                    return ids, log.seq, received.sequence if isinstance(received, ModelEnds) else log.message
                if change.change == SNAPSHOT_BEGIN:
                    ids = {kind: set() for kind in kinds}
                elif change.kind in ids:
                    (ids[change.kind].add if change.exists else ids[change.kind].discard)(change.id)
    except UnknownMessage as exc:
        raise SourceError(str(exc)) from None
    finally:
        follower.close()
    raise SourceError(follower.problem or "the reading of the log has not ended in time")


def probe_log(settings: LogSettings) -> None:
    """Ask for both streams.

    :raises SourceError: one of them is not there, or no server accepts us.
    """
    asyncio.run(_probe(settings))


async def _probe(settings: LogSettings) -> None:
    try:
        connection = await connect(settings, f"source {settings.site.source}")
    except (NatsError, OSError) as exc:
        raise SourceError(describe(exc)) from None
    try:
        api = JetStreamApi(connection, prefix=settings.api_prefix, timeout=_TIMEOUT_SECONDS)
        for stream in (settings.stream, settings.stream + MODEL_SUFFIX):
            answer = await api.ask(f"STREAM.INFO.{stream}", None, JetStreamAnswer)
            if answer.error is not None:
                raise SourceError(f"the stream {stream}: {answer.error}")
    except NotReady as exc:
        raise SourceError(str(exc)) from None
    finally:
        await close(connection)
