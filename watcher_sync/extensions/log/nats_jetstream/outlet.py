# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: the journal of one partition on a JetStream stream.

The event loop of the client library has a thread of its own, from :meth:`NatsJetStreamOutlet.open` to
:meth:`NatsJetStreamOutlet.close`. After any doubt the framework closes and opens, and the streams have the position.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from nats.errors import Error as NatsError
from oslo_config import cfg

from watcher_sync.extensions.log.base import SNAPSHOT_END, ChangeTooLarge, LogChange, LogPositions, Outlet, OutletError
from watcher_sync.extensions.log.event_loop import EventLoopThread
from watcher_sync.extensions.log.nats_jetstream import messages, settings
from watcher_sync.extensions.log.nats_jetstream.jetstream_log import JetStreamLog
from watcher_sync.extensions.log.nats_jetstream.publisher import ConnectionLost, StreamMessage
from watcher_sync.extensions.log.nats_jetstream.settings import JetStreamOutletSettings
from watcher_sync.extensions.log.positions import positions_after
from watcher_sync.transports.exceptions import NotReady
from watcher_sync.transports.nats.client_settings import insecure_servers, secret_files
from watcher_sync.transports.nats.connection import describe

_OPEN_SECONDS: Final = 60.0
_VERIFY_SECONDS: Final = 30.0
_MARGIN_SECONDS: Final = 10.0
"""What a call may take beyond the limit that the publisher itself observes."""
_STOP_SECONDS: Final = 5.0
_MAX_LOSSES: Final = 3
"""So often in a row a connection ends while a large message is published. The reset of a connection often takes the
server's reason with it, so the last of these losses counts as a refusal of the size."""
_LARGE: Final = 65_536

T = TypeVar("T")


class NatsJetStreamOutlet(Outlet):
    """The driver ``nats_jetstream``."""

    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS
    insecure_transports = staticmethod(insecure_servers)
    named_files = staticmethod(secret_files)
    limit_names: ClassVar[str] = (
        "max_payload of the NATS servers and of the account, and max_msg_size of both streams where it is set"
    )

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf)
        self._settings = JetStreamOutletSettings(name, self.group)
        self._loop: EventLoopThread | None = None
        self._log: JetStreamLog | None = None
        self._losses = 0
        """Connections in a row that ended while a large message was published."""

    def open(self, position: LogPositions) -> LogPositions:
        """Connect, make or verify both streams, and read the position of the last change.

        What the caller knows is not used: the streams have the position.
        """
        self.close()
        self._loop = EventLoopThread(f"outlet-{self.name}")
        log = JetStreamLog(self.name, self._settings)
        last = self._run(log.open(), _OPEN_SECONDS)
        self._log, self.lacks_snapshot = log, log.lacks_snapshot
        self.limit = log.limit
        return {} if last is None else {self.partition: last}

    def publish(self, changes: Sequence[LogChange]) -> LogPositions:
        """Publish; a commit is stored as a whole where the server can do that."""
        log = self._log
        if log is None:
            raise OutletError("it is not open")
        batches = [
            [self._message(change, log.deletion_ttl) for change in batch]
            for batch in messages.batches_of(changes, atomic=log.is_atomic)
        ]
        ends_snapshot = any(change.change == SNAPSHOT_END for change in changes)
        try:
            self._run(log.publish(batches, ends_snapshot=ends_snapshot), self._settings.timeout + _MARGIN_SECONDS)
        except ConnectionLost as exc:
            self._losses += max(len(change.body) for change in changes) > _LARGE
            if self._losses < _MAX_LOSSES:
                raise
            self._losses = 0
            raise ChangeTooLarge(f"{exc}, {_MAX_LOSSES} times in a row") from None
        self._losses = 0
        return positions_after(changes[-1])

    def verify(self) -> None:
        """Compare both streams with each other, and with what was published."""
        if self._log is None:
            raise OutletError("it is not open")
        self._run(self._log.verify(), _VERIFY_SECONDS)

    def close(self) -> None:
        """Disconnect."""
        log, self._log = self._log, None
        loop, self._loop = self._loop, None
        if loop is not None:
            if log is not None:
                with suppress(Exception):
                    loop.run(log.close(), _STOP_SECONDS)
            loop.close()

    def probe(self) -> int | None:
        """Ask a server, and for the streams if they exist."""
        self._loop = EventLoopThread(f"outlet-{self.name}")
        try:
            return self._run(JetStreamLog(self.name, self._settings).probe(), _OPEN_SECONDS)
        finally:
            self.close()

    def _message(self, change: LogChange, deletion_ttl: int) -> StreamMessage:
        return StreamMessage(
            messages.subject_of(self._settings.prefix, change),
            messages.headers_of(change, deletion_ttl=deletion_ttl),
            change.body,
        )

    def _run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """:raises OutletError: it did not succeed, for whatever reason that the server or the network has."""
        assert self._loop is not None
        try:
            return self._loop.run(work, seconds)
        except (NotReady, NatsError, OSError) as exc:  # TimeoutError is an OSError
            raise OutletError(describe(exc)) from None
