# SPDX-License-Identifier: Apache-2.0
"""CloudEvents from a NATS JetStream stream, read through a durable consumer of our own.

The driver ``nats_jetstream``. Every message becomes one event with ``channel`` = its NATS subject and
``sequence`` = (creation time of the stream in microseconds, sequence in the stream): the order of the
messages, across a stream that was deleted and made anew too.

Threads: ``source-<name>`` runs an asyncio loop (:mod:`~watcher_sync.sources.nats.session` says how connections
end and what a stop does) and owns the connection, and whatever is sent goes out there.
``source-<name>-emit`` takes what has arrived, decodes it and hands it to the engine, which may block it: that
is the back-pressure, because no more is asked for than one batch beyond what waits for it. The engine's thread
leaves what it acked and released in a queue and wakes the loop.

Acknowledging: an ack is one publish and has no answer; what gets lost with a connection is delivered again, and
the model's ordering guard makes that harmless. What is in the engine's hands is prolonged three times within
ack_wait, so an outage of the database is no reason to deliver again. A message that is delivered again while it
is in hand is not emitted twice: its latest delivery is the one that is acknowledged. What was in hand when the
stream was made anew is not acknowledged at all: the same number is another message there.

A message that has been delivered more often than max_deliveries is emitted as undecodable, and so goes to
quarantine: it may be what kills the engine each time. From half of that on it is emitted alone, so that those which
were only in hand beside it, or beside a power cut, are done before they get there.
"""

from __future__ import annotations

import asyncio
import datetime
import threading
import time
from collections.abc import Sequence
from typing import ClassVar

import msgspec
from oslo_config import cfg
from oslo_log import log as logging

from watcher_sync.events import Event
from watcher_sync.exceptions import SourceError
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.sources.nats import settings
from watcher_sync.sources.nats.connection import close, connect, describe
from watcher_sync.sources.nats.consumer import Arrived
from watcher_sync.sources.nats.in_flight import InFlight
from watcher_sync.sources.nats.session import Figures, Loop, jetstream_of
from watcher_sync.sources.nats.settings import Settings
from watcher_sync.wire import envelopes

LOG = logging.getLogger(__name__)


class NatsJetStreamSource(Source):
    """The driver ``nats_jetstream``."""

    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS
    supports_subprocess: ClassVar[bool] = True

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf, cursor=cursor)
        self._settings = Settings(name, conf)
        self._stopping = threading.Event()
        self._hands = InFlight(self._stopping)
        self._emit: Emit | None = None
        self._figures = Figures()
        self._last_event_at: datetime.datetime | None = None
        self._loop = Loop(name, self._settings, self._hands, self._stopping, self._figures)
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)
        self._emitter = threading.Thread(target=self._emit_all, name=f"source-{name}-emit", daemon=True)

    # -- what the engine calls --------------------------------------------------------------------

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._thread.start()
        self._emitter.start()

    def ack(self, events: Sequence[Event]) -> None:
        """The loop tells the server."""
        self._hands.settle(events, None)
        self._loop.wake()

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """Delivered again after ``delay`` seconds, and twice as long each time that it was delivered before."""
        self._hands.settle(events, delay)
        self._loop.wake()

    def stop(self, deadline: float) -> None:
        """End as described in :mod:`~watcher_sync.sources.nats.session`."""
        self._loop.stop(deadline)
        self._hands.wake()
        for thread in (self._thread, self._emitter):
            if thread.ident is not None:
                thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            LOG.warning("source %s: not closed in time; the server delivers again what was not acked", self.name)
        self._figures.state, self._figures.detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the server has not delivered to anybody yet."""
        figures = self._figures
        return SourceStatus(
            state=figures.state,
            detail=figures.detail,
            lag=figures.lag,
            last_event_at=self._last_event_at,
            reconnects=max(0, figures.connections - 1),
            redelivered=figures.redelivered,
        )

    def probe(self) -> None:
        """Connect to the first server that answers, and ask for JetStream. The stream need not exist."""
        try:
            asyncio.run(self._reach())
        except Exception as exc:  # noqa: BLE001 - whatever it is, it is why
            raise SourceError(describe(exc)) from None

    async def _reach(self) -> None:
        client = await connect(self._settings, self.name)
        try:
            await jetstream_of(client, self._settings).backlog()
        finally:
            await close(client)

    # -- the two threads --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            asyncio.run(self._loop.live())
        except Exception as exc:
            LOG.exception("source %s: it has failed and is made anew", self.name)
            self._figures.state, self._figures.detail = SourceState.FAILED, f"{type(exc).__name__}: {exc}"

    def _emit_all(self) -> None:
        """Hand over what arrives, in order, until the stop."""
        assert self._emit is not None
        batch, linger = self._settings.batch, self._settings.linger
        flowing = False
        while (lot := self._hands.take(batch, linger if flowing else 0.0)) is not None:
            flowing = len(lot) > 1
            events = [self._event_of(epoch, arrived) for epoch, arrived in lot]
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            try:
                self._emit(events)
            except IntakeClosed:
                # Kept until we are stopped: given back now, it would be with us again at once.
                self._stopping.wait()
                self._hands.settle(events, 0.0)
            except Exception:
                LOG.exception("source %s: a batch could not be handed to the engine; it is given back", self.name)
                self._hands.settle(events, 1.0)
            self._loop.wake()

    def _event_of(self, epoch: int, arrived: Arrived) -> Event:
        message, sequence, limit = arrived.message, arrived.sequence, self._settings.max_deliveries
        event = envelopes.read_message(
            message.data,
            message.headers,
            source=self.name,
            number=f"{self._settings.wanted.stream}/{epoch}/{sequence}",
            deliveries=arrived.deliveries,
            channel=message.subject,
            sequence=(epoch, sequence),
            max_size=self._settings.max_event_size,
        )
        if event.undecodable is not None:
            why = event.undecodable
        elif 0 < limit < arrived.deliveries:
            why = f"delivered {arrived.deliveries} times and not done, {limit} is the limit"
            event = envelopes.unread(message.data, message.headers, event, why)
        else:
            return event
        return msgspec.structs.replace(event, undecodable=f"{why} (subject {message.subject}, sequence {sequence})")
