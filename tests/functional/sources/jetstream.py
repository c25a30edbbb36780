# SPDX-License-Identifier: Apache-2.0
"""A NATS client that makes streams and publishes to them, and a source between the server and an engine.

All functions are synchronous. The client, :class:`Dcm`, runs its event loop in a thread. Its connection waits for the
server, as a control plane's connection does.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import shutil
import threading
import time
from collections.abc import Coroutine, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import nats
from nats.js.api import ConsumerConfig, StreamConfig
from nats.js.errors import NotFoundError, ServerError
from oslo_config import cfg

from tests.functional.sources.listening import Engine
from tests.services.servers import Server
from tests.waiting import PATIENCE_SECONDS, deadline, wait_until
from watcher_sync.extensions.dcm.source.source import NatsJetStreamSource
from watcher_sync.sources.base import SourceState

T = TypeVar("T")
STREAM = "dcm-status"
SUBJECTS = "dcm.*"
DURABLE = "watcher-sync"
_NO_STORE = 10049
"""The server's error code where it cannot create the store of a stream."""


def cloud_event(number: int, **more: Any) -> bytes:
    event = {
        "specversion": "1.0",
        "id": f"e-{number}",
        "source": "dcm/providers/p1",
        "type": "dcm.status.vm",
        "subject": f"vm-{number}",
        "time": "2026-01-02T03:04:05Z",
        "datacontenttype": "application/json",
        "data": {"id": f"vm-{number}", "status": "RUNNING"},
    }
    return json.dumps(event | more).encode()


class Dcm:
    """A client of the server that may do everything.

    :param url: the server's.
    :param options: for the client library's connect.
    """

    def __init__(self, url: str, **options: Any) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="dcm", daemon=True)
        self._thread.start()
        self.client = self.do(
            nats.connect(url, max_reconnect_attempts=-1, reconnect_time_wait=0.05, error_cb=_ignore, **options)
        )
        self.js = self.client.jetstream(timeout=PATIENCE_SECONDS)

    def do(self, work: Coroutine[Any, Any, T], seconds: float = 60) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(seconds)

    def make_stream(self, name: str = STREAM, subjects: str = SUBJECTS, **more: Any) -> None:
        """Make a stream. The server may still be removing the files of a deleted one with the same name.

        :param subjects: separated by blanks.
        :param more: of its configuration, such as its limits.
        """
        wait_until(lambda: self._made(StreamConfig(name=name, subjects=subjects.split(), **more)))

    def _made(self, config: StreamConfig) -> bool:
        try:
            self.do(self.js.add_stream(config))
        except ServerError as exc:
            if exc.err_code != _NO_STORE:
                raise
            return False
        return True

    def limit_age(self, seconds: float) -> None:
        """Discard what is older; 0: keep everything."""
        self.do(self.js.update_stream(StreamConfig(name=STREAM, subjects=SUBJECTS.split(), max_age=seconds)))

    def delete_stream(self, name: str = STREAM) -> None:
        self.do(self.js.delete_stream(name))

    def delete_consumer(self) -> None:
        self.do(self.js.delete_consumer(STREAM, DURABLE))

    def make_consumer(self, **more: Any) -> None:
        settings = {"durable_name": DURABLE, "ack_policy": "explicit", "filter_subject": SUBJECTS, "ack_wait": 30.0}
        config = ConsumerConfig(**(settings | {"max_ack_pending": 10_000} | more))
        self.do(self.js.add_consumer(STREAM, config))

    def consumer(self) -> Any:
        return self.do(self.js.consumer_info(STREAM, DURABLE))

    def stream(self) -> Any:
        return self.do(self.js.stream_info(STREAM))

    def settled(self) -> bool:
        """Whether every message of the stream is acknowledged; False before there is a consumer."""
        try:
            info = self.consumer()
        except NotFoundError:
            return False
        return info.num_pending == 0 and info.num_ack_pending == 0

    def publish(self, *bodies: bytes, subject: str = "dcm.vm", headers: dict[str, str] | None = None) -> None:
        """Returns when they are stored."""
        self.do(self._publish(bodies, subject, headers))

    async def _publish(self, bodies: Iterable[bytes], subject: str, headers: dict[str, str] | None) -> None:
        for body in bodies:
            await self.js.publish(subject, body, headers=headers)

    def flood(self, bodies: Iterable[bytes], subject: str = "dcm.vm") -> None:
        """Without waiting for each to be stored."""

        async def run() -> None:
            for body in bodies:
                await self.client.publish(subject, body)
            await self.client.flush(30)

        self.do(run())

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self.do(self.client.close(), 5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(deadline(5))


async def _ignore(error: Exception) -> None:
    """A server that is away is what these tests are about."""


@contextlib.contextmanager
def dcm_of(url: str, **options: Any) -> Iterator[Dcm]:
    dcm = Dcm(url, **options)
    try:
        yield dcm
    finally:
        dcm.close()


def make_source(url: str, *, cursor: str | None = None, **options: Any) -> NatsJetStreamSource:
    conf = cfg.ConfigOpts()
    conf.register_opts([cfg.IntOpt("batch_size", default=500), cfg.FloatOpt("batch_linger", default=0.02)], "engine")
    conf.register_opts(NatsJetStreamSource.options, group="source_dcm")
    conf([], default_config_files=[])
    for option, value in {"servers": [url], **options}.items():
        conf.set_override(option, value, group="source_dcm")
    return NatsJetStreamSource("dcm", conf, cursor=cursor)


def back_up(server: Server, copy: Path, *, consumers: bool = True) -> None:
    """Stop the server, copy its store, and start it again.

    :param consumers: False: the copy has the messages only.
    """
    server.stop()
    shutil.copytree(server.home / "jetstream", copy, ignore=None if consumers else shutil.ignore_patterns("obs"))
    server.start()


def restore(server: Server, copy: Path) -> None:
    """Replace the store of a stopped server by a copy, and start it."""
    shutil.rmtree(server.home / "jetstream")
    shutil.copytree(copy, server.home / "jetstream")
    server.start()


@contextlib.contextmanager
def running(engine: Engine, url: str, **options: Any) -> Iterator[NatsJetStreamSource]:
    """A source that is started, and stopped in good order."""
    source = make_source(url, **options)
    engine.source = source
    source.start(engine.emit)
    try:
        yield source
    finally:
        stop(source)


@contextlib.contextmanager
def reading(engine: Engine, url: str, **options: Any) -> Iterator[NatsJetStreamSource]:
    """The same, once it is connected."""
    with running(engine, url, **options) as source:
        connected(source)
        yield source


def connected(source: NatsJetStreamSource, seconds: float = PATIENCE_SECONDS) -> None:
    wait_until(lambda: source.status().state is SourceState.CONNECTED, seconds)


def disconnected(source: NatsJetStreamSource, about: str, seconds: float = PATIENCE_SECONDS) -> None:
    """Wait until the source says what it misses.

    :param about: a regular expression.
    """

    def told() -> bool:
        status = source.status()
        return status.state is SourceState.DISCONNECTED and re.search(about, status.detail) is not None

    try:
        wait_until(told, seconds)
    except AssertionError:
        raise AssertionError(f"{source.status()} is not about {about!r}") from None


def stop(source: NatsJetStreamSource, seconds: float = 5) -> float:
    """Stop it; after how many seconds it was over."""
    began = time.monotonic()
    source.stop(began + seconds)
    took = time.monotonic() - began
    for thread in (source._thread, source._emitter):
        thread.join(PATIENCE_SECONDS)
    assert not source._thread.is_alive(), "the loop's thread does not end"
    assert not source._emitter.is_alive(), "the emitting thread does not end"
    return took
