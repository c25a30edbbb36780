# SPDX-License-Identifier: Apache-2.0
"""The driver ``nats_jetstream``: the journal of one partition on a JetStream stream.

The event loop of the client library has a thread of its own, from :meth:`NatsJetStreamOutlet.open` to
:meth:`NatsJetStreamOutlet.close`. After any doubt the framework closes and opens, and the streams have the position.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar

from nats.errors import Error as NatsError
from oslo_config import cfg

from watcher_sync.log.base import SNAPSHOT, SNAPSHOT_BEGIN, SNAPSHOT_END, LogChange, LogPositions, Outlet, OutletError
from watcher_sync.log.nats_jetstream import messages, settings
from watcher_sync.log.nats_jetstream.jetstream_log import JetStreamLog
from watcher_sync.log.nats_jetstream.publisher import LogMessage
from watcher_sync.log.nats_jetstream.settings import JetStreamOutletSettings
from watcher_sync.sources.nats.connection import describe
from watcher_sync.sources.session import NotReady

_OPEN_SECONDS: Final = 60.0
_MARGIN_SECONDS: Final = 10.0
"""What a call may take beyond the limit that the publisher itself observes."""
_STOP_SECONDS: Final = 5.0

T = TypeVar("T")


class NatsJetStreamOutlet(Outlet):
    """The driver ``nats_jetstream``."""

    options: ClassVar[list[cfg.Opt]] = settings.OPTIONS

    def __init__(self, name: str, conf: cfg.ConfigOpts) -> None:
        """:raises ConfigError: naming the option that is wrong."""
        super().__init__(name, conf)
        self._settings = JetStreamOutletSettings(name, self.group)
        self._loop: _LoopThread | None = None
        self._log: JetStreamLog | None = None

    def open(self, position: LogPositions) -> LogPositions:
        """Connect, make or verify both streams, and read the position of the last change.

        What the caller knows is not used: the streams have the position, or the model must be published again.
        """
        self.close()
        self._loop = _LoopThread(f"outlet-{self.name}")
        log = JetStreamLog(self.name, self._settings)
        last = self._run(log.open(), _OPEN_SECONDS)
        self._log = log
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
        self._run(log.publish(batches, ends_snapshot=ends_snapshot), self._settings.timeout + _MARGIN_SECONDS)
        last = changes[-1]
        return {} if last.change in (SNAPSHOT_BEGIN, SNAPSHOT) else {self.partition: last.position}

    def close(self) -> None:
        """Disconnect."""
        log, self._log = self._log, None
        loop, self._loop = self._loop, None
        if loop is not None:
            if log is not None:
                with suppress(Exception):
                    loop.run(log.close(), _STOP_SECONDS)
            loop.stop()

    def _message(self, change: LogChange, deletion_ttl: int) -> LogMessage:
        return LogMessage(
            messages.subject_of(self._settings.prefix, change),
            messages.headers_of(change, deletion_ttl=deletion_ttl),
            self.encode(change),
        )

    def _run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """:raises OutletError: it did not succeed, for whatever reason that the server or the network has."""
        assert self._loop is not None
        try:
            return self._loop.run(work, seconds)
        except (NotReady, NatsError, OSError) as exc:  # TimeoutError is an OSError
            raise OutletError(describe(exc)) from None


class _LoopThread:
    """An event loop in a thread of its own.

    :param name: of the thread.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, T], seconds: float) -> T:
        """Its result, or what it raises.

        :raises TimeoutError: there is none in time; the work is cancelled then.
        """
        future = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return future.result(seconds)
        finally:
            future.cancel()

    def stop(self) -> None:
        """Cancel what runs, and end the thread."""
        with suppress(Exception):
            self.run(self._cancel_all(), _STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    @staticmethod
    async def _cancel_all() -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
