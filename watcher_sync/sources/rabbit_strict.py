# SPDX-License-Identifier: Apache-2.0
"""oslo.messaging's RabbitMQ driver, changed so that it loses no message.

The library rejects a body that it cannot decode without requeue, so quarantine never sees it. It accepts duplicate keys
and NaN. It never settles a redelivered message whose ack was lost. It has no hook for any of this, so four subclasses
of private classes replace these places. They stay until the driver ``rabbitmq`` replaces this module. The decision
record ``oslo-messaging`` says more.

Guaranteed: each message is passed on with its raw body, or stays unsettled and is redelivered. Only the poll thread
settles. :meth:`_Listener.cleanup` settles after the end of that thread.

Not promised: that an acked message is never redelivered. An ack can be lost.
"""

from __future__ import annotations

import functools
import random
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from oslo_config import cfg
from oslo_log import log as logging
from oslo_messaging._drivers import amqpdriver, base, impl_rabbit
from oslo_messaging._drivers import common as driver_common

from watcher_sync.events import Event

LOG = logging.getLogger(__name__)

GROUP: Final = "oslo_messaging_rabbit"

_IDLE_WAIT_SECONDS: Final = 0.25
_BUSY_WAIT_SECONDS: Final = 0.002
_BURST_SECONDS: Final = 0.02
_BACKOFF_SECONDS: Final = (0.1, 2.0)

OnState = Callable[[bool, str], None]
"""The poll thread calls it when the connection is lost or restored: (connected, why not)."""


class Limits(NamedTuple):
    """The bytes that a listener holds."""

    event_bytes: int = 2**62
    """A larger body is replaced by its event, which has an excerpt."""
    held_bytes: int = 2**62
    """While so many are held, nothing more is read from the broker."""
    oversized: Callable[[bytes, int], Event] = lambda body, deliveries: Event(id="", type="", source="")
    """Makes the event of a body that is too large, with the number of its deliveries."""


class RawMessage(base.IncomingMessage):  # type: ignore[misc]
    """A message as the broker delivered it.

    :ivar body: the body, whatever it is.
    :ivar event: its event, if the body is too large: then ``body`` is empty, and the event has an excerpt.
    :ivar deliveries: how often it was delivered. A broker that does not count them gives 2 for "more than once".
    """

    def __init__(self, raw: Any, settle: Callable[[Callable[[], None]], None]) -> None:
        super().__init__({}, None, msg_id="")
        body = raw.body
        self.body: bytes = body.encode(errors="surrogatepass") if isinstance(body, str) else bytes(body or b"")
        self.event: Event | None = None
        count = (raw.headers or {}).get("x-delivery-count")
        if isinstance(count, int):
            self.deliveries = count + 1
        else:
            self.deliveries = 2 if (raw.delivery_info or {}).get("redelivered") else 1
        self._raw = raw
        self._settle = settle

    def acknowledge(self) -> None:
        """Have the poll thread acknowledge it."""
        self._settle(self._raw.ack)

    def requeue(self) -> None:
        """Have the poll thread requeue it."""
        self._settle(self._raw.requeue)


class _Consumer(impl_rabbit.Consumer):  # type: ignore[misc]
    """Passes on the raw message instead of decoding it."""

    def _callback(self, message: Any) -> None:
        to_python = getattr(self.queue.channel, "message_to_python", None)
        self.callback(to_python(message) if to_python else message)


class _Connection(impl_rabbit.Connection):  # type: ignore[misc]
    """Makes such consumers, and reports a failed first connection instead of retrying in its constructor."""

    def __init__(self, conf: Any, url: Any, purpose: str, retry: int | None = None) -> None:
        super().__init__(conf, url, purpose, retry=1)
        if self._url.startswith("memory://"):
            self.connection.transport.polling_interval = 0.005  # the parent's 0 spins

    def _set_current_channel(self, new_channel: Any) -> None:
        if new_channel is not None:
            new_channel.auto_decode = False  # the body as it came, whatever a header says of its encoding
        super()._set_current_channel(new_channel)

    def declare_topic_consumer(
        self, exchange_name: str, topic: str, callback: Any = None, queue_name: str | None = None
    ) -> None:
        self.declare_consumer(
            _Consumer(
                exchange_name=exchange_name,
                queue_name=queue_name or topic,
                routing_key=topic,
                type="topic",
                durable=self.durable,
                exchange_auto_delete=self.amqp_auto_delete,
                queue_auto_delete=self.amqp_auto_delete,
                callback=callback,
                rabbit_ha_queues=self.rabbit_ha_queues,
                enable_cancel_on_failover=self.enable_cancel_on_failover,
                rabbit_quorum_queue=self.rabbit_quorum_queue,
                rabbit_quorum_queue_config=self.rabbit_quorum_queue_config,
            )
        )


class _Listener(amqpdriver.NotificationAMQPListener):  # type: ignore[misc]
    """Polls raw messages: all that arrived while no batch is in flight, else a full batch.

    A lone message is not delayed, and batches are full under load. Idle it wakes four times a second.
    """

    def __init__(
        self, driver: StrictRabbitDriver, conn: Any, *, linger: float, on_state: OnState, limits: Limits
    ) -> None:
        super().__init__(driver, conn)
        self._limits = limits
        self._held = 0  # bytes that are passed on or wait here; the poll thread only
        self.incoming: list[RawMessage] = []
        self._rabbit: _Connection = conn.connection  # the connection inside the context manager
        self._linger = linger
        self._on_state = on_state
        self._channel = self._rabbit.channel
        self._connected = True
        self._failures = 0
        self._unsettled = 0  # passed on and neither acked nor requeued; the poll thread only

    def __call__(self, message: Any) -> None:
        size = [0]
        raw = RawMessage(message, functools.partial(self._settle, size))
        if len(raw.body) > self._limits.event_bytes:
            raw.event, raw.body = self._limits.oversized(raw.body, raw.deliveries), b""
            if not hasattr(message, "serializable"):  # kombu's virtual transports requeue the body themselves
                message.body = None
        size[0] = len(raw.body)
        self._held += size[0]
        self.incoming.append(raw)

    def poll(
        self, timeout: float | None = None, batch_size: int = 1, batch_timeout: float | None = None
    ) -> list[RawMessage]:
        """The next batch; empty only once the listener is stopped."""
        if self.prefetch_size > 0:
            batch_size = min(batch_size, self.prefetch_size)
        while not self._shutdown.is_set():
            self._message_operations_handler.process()
            busy = self._unsettled > 0
            is_full = self._held >= self._limits.held_bytes
            if len(self.incoming) >= batch_size or (self.incoming and not busy):
                batch = self._next_batch(batch_size)
                self._unsettled += len(batch)
                return batch
            if is_full:
                # What the broker has sent waits in the socket, until the engine settles what is held.
                self._shutdown.wait(_BUSY_WAIT_SECONDS)
                continue
            self._receive(_BUSY_WAIT_SECONDS if busy else _IDLE_WAIT_SECONDS, batch_size)
        # What was not passed on goes back to the queue when the connection closes.
        self._cancel()
        self.incoming.clear()
        self._shutoff.set()
        return []

    def _next_batch(self, most: int) -> list[RawMessage]:
        """The first messages, of a limited number and a quarter of the bytes that may be held."""
        count = size = 0
        while count < min(most, len(self.incoming)) and size < self._limits.held_bytes // 4:
            size += len(self.incoming[count].body)
            count += 1
        batch = self.incoming[:count]
        del self.incoming[:count]
        return batch

    def stop(self) -> None:
        """Pass on nothing more; returns when the poll thread does not use the connection any more."""
        self._shutdown.set()
        self._rabbit.stop_consuming()
        self._shutoff.wait()

    def cleanup(self) -> None:
        """Send what was settled since the stop, then close. To be called when no batch is in flight any more."""
        self._message_operations_handler.process()
        try:
            self.conn.close()
        except Exception as exc:  # noqa: BLE001 - the broker is gone: it redelivers what is not settled
            LOG.debug("closing the connection failed: %s", type(exc).__name__)

    def depth(self, queue: str, probe: Any) -> tuple[int, Any]:
        """How many messages wait in the queue; asked on a second connection.

        :param probe: what the last call returned second, None at first.
        """
        if probe is None:
            probe = self._rabbit.connection.clone()
        return int(probe.default_channel.queue_declare(queue=queue, passive=True).message_count), probe

    def _settle(self, size: list[int], settlement: Callable[[], None]) -> None:
        """Have the poll thread do it; any thread may call this.

        :param size: one number, the bytes that the message holds.
        """

        def run() -> None:
            self._unsettled -= 1
            self._held -= size[0]
            try:
                settlement()
            except Exception as exc:  # noqa: BLE001 - whatever a dead connection raises
                # The connection is gone, so the broker redelivers the message.
                LOG.debug("a settlement came too late: %s", type(exc).__name__)

        self._message_operations_handler.do(run)

    def _receive(self, wait: float, batch_size: int) -> None:
        """Read what arrives within ``wait`` seconds, and what follows closely."""
        error: Exception | None = None
        try:
            self._rabbit.consume(timeout=wait)
        except driver_common.Timeout:
            pass
        except Exception as exc:  # noqa: BLE001 - a supervised loop's edge: reported by _on_lost
            error = exc
        if error is not None or not self._rabbit.connection.connected:
            self._on_lost(error)
            return
        if self._rabbit.channel is not self._channel or not self._connected:
            self._on_reconnected()
        if self.incoming:
            self._burst(batch_size)

    def _cancel(self) -> None:
        """Have the broker deliver nothing more."""
        try:
            for consumer, tag in {tag: (consumer, tag) for consumer, tag in self._rabbit._consumers.items()}.values():
                consumer.cancel(tag)
        except Exception as exc:  # noqa: BLE001 - no connection, no deliveries
            LOG.debug("cancelling the consumer failed: %s", type(exc).__name__)

    def _burst(self, batch_size: int) -> None:
        """Read the messages that are there without the work that ``consume`` does around each."""
        drain = self._rabbit.connection.drain_events
        end = time.monotonic() + _BURST_SECONDS
        try:
            while len(self.incoming) < batch_size and self._held < self._limits.held_bytes:
                if self._shutdown.is_set():
                    return
                drain(timeout=self._linger)
                if time.monotonic() > end:
                    return
        except TimeoutError:
            return
        except Exception as exc:  # noqa: BLE001 - consume() gets the same error next and recovers
            LOG.debug("the connection broke in a burst: %s", type(exc).__name__)

    def _on_reconnected(self) -> None:
        """There is a new connection: the broker redelivers what came by the old one."""
        channel = self._rabbit.channel
        lost = [message for message in self.incoming if message._raw.channel is not channel]
        self._held -= sum(len(message.body) for message in lost)
        self.incoming = [message for message in self.incoming if message._raw.channel is channel]
        self._channel = channel
        self._connected = True
        self._failures = 0
        self._on_state(True, "")

    def _on_lost(self, error: Exception | None) -> None:
        self._held -= sum(len(message.body) for message in self.incoming)
        self.incoming.clear()
        self._connected = False
        self._channel = None
        self._on_state(False, f"the connection is lost: {type(error).__name__}" if error else "the connection is lost")
        ceiling = min(_BACKOFF_SECONDS[1], _BACKOFF_SECONDS[0] * 2 ** min(self._failures, 10))
        self._failures += 1
        self._shutdown.wait(random.uniform(_BACKOFF_SECONDS[0] / 2, ceiling))


class StrictRabbitDriver(impl_rabbit.RabbitDriver):  # type: ignore[misc]
    """oslo.messaging's driver for ``rabbit://`` and ``kombu+...://``, listening only.

    :param linger: seconds that a batch which is not full waits for one more message.
    :param on_state: called when the connection is lost and when it is restored.
    """

    def __init__(self, conf: cfg.ConfigOpts, url: Any, *, linger: float, on_state: OnState, limits: Limits) -> None:
        super().__init__(conf, url, default_exchange=None, allowed_remote_exmods=[])
        self._connection_pool.connection_cls = _Connection
        self._linger = linger
        self._on_state = on_state
        self._limits = limits
        self.listener: _Listener | None = None

    def listen_for_notifications(
        self, targets_and_priorities: Any, pool: str | None, batch_size: int, batch_timeout: float | None
    ) -> base.PollStyleListenerAdapter:
        """Connect, declare, and make the listener.

        :raises Exception: whatever the connection or a declaration fails with; nothing stays open then.
        """
        conn = self._get_connection(driver_common.PURPOSE_LISTEN)
        try:
            self.listener = _Listener(self, conn, linger=self._linger, on_state=self._on_state, limits=self._limits)
            # One order of declaring for all processes, so that two that start at once cannot block each other.
            for target, priority in sorted(targets_and_priorities, key=lambda pair: (pair[0].topic, pair[1])):
                conn.declare_topic_consumer(
                    exchange_name=self._get_exchange(target),
                    topic=f"{target.topic}.{priority}",
                    callback=self.listener,
                    queue_name=pool,
                )
            self.listener._channel = self.listener._rabbit.channel
        except BaseException:
            conn.close()
            raise
        return base.PollStyleListenerAdapter(self.listener, batch_size, batch_timeout)


def probe(conf: cfg.ConfigOpts, url: Any) -> None:
    """Connect and disconnect.

    :param conf: after :func:`set_defaults`.
    :raises Exception: whatever the connection fails with.
    """
    driver = StrictRabbitDriver(conf, url, linger=0.0, on_state=lambda connected, why: None, limits=Limits())
    try:
        driver._get_connection(driver_common.PURPOSE_LISTEN).close()
    finally:
        driver.cleanup()


def set_defaults(conf: cfg.ConfigOpts, *, prefetch: int) -> None:
    """Register the driver's options on this configuration with defaults that suit a listener.

    They are defaults: what the operator wrote in the file or in the URL wins.

    :param prefetch: messages that the broker may deliver ahead of their acknowledgement.
    """
    conf.register_opts(impl_rabbit.rabbit_opts, group=GROUP)
    for name, value in (
        ("rabbit_qos_prefetch_count", prefetch),
        # With these a listener reconnects within seconds.
        ("rabbit_retry_interval", 1),
        ("rabbit_retry_backoff", 1),
        ("rabbit_interval_max", 2),
        ("kombu_reconnect_delay", 0.2),
    ):
        conf.set_default(name, value, group=GROUP)
