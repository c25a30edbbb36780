# SPDX-License-Identifier: Apache-2.0
"""The driver ``rabbitmq_stream``: the changes in a stream of RabbitMQ, by its stream protocol.

The stream tells the position: a reader sees each change once, in order, none missing. The server's deduplication is the
fence, as :mod:`watcher_sync.extensions.log.rabbitmq_stream.publisher` says. A publisher that was deposed learns it at
its next batch.

The client is an extra, and is imported when an outlet is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, ClassVar, Final

from oslo_config import cfg

from watcher_sync.exceptions import ConfigError
from watcher_sync.extensions.log.base import LogChange, LogPositions, Outlet, OutletError
from watcher_sync.extensions.log.event_loop import EventLoopThread
from watcher_sync.extensions.log.positions import headers_of, positions_after, positions_in
from watcher_sync.transports.rabbitmq.broker import GROUP, insecure_broker, read_broker
from watcher_sync.transports.rabbitmq.connection import describe, ssl_context

if TYPE_CHECKING:
    from watcher_sync.extensions.log.rabbitmq_stream.publisher import StreamPublisher

_CLOSE_SECONDS: Final = 10.0
_LIBRARY_SECONDS: Final = 30.0
"""The library waits up to 10 seconds for each of its answers."""


class RabbitMQStreamOutlet(Outlet):
    """The driver ``rabbitmq_stream``."""

    limit_names: ClassVar[str] = "stream.frame_max of RabbitMQ"

    options: ClassVar[list[cfg.Opt]] = [
        cfg.StrOpt(
            "transport_url",
            secret=True,
            help=f"""
The broker, in oslo.messaging's form: ``rabbit://user:password@host:port,user:password@host2:port/virtual_host``.

The options of ``[{GROUP}]`` for TLS apply. The ports are those of AMQP, and not used.

Related options: ``stream_port``.
""",
        ),
        cfg.PortOpt("stream_port", default=5552, help="Port of the stream protocol, on each host of the URL."),
        cfg.StrOpt("stream", help="The stream. It contains one partition. Default: ``watcher-sync.<partition>``."),
        cfg.StrOpt(
            "stream_mode",
            default="verify",
            choices=[
                ("verify", "The stream must exist."),
                ("create", "Create the stream if it does not exist. An existing stream is never changed."),
            ],
            help="What to do if the stream does not exist.",
        ),
        cfg.IntOpt(
            "replicas",
            default=0,
            min=0,
            help="Nodes that store the stream; 0: all nodes of the cluster. Used when the stream is created.",
        ),
        cfg.IntOpt(
            "max_age",
            default=604_800,
            min=0,
            help="Seconds after which the broker discards a change. 0: never. Used when the stream is created.",
        ),
        cfg.IntOpt(
            "max_bytes",
            default=0,
            min=0,
            help="Bytes above which the broker discards the oldest changes. 0: no limit. Used as ``max_age`` is.",
        ),
        cfg.FloatOpt(
            "timeout",
            default=10.0,
            min=0.5,
            max=300,
            help="Seconds in which the broker must have stored what one call publishes, and answer a request.",
        ),
    ]
    insecure_transports = staticmethod(insecure_broker)

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: the extra is not installed, or an option is wrong."""
        super().__init__(name, conf)
        section, group = f"outlet_{name}", self.group
        try:
            # Imported here: an extra, and the options are listed without it.
            from watcher_sync.extensions.log.rabbitmq_stream import publisher
        except ImportError:
            raise ConfigError(
                f"[{section}] driver: rabbitmq_stream needs the extra: pip install 'watcher-sync[rabbitmq-stream]'"
            ) from None
        broker = read_broker(section, group.transport_url, conf)
        limits = {
            "max-age": f"{group.max_age}s" if group.max_age else "",
            "max-length-bytes": str(group.max_bytes or ""),
            "initial-cluster-size": str(group.replicas or ""),
        }
        self._library = publisher
        self._spec = publisher.StreamSpec(
            broker=broker,
            port=group.stream_port,
            tls=ssl_context(broker),
            stream=group.stream or f"watcher-sync.{self.partition}",
            partition=self.partition,
            arguments={name: value for name, value in limits.items() if value}
            if group.stream_mode == "create"
            else None,
            timeout=group.timeout,
        )
        self._loop: EventLoopThread | None = None
        self._publisher: StreamPublisher | None = None

    def open(self, position: LogPositions) -> LogPositions:
        """Claim the stream, and read the last change before.

        :raises OutletDeposed: another publisher claims the stream at the same time.
        :raises OutletError: the broker cannot be reached, or the stream does not exist.
        """
        self.close()
        self._loop = EventLoopThread(f"outlet-{self.name}")
        try:
            self._publisher = self._loop.run(
                self._library.StreamPublisher.open(self._spec), self._spec.timeout + _LIBRARY_SECONDS
            )
            self.limit = self._publisher.limit
            headers = self._loop.run(self._publisher.claim(), self._spec.timeout + _LIBRARY_SECONDS)
            return {} if headers is None else positions_in(headers, self.partition)
        except self._library.Failure as exc:
            self.close()
            raise self._error(exc) from exc
        except OutletError:
            self.close()
            raise

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish the changes, and wait until the broker has stored them.

        :raises OutletDeposed: another publisher has claimed the stream: the broker dropped some or all of the changes.
        :raises OutletError: it is not known how many are stored.
        """
        if self._loop is None or self._publisher is None:
            raise OutletError("not connected")
        messages = [self._library.message(headers_of(change), change.body) for change in changes]
        try:
            self._loop.run(self._publisher.publish(messages), self._spec.timeout + _LIBRARY_SECONDS)
        except self._library.Failure as exc:
            raise self._error(exc) from exc
        return positions_after(changes[-1])

    def close(self) -> None:
        """Disconnect."""
        loop, publisher = self._loop, self._publisher
        self._loop = self._publisher = None
        if loop is None:
            return
        if publisher is not None:
            with suppress(*self._library.Failure):
                loop.run(publisher.close(), _CLOSE_SECONDS)
        loop.close()

    def _error(self, exc: Exception) -> OutletError:
        name = type(exc).__name__
        return OutletError(f"stream {self._spec.stream}: {name}: {describe(exc, self._spec.broker)}")
