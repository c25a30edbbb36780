# SPDX-License-Identifier: Apache-2.0
"""The driver ``oslo_messaging``: notifications of OpenStack services.

It is one batch notification listener with a queue of its own (the pool), bound to every topic and priority. For
``rabbit://`` and ``kombu+...://`` it uses :mod:`watcher_sync.sources.rabbit_strict`, which emits raw bodies. Other URLs
use oslo.messaging's own driver, which drops a body that is no JSON.

Threads: ``source-<name>`` connects with jittered back-off and then polls the lag. oslo.messaging's poll thread owns the
connection: it reads, settles and reconnects. Its one worker emits a batch and waits until the engine has settled it.
Meanwhile the poll thread gathers the next batch, up to the prefetch window (2 x batch_size by default).

:meth:`OsloMessagingSource.stop` describes the steps of a stop.
"""

from __future__ import annotations

import datetime
import random
import threading
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar, Final

import msgspec
import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging
from oslo_messaging.notify import dispatcher as oslo_dispatcher
from oslo_messaging.notify import listener as oslo_listener
from oslo_messaging.transport import NotificationTransport

from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import ConfigError, SourceError
from watcher_sync.sources import rabbit_strict
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.wire import envelopes
from watcher_sync.wire.json import MAX_SIZE

LOG = logging.getLogger(__name__)

PRIORITIES: Final = ("info", "warn", "error", "critical")

_BACKOFF_SECONDS: Final = (0.2, 3.0)
_LAG_INTERVAL_SECONDS: Final = 5.0
_GENERIC_POLL_SECONDS: Final = 0.02
_HELD_BYTES: Final = 67_108_864
"""Bytes of bodies that are read from the broker and not settled; above them nothing more is read."""


class _Batch:
    """The batch in flight: positions ``first`` and following. Guarded by the source's condition."""

    def __init__(self, first: int, count: int) -> None:
        self.open = set(range(first, first + count))
        self.released: set[int] = set()
        self.not_before = 0.0


class _Dispatcher(oslo_dispatcher.NotificationDispatcher):  # type: ignore[misc]
    """Passes a batch to the source in the order of its arrival, and requeues what the source returns.

    The library's dispatcher sorts a batch by priority and drops unknown priorities. It can only requeue a whole
    priority group.
    """

    def __init__(self, source: OsloMessagingSource) -> None:
        super().__init__([], None)
        self._source = source

    @property
    def supported_priorities(self) -> Sequence[str]:
        return PRIORITIES

    def dispatch(self, incoming: Sequence[Any]) -> set[Any]:
        return self._source._deliver(incoming)


class _Server(oslo_listener.BatchNotificationServer):  # type: ignore[misc]
    """With an executor whose shutdown wakes its idle worker; the library's own may sleep for seconds more."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._executor_cls = ThreadPoolExecutor


class OsloMessagingSource(Source):
    """The driver ``oslo_messaging``."""

    envelopes: ClassVar[Collection[str]] = (OSLO,)
    waits_for_ack = True
    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "transport_url",
            secret=True,
            help="The message bus, in oslo.messaging's form: rabbit://user:password@host:port/virtual_host."
            " Options of [oslo_messaging_rabbit] may be set for this source alone in its query.",
        ),
        cfg.StrOpt(
            "exchange",
            default="nova",
            help="The exchange that the service publishes to: its [DEFAULT] control_exchange.",
        ),
        cfg.ListOpt(
            "topics",
            default=["versioned_notifications"],
            help="Topics to listen on; the service's [notifications] versioned_notifications_topics.",
        ),
        cfg.StrOpt(
            "pool",
            default="watcher-sync",
            help="Name of the queue of this source. Two engines with the same pool share the messages.",
        ),
        cfg.IntOpt(
            "batch_size",
            min=1,
            help="Events that are emitted in one batch. Default: [engine] batch_size.",
        ),
        cfg.FloatOpt(
            "poll_timeout",
            default=0.001,
            min=0.0001,
            max=1.0,
            help="Seconds that a batch which is not full waits for one more message.",
        ),
        cfg.IntOpt(
            "max_event_size",
            default=MAX_SIZE,
            min=1024,
            help="Bytes that one event may have. A larger one goes to quarantine.",
        ),
    ]

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: when the transport_url is missing or malformed."""
        super().__init__(name, conf, cursor=cursor)
        self._batch_size: int = self.group.batch_size or conf.engine.batch_size
        self._private = _private_conf(conf)
        self._url = self._parse_url()
        self._strict = self._url.transport.partition("+")[0] in ("rabbit", "kombu")
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        # Guarded by _changed:
        self._batch: _Batch | None = None
        self._next_position = 0
        self._abandoned = False
        # Written by one thread each, read by any:
        self._emit: Emit | None = None
        self._state = SourceState.STARTING
        self._detail = ""
        self._reconnects = 0
        self._lag: int | None = None
        self._last_event_at: datetime.datetime | None = None
        self._driver: rabbit_strict.StrictRabbitDriver | None = None
        self._server: _Server | None = None
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    # What the engine calls

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._thread.start()

    def ack(self, events: Sequence[Event]) -> None:
        """The worker acknowledges them once its batch is settled."""
        with self._changed:
            if self._batch is not None:
                self._batch.open.difference_update([event.position for event in events])
                if not self._batch.open:
                    self._changed.notify_all()

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """The worker requeues them, ``delay`` seconds from now at the earliest."""
        with self._changed:
            batch = self._batch
            if batch is not None:
                positions = batch.open.intersection([event.position for event in events])
                batch.open -= positions
                batch.released |= positions
                batch.not_before = max(batch.not_before, time.monotonic() + delay)
                if not batch.open:
                    self._changed.notify_all()

    def stop(self, deadline: float) -> None:
        """Stop, step by step.

        1. The poll thread ends. What it read and did not pass on goes back to the queue with the connection.
        2. The engine settles the batch in flight. Shortly before the deadline the rest of it counts as nacked.
        3. Acks and requeues are sent, and the connection is closed, which the broker confirms.

        A thread of its own does this, because the library's waits have no deadline.
        """
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        closer = threading.Thread(target=self._close, name=f"source-{self.name}-close", daemon=True)
        closer.start()
        margin = min(1.0, max(0.0, deadline - time.monotonic()) / 4)
        closer.join(max(0.0, deadline - margin - time.monotonic()))
        if closer.is_alive():
            with self._changed:
                self._abandoned = True
                self._changed.notify_all()
            closer.join(max(0.0, deadline - time.monotonic()))
        if closer.is_alive():
            LOG.warning("source %s: stop timed out; the broker redelivers what was not acked", self.name)
        self._state, self._detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """The figures of this moment. The lag counts what the broker has not delivered yet."""
        return SourceStatus(
            state=self._state,
            detail=self._detail,
            lag=self._lag,
            last_event_at=self._last_event_at,
            reconnects=self._reconnects,
        )

    def probe(self) -> None:
        """Log in to the first host of the URL that answers. Nothing is declared and no message is touched."""
        if not self._strict:
            raise NotImplementedError
        rabbit_strict.set_defaults(self._private, prefetch=1)
        try:
            rabbit_strict.probe(self._private, self._url)
        except Exception as exc:  # noqa: BLE001 - any failure is the answer
            raise SourceError(self._scrub(exc)) from None

    # The worker: one batch at a time

    def _deliver(self, incoming: Sequence[Any]) -> set[Any]:
        """Emit a batch, wait for the engine, and return what is to be requeued."""
        if self._stopping.is_set() or self._emit is None:
            return set(incoming)
        with self._changed:
            first = self._next_position
            self._next_position += len(incoming)
            batch = self._batch = _Batch(first, len(incoming))
        try:
            self._last_event_at = datetime.datetime.now(datetime.UTC)
            self._emit([self._event_of(message, first + index) for index, message in enumerate(incoming)])
            self._wait_for(batch)
            return {incoming[position - first] for position in batch.released}
        except IntakeClosed:
            # Held until the stop: requeued now, it would be delivered again at once.
            self._stopping.wait()
        except Exception:
            LOG.exception("source %s: a batch could not be emitted; it is requeued", self.name)
            self._stopping.wait(1.0)
        finally:
            with self._changed:
                self._batch = None
        return set(incoming)

    def _event_of(self, message: Any, position: int) -> Event:
        if isinstance(message, rabbit_strict.RawMessage):
            if message.event is not None:
                return msgspec.structs.replace(message.event, position=position)
            return envelopes.read_body(
                message.body,
                source=self.name,
                position=position,
                deliveries=message.deliveries,
                max_size=self.group.max_event_size,
            )
        event = envelopes.read_document(message.message, source=self.name, position=position)
        return msgspec.structs.replace(event, size=_size_of(message.message))

    def _oversized(self, body: bytes, deliveries: int) -> Event:
        return envelopes.read_body(body, source=self.name, deliveries=deliveries, max_size=self.group.max_event_size)

    def _wait_for(self, batch: _Batch) -> None:
        """Until all of it is acked or nacked, and the delay of what is nacked is over."""
        with self._changed:
            self._changed.wait_for(lambda: not batch.open or self._abandoned)
            batch.released |= batch.open
            if batch.released:
                pause = batch.not_before - time.monotonic()
                self._changed.wait_for(lambda: self._abandoned or self._stopping.is_set(), max(0.0, pause))

    # The source's thread: the first connection, then the lag

    def _run(self) -> None:
        failures = 0
        while not self._stopping.is_set():
            try:
                server = self._make_server()
                server.start(override_pool_size=1)
            except Exception as exc:  # noqa: BLE001 - reported in the status and retried
                detail = f"cannot connect: {self._scrub(exc)}"
                if not failures:
                    LOG.warning("source %s: disconnected: %s; retrying", self.name, detail)
                self._state, self._detail = SourceState.DISCONNECTED, detail
                ceiling = min(_BACKOFF_SECONDS[1], _BACKOFF_SECONDS[0] * 2 ** min(failures, 10))
                failures += 1
                self._stopping.wait(random.uniform(_BACKOFF_SECONDS[0] / 2, ceiling))
                continue
            self._server = server
            self._state, self._detail = SourceState.CONNECTED, ""
            LOG.info("source %s: connected", self.name)
            self._watch_lag()
            return

    def _make_server(self) -> _Server:
        transport: Any
        if self._strict:
            rabbit_strict.set_defaults(self._private, prefetch=2 * self._batch_size)
            self._driver = rabbit_strict.StrictRabbitDriver(
                self._private,
                self._url,
                linger=self.group.poll_timeout,
                on_state=self._on_state,
                limits=rabbit_strict.Limits(self.group.max_event_size, _HELD_BYTES, self._oversized),
            )
            transport = NotificationTransport(self._driver)
            wait = self.group.poll_timeout
        else:
            transport = oslo_messaging.get_notification_transport(self._private, self._url)
            wait = max(_GENERIC_POLL_SECONDS, self.group.poll_timeout)
        targets = [oslo_messaging.Target(exchange=self.group.exchange, topic=topic) for topic in self.group.topics]
        return _Server(
            transport,
            targets,
            _Dispatcher(self),
            allow_requeue=True,
            pool=self.group.pool,
            batch_size=self._batch_size,
            batch_timeout=wait,
        )

    def _on_state(self, connected: bool, detail: str) -> None:
        """The poll thread calls it."""
        if self._stopping.is_set():
            return
        if connected:
            self._reconnects += 1
            LOG.info("source %s: connected", self.name)
        elif self._state is SourceState.CONNECTED:
            LOG.warning("source %s: disconnected: %s; retrying", self.name, detail)
        self._state = SourceState.CONNECTED if connected else SourceState.DISCONNECTED
        self._detail = detail

    def _watch_lag(self) -> None:
        listener = self._driver.listener if self._driver is not None else None
        if listener is None or not self.group.pool:
            return
        probe: Any = None
        wait = 0.0
        while not self._stopping.wait(wait):
            wait = _LAG_INTERVAL_SECONDS
            try:
                self._lag, probe = listener.depth(self.group.pool, probe)
            except Exception as exc:  # noqa: BLE001 - an unknown lag is no error of the source
                LOG.debug("source %s: the lag is unknown: %s", self.name, type(exc).__name__)
                self._lag, probe = None, None
        if probe is not None:
            probe.release()

    def _close(self) -> None:
        self._thread.join()
        server, self._server = self._server, None
        if server is None:
            return
        server.stop()
        server.wait()
        server.transport.cleanup()

    # The URL

    def _parse_url(self) -> Any:
        option = f"[source_{self.name}] transport_url"
        if not self.group.transport_url:
            raise ConfigError(f"{option}: not set")
        try:
            return oslo_messaging.TransportURL.parse(self._private, self.group.transport_url)
        except (oslo_messaging.InvalidTransportURL, ValueError):
            # The library's message shows the URL with its password.
            raise ConfigError(f"{option}: not of the form driver://user:password@host:port/virtual_host") from None

    def _scrub(self, error: Exception) -> str:
        """An error on one line, without the passwords of the URL."""
        text = " ".join(f"{type(error).__name__}: {error}".split())
        for host in self._url.hosts:
            if host.password:
                text = text.replace(host.password, "***")
        return text[:300]


def _size_of(document: Any) -> int:
    """About the bytes of a document that the library has decoded."""
    try:
        return len(msgspec.json.encode(document))
    except (TypeError, ValueError, RecursionError):
        return 0


def _private_conf(conf: cfg.ConfigOpts) -> cfg.ConfigOpts:
    """A configuration of the same files, for a library that registers its options on the object that it gets.

    Two sources would otherwise share these options. An option for one source only is set in the query of its URL.
    """
    private = cfg.ConfigOpts()
    try:
        files, folders = list(conf.config_file or []), list(conf.config_dir or [])
    except cfg.NoSuchOptError:  # never parsed: there are no files
        files, folders = [], []
    private([], project="watcher-sync", default_config_files=files, default_config_dirs=folders)
    return private
