# SPDX-License-Identifier: Apache-2.0
"""The driver ``oslo_messaging``: notifications by any transport of oslo.messaging, on its public interface only.

It is one batch notification listener with a queue of its own (the pool), bound to every topic and priority. For
RabbitMQ use the driver ``rabbitmq``. The decision record ``oslo-messaging`` lists what this driver cannot promise.

The library splits a batch into one group per priority. It can only requeue a whole group. So a nacked event is emitted
again from here, after its delay, and a group is requeued at a stop only.

Threads: ``source-<name>`` connects, waits for the stop and closes. The library's poll thread reads and settles. Its
worker emits a group and waits until the engine has acked it.
"""

from __future__ import annotations

import datetime
import functools
import json
import threading
import time
from collections.abc import Collection, Sequence
from typing import Any, ClassVar, Final

import msgspec
import oslo_messaging
from oslo_config import cfg
from oslo_log import log as logging
from oslo_messaging import opts as library_opts
from oslo_utils import strutils

from watcher_sync.backoff import Backoff
from watcher_sync.conf import files, urls
from watcher_sync.conf.private import read_privately
from watcher_sync.events import OSLO, Event
from watcher_sync.exceptions import ConfigError, described
from watcher_sync.extensions.openstack.source.notifier_options import PRIORITIES, PUBLISHER_OPTS
from watcher_sync.plugins import register_options
from watcher_sync.sources.base import Emit, IntakeClosed, Source, SourceState, SourceStatus
from watcher_sync.transports.rabbitmq.broker import insecure_broker
from watcher_sync.transports.scrubbing import without_secrets
from watcher_sync.wire import envelopes, request_contexts
from watcher_sync.wire.json import MAX_SIZE

LOG = logging.getLogger(__name__)

_RABBIT_GROUP: Final = "oslo_messaging_rabbit"
_KAFKA_GROUP: Final = "oslo_messaging_kafka"
_RABBIT_DEFAULTS: Final = (
    # With these a listener reconnects within seconds.
    ("rabbit_retry_interval", 1),
    ("rabbit_retry_backoff", 1),
    ("rabbit_interval_max", 2),
    ("kombu_reconnect_delay", 0.2),
)

_BACKOFF_SECONDS: Final = (0.2, 3.0)
_CONNECT_SECONDS: Final = 5.0
"""A library that has not connected within so long counts as disconnected."""
_EMIT_RETRY_SECONDS: Final = 1.0
_CLOSE_SECONDS: Final = 2.0
"""How long before the deadline a stop gives up waiting for the engine: the library's executor needs up to 1 s."""
_SETTLE_SECONDS: Final = 0.05
"""How long no group is in flight before the connection is closed, so that the library sends the last acks."""


class _Endpoint:
    """Has one method for each priority, which is how the library learns what to subscribe to."""

    def __init__(self, source: OsloMessagingSource) -> None:
        for priority in PRIORITIES:
            setattr(self, priority, functools.partial(source._on_group, priority))


class _Group:
    """The events in flight, by position. Guarded by the source's condition."""

    def __init__(self, events: Sequence[Event]) -> None:
        self.open = {event.position: event for event in events}
        self.nacked: dict[int, Event] = {}
        self.not_before = 0.0


class OsloMessagingSource(Source):
    """The driver ``oslo_messaging``."""

    envelopes: ClassVar[Collection[str]] = (OSLO,)
    waits_for_ack = True
    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "transport_url",
            secret=True,
            help="The message bus, in oslo.messaging's form: kafka://user:password@host:port/."
            " Options of the transport's own section may be set for this source alone in its query."
            " For rabbit:// the driver rabbitmq is recommended.",
        ),
        *PUBLISHER_OPTS,
        cfg.StrOpt(
            "pool",
            default="watcher-sync",
            help="Name of the queue of this source. Two engines with the same pool share the messages.",
        ),
        cfg.IntOpt(
            "batch_size",
            min=1,
            advanced=True,
            help="Events that are emitted in one batch. Default: [engine] batch_size.",
        ),
        cfg.FloatOpt(
            "poll_timeout",
            default=0.02,
            min=0.0001,
            max=1.0,
            advanced=True,
            help="Seconds for which oslo.messaging gathers a batch. A lone event waits up to so long."
            " A shorter time costs more processor time while no event arrives.",
        ),
        cfg.IntOpt(
            "max_event_size",
            default=MAX_SIZE,
            min=1024,
            advanced=True,
            help="Bytes that one event may have. A larger one goes to quarantine."
            " oslo.messaging has read and decoded it before.",
        ),
    ]
    insecure_transports = staticmethod(insecure_broker)

    def __init__(self, name: str, conf: cfg.ConfigOpts, *, cursor: str | None = None) -> None:
        """:raises ConfigError: when the transport_url is missing or malformed."""
        super().__init__(name, conf, cursor=cursor)
        self._batch_size: int = self.group.batch_size or conf.engine.batch_size
        self._private = _private_conf(conf, prefetch=2 * self._batch_size)
        self._url = self._parse_url()
        self._stopping = threading.Event()
        self._changed = threading.Condition()
        # Guarded by _changed, and the first two read by any thread:
        self._state = SourceState.STARTING
        self._detail = ""
        self._group: _Group | None = None
        self._abandoned = False
        self._last_group_at = 0.0
        # Written by one thread each, read by any:
        self._next_position = 0
        self._emit: Emit | None = None
        self._started_at = 0.0
        self._last_event_at: datetime.datetime | None = None
        self._thread = threading.Thread(target=self._run, name=f"source-{name}", daemon=True)

    # What the engine calls

    def start(self, emit: Emit) -> None:
        """Begin to connect and return."""
        self._emit = emit
        self._started_at = time.monotonic()
        self._thread.start()

    def ack(self, events: Sequence[Event]) -> None:
        """The library acks a group once all of it is acked here."""
        with self._changed:
            group = self._group
            if group is not None:
                for event in events:
                    group.open.pop(event.position, None)
                if not group.open:
                    self._changed.notify_all()

    def nack(self, events: Sequence[Event], delay: float) -> None:
        """The worker emits them again, ``delay`` seconds from now at the earliest."""
        with self._changed:
            group = self._group
            if group is not None:
                for event in events:
                    if (held := group.open.pop(event.position, None)) is not None:
                        group.nacked[held.position] = held
                        group.not_before = max(group.not_before, time.monotonic() + delay)
                if not group.open:
                    self._changed.notify_all()

    def stop(self, deadline: float) -> None:
        """Stop, step by step.

        1. The library's poll thread ends, and each group that it read and did not emit is requeued.
        2. The engine settles the group in flight. If any of it is nacked, or open shortly before the deadline, the
           whole group is requeued.
        3. The library sends what is outstanding and closes the connection. It does not report whether the broker
           received the last acks. An event whose ack is lost is delivered again.

        A library that has not connected yet cannot be interrupted. Nothing is in flight then, and its daemon thread
        closes the connection if one is made later.
        """
        self._stopping.set()
        with self._changed:
            self._changed.notify_all()
        left = max(0.0, deadline - time.monotonic())
        if self._state is SourceState.CONNECTED:
            self._thread.join(left - min(_CLOSE_SECONDS, left / 2))
            with self._changed:
                self._abandoned = True
                self._changed.notify_all()
            self._thread.join(max(0.0, deadline - time.monotonic()))
        elif self._thread.is_alive():
            self._thread.join(min(0.5, left))
        if self._thread.is_alive():
            LOG.warning("source %s: stop timed out; the transport redelivers what was not acked", self.name)
        with self._changed:
            self._state, self._detail = SourceState.STOPPED, ""

    def status(self) -> SourceStatus:
        """What is known: whether the library connected once, and when the last event arrived.

        The library reports neither a lost connection nor a reconnection nor the lag.
        """
        state, detail = self._state, self._detail
        is_late = self._started_at and time.monotonic() - self._started_at > _CONNECT_SECONDS
        if state is SourceState.STARTING and is_late:
            state, detail = SourceState.DISCONNECTED, "oslo.messaging has not connected; its log says why"
        return SourceStatus(state=state, detail=detail, last_event_at=self._last_event_at)

    # The library's worker: one group at a time

    def _on_group(self, priority: str, messages: Sequence[dict[str, Any]]) -> str:
        """Emit a group until all of it is acked; requeue it if the stop comes first."""
        if self._emit is None:
            return str(oslo_messaging.NotificationResult.REQUEUE)
        if not self._stopping.is_set():
            self._last_event_at = datetime.datetime.now(datetime.UTC)
        events = [self._event_of(priority, message) for message in messages]
        while events and not self._stopping.is_set():
            events = self._deliver(self._emit, events)
        with self._changed:
            self._last_group_at = time.monotonic()
        result = oslo_messaging.NotificationResult
        return str(result.REQUEUE if events else result.HANDLED)

    def _deliver(self, emit: Emit, events: Sequence[Event]) -> list[Event]:
        """Emit, wait for the engine, and return what is to be emitted again, now that its delay is over."""
        with self._changed:
            group = self._group = _Group(events)
        try:
            emit(events)
        except IntakeClosed:
            self._stopping.wait()  # requeued now, it would be delivered again at once
            self.nack(events, 0.0)
        except Exception:
            LOG.exception("source %s: a batch could not be emitted; retrying", self.name)
            self.nack(events, _EMIT_RETRY_SECONDS)
        with self._changed:
            self._changed.wait_for(lambda: not group.open or self._abandoned)
            self._group = None
            left = group.open | group.nacked
            if left:
                pause = group.not_before - time.monotonic()
                self._changed.wait_for(lambda: self._abandoned or self._stopping.is_set(), max(0.0, pause))
        again = [left[position] for position in sorted(left)]
        return [msgspec.structs.replace(event, deliveries=event.deliveries + 1) for event in again]

    def _event_of(self, priority: str, message: dict[str, Any]) -> Event:
        """The event of a message as the library passes it on: decoded, with None for each field that is absent."""
        position = self._next_position
        self._next_position += 1
        context = message.get("ctxt")
        fields = {
            "message_id": message["metadata"].get("message_id"),
            "publisher_id": message["publisher_id"],
            "event_type": message["event_type"],
            "priority": priority,
            "payload": message["payload"],
            "timestamp": message["metadata"].get("timestamp"),
            **(request_contexts.context_members(context) if isinstance(context, dict) else {}),
        }
        document = {name: value for name, value in fields.items() if value is not None}
        try:
            body = json.dumps(document).encode()
        except (TypeError, ValueError, RecursionError):
            return envelopes.read_document(document, source=self.name, position=position)
        return envelopes.read_body(body, source=self.name, position=position, max_size=self.group.max_event_size)

    # The source's thread: connect, wait, close

    def _run(self) -> None:
        backoff = Backoff(*_BACKOFF_SECONDS)
        while not self._stopping.is_set():
            transport: Any = None
            try:
                transport = oslo_messaging.get_notification_transport(self._private, self._url)
                listener = self._make_listener(transport)
                listener.start(override_pool_size=1)
            except Exception as exc:  # noqa: BLE001 - reported in the status and retried
                if transport is not None:
                    transport.cleanup()
                self._on_failure(exc, backoff)
                continue
            self._set_state(SourceState.CONNECTED, "")
            self._stopping.wait()
            self._close(listener)
            transport.cleanup()
            return

    def _on_failure(self, error: Exception, backoff: Backoff) -> None:
        self._set_state(SourceState.DISCONNECTED, f"cannot connect: {self._scrub(error)}")
        self._stopping.wait(backoff.failed())

    def _set_state(self, state: SourceState, detail: str) -> None:
        """Set and log the state; not after the stop."""
        with self._changed:
            if self._stopping.is_set():
                return
            self._state, self._detail = state, detail
        self.log_state()

    def _make_listener(self, transport: Any) -> Any:
        return oslo_messaging.get_batch_notification_listener(
            transport,
            [oslo_messaging.Target(exchange=self.group.exchange, topic=topic) for topic in self.group.topics],
            [_Endpoint(self)],
            executor="threading",
            allow_requeue=True,
            pool=self.group.pool,
            batch_size=self._batch_size,
            batch_timeout=self.group.poll_timeout,
        )

    def _close(self, listener: Any) -> None:
        listener.stop()
        with self._changed:
            # The library drops acks that it has not sent when wait() finds its worker idle.
            while not self._abandoned and (self._group is not None or self._is_settling()):
                self._changed.wait(_SETTLE_SECONDS)
        listener.wait()

    def _is_settling(self) -> bool:
        return time.monotonic() - self._last_group_at < _SETTLE_SECONDS

    # The URL and the library's options

    def _parse_url(self) -> Any:
        option = f"[source_{self.name}] transport_url"
        if not self.group.transport_url:
            raise ConfigError(f"{option}: not set")
        urls.check_login(f"source_{self.name}", "transport_url", self.group.transport_url)
        try:
            url = oslo_messaging.TransportURL.parse(self._private, self.group.transport_url)
        except (oslo_messaging.InvalidTransportURL, ValueError):
            # The library's message shows the URL with its password.
            raise ConfigError(f"{option}: not of the form driver://user:password@host:port/virtual_host") from None
        # The library decodes both and does not encode "/" again, so it would take a part of the password for a port.
        is_rabbit = "rabbit" in url.transport or "amqp" in url.transport
        if is_rabbit and any("/" in f"{host.username}{host.password}" for host in url.hosts):
            raise ConfigError(
                f"{option}: oslo.messaging cannot log in to RabbitMQ with a '/' in the user or the password; set"
                " driver = rabbitmq, which can, or change the password"
            )
        self._check_files(url)
        return url

    def _check_files(self, url: Any) -> None:
        """Check the files of TLS. The library reports them at each attempt to connect, or only as a timeout."""
        is_kafka = url.transport.startswith("kafka")
        group = _KAFKA_GROUP if is_kafka else _RABBIT_GROUP

        def value(option: str) -> str:
            return str(url.query.get(option, self._private[group][option]) or "")

        if is_kafka:
            names = ("ssl_cafile", "ssl_client_cert_file", "ssl_client_key_file")
            is_used, password = value("security_protocol").endswith("SSL"), value("ssl_client_key_password")
        else:
            names = ("ssl_ca_file", "ssl_cert_file", "ssl_key_file")
            is_used, password = strutils.bool_from_string(value("ssl")), ""
        if is_used:
            files.check_tls(group, *((name, value(name)) for name in names), password=password)

    def _scrub(self, error: Exception) -> str:
        """An error on one line, without the passwords of the URL."""
        text = without_secrets(described(error), [host.password or "" for host in self._url.hosts])
        return " ".join(text.split())[:300]


def _private_conf(conf: cfg.ConfigOpts, *, prefetch: int) -> cfg.ConfigOpts:
    """A configuration of the same files, for a library that registers its options on the object that it gets.

    Two sources would otherwise share these options. An option for one source only is set in the query of its URL.

    :param prefetch: messages that RabbitMQ may deliver ahead of their ack, unless the query of the URL has another
        number. The library's own default has no bound, and the number of a file is meant for RPC.
    """
    private = read_privately(conf)
    for group, options in library_opts.list_opts():
        if group in (_KAFKA_GROUP, _RABBIT_GROUP):
            register_options(private, options, group)
        if group == _RABBIT_GROUP:
            private.set_override("rabbit_qos_prefetch_count", prefetch, group=group)
            for option, value in _RABBIT_DEFAULTS:
                private.set_default(option, value, group=group)
    return private
