# SPDX-License-Identifier: Apache-2.0
"""The thread with the event loop of the watch streams.

Stop: no further stream begins, the open ones end with UNAVAILABLE, and the port closes. A port that is in use is tried
again: another process may be about to end.

The streams of deleted topics end. A new topic needs nothing: a subscription reads it from the tables.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import msgspec
from oslo_log import log as logging

from watcher_sync.extensions.watch.authentication import Authenticator
from watcher_sync.extensions.watch.catch_up import CatchUp
from watcher_sync.extensions.watch.hub import Hub, WatchStats
from watcher_sync.extensions.watch.limits import StreamLimits
from watcher_sync.extensions.watch.model.resources import Describer
from watcher_sync.extensions.watch.rendering import ReadValues, Renderer, RunInThread
from watcher_sync.extensions.watch.server import CannotListen, WatchServer
from watcher_sync.extensions.watch.service import Topics, WatchParts, WatchService
from watcher_sync.extensions.watch.settings import WatchSettings
from watcher_sync.extensions.watch.tls import Certificates
from watcher_sync.periodic import Outage
from watcher_sync.read.journal_reader import JournalReader

LOG = logging.getLogger(__name__)

T = TypeVar("T")

ExistingIds = Callable[[Iterable[str]], frozenset[str]]
"""Which of these topics exist. Called in a thread."""

_RETRY_SECONDS = 2.0
_HEALTH_SECONDS = 0.5
"""Between two checks of what the health service answers."""
_LOOK_UP_THREADS = 2
_CATCH_UP_THREADS = 2
_TOKEN_THREADS = 8


class WatchStore(msgspec.Struct, frozen=True, eq=False):
    """What the worker reads from the database. Used by a pool of threads."""

    topics: Topics
    existing: ExistingIds
    read_values: ReadValues
    read_first: Callable[[], int]
    """The first sequence of the journal; one after the last, if the journal is empty."""


class _Threads(msgspec.Struct, frozen=True, eq=False):
    """Pools of their own: clients that catch up delay neither the hub nor others' look-ups."""

    hub: concurrent.futures.Executor
    catch_up: concurrent.futures.Executor
    look_up: concurrent.futures.Executor
    """Topics and rights."""
    tokens: concurrent.futures.Executor
    refreshes: concurrent.futures.Executor


class WatchWorker:
    """The watch streams of one process."""

    def __init__(
        self,
        journal: JournalReader,
        describer: Describer,
        stored: WatchStore,
        authenticator: Authenticator,
        settings: WatchSettings,
        certificates: Certificates | None = None,
    ) -> None:
        self._journal = journal
        self._describer = describer
        self._stored = stored
        self._authenticator = authenticator
        self._settings = settings
        self._certificates = certificates
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._grace = 0.0
        self._stopping = threading.Event()
        self._serving = threading.Event()
        self._thread = threading.Thread(target=self._run_thread, name="watch", daemon=True)
        self._tasks: tuple[asyncio.Task[None], ...] = ()
        """Of the hub and of the deletions; they end with the server only."""
        self.stats = WatchStats()
        self.port = 0
        """The port that is served; 0: none yet."""

    def start(self) -> None:
        """Start the thread; returns at once."""
        self._thread.start()

    def wait_until_serving(self, timeout: float) -> bool:
        """Wait until the port is open. :returns: whether it is."""
        return self._serving.wait(timeout)

    def stop(self, timeout: float) -> None:
        """Stop; returns when all has ended, or after so many seconds."""
        self._grace = max(0.0, timeout - 1.0)
        self._stopping.set()
        self._call(lambda: self._stop.set() if self._stop is not None else None)
        if self._thread.is_alive():
            self._thread.join(timeout)

    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def is_serving(self) -> bool:
        """Whether the port is open, and all that feeds the streams runs."""
        return self.is_alive() and self._serving.is_set() and self._is_fed()

    def _is_fed(self) -> bool:
        """Whether all that feeds the streams runs."""
        return self._journal.is_alive() and not any(task.done() for task in self._tasks)

    def _call(self, function: Callable[[], Any]) -> None:
        """Have the loop call a function. Any thread may do so."""
        loop = self._loop
        if loop is not None and not loop.is_closed():
            with contextlib.suppress(RuntimeError):  # it was closed meanwhile
                loop.call_soon_threadsafe(function)

    def _run_thread(self) -> None:
        try:
            asyncio.run(self._run())
        except Exception:
            LOG.exception("watch: an unexpected error; the server has stopped")

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        with contextlib.ExitStack() as stack:
            threads = _Threads(
                hub=stack.enter_context(_pool("watch-hub", 1)),
                catch_up=stack.enter_context(_pool("watch-catch-up", _CATCH_UP_THREADS)),
                look_up=stack.enter_context(_pool("watch-database", _LOOK_UP_THREADS)),
                tokens=stack.enter_context(_pool("watch-token", _TOKEN_THREADS)),
                refreshes=stack.enter_context(_pool("watch-refresh", _TOKEN_THREADS)),
            )
            service, hub = self._assemble(threads)
            unsubscribe = self._journal.subscribe(lambda: self._call(hub.wake))
            run = _runner(threads.look_up)
            deletions = watch_deletions(service, self._stored.existing, run, self._settings.topic_poll_interval)
            self._tasks = tasks = (asyncio.create_task(hub.run()), asyncio.create_task(deletions))
            try:
                await self._serve(service)
            finally:
                unsubscribe()
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, service: WatchService) -> None:
        assert self._stop is not None
        server = await self._listen(service)
        if server is None:
            return
        LOG.info("watch: listening on %s port %d", self._settings.host, server.port)
        self.port = server.port
        self._serving.set()
        health = asyncio.create_task(self._report_health(server))
        try:
            if not self._stopping.is_set():
                await self._stop.wait()
        finally:
            health.cancel()
            self._serving.clear()
            await server.stop(self._grace)
            LOG.info("watch: stopped")

    async def _report_health(self, server: WatchServer) -> None:
        """Have the health service answer NOT_SERVING while nothing feeds the streams, until the task is cancelled."""
        was_fed = True
        while True:
            await asyncio.sleep(_HEALTH_SECONDS)
            is_fed = self._is_fed()
            if is_fed != was_fed:
                if is_fed:
                    LOG.info("watch: the streams get changes again: serving")
                else:
                    LOG.error("watch: the journal reader or the hub has ended: not serving")
                server.set_serving(is_fed)
            was_fed = is_fed

    async def _listen(self, service: WatchService) -> WatchServer | None:
        assert self._stop is not None
        outage = Outage(LOG, "watch: not serving", "watch: serving")
        while not self._stopping.is_set():
            server = WatchServer(service, self._settings, self._certificates)
            try:
                await server.start()
                return server
            except CannotListen as exc:
                outage.failed(exc)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_SECONDS):
                    await self._stop.wait()
        return None

    def _assemble(self, threads: _Threads) -> tuple[WatchService, Hub]:
        renderer = Renderer(self._describer, self._stored.read_values)
        hub = Hub(self._journal, renderer, _runner(threads.hub), self._stored.read_first, self.stats)
        parts = WatchParts(
            authenticator=self._authenticator,
            topics=self._stored.topics,
            hub=hub,
            catch_up=CatchUp(self._journal, hub, renderer, _runner(threads.catch_up), self.stats),
            limits=StreamLimits(
                self._settings.max_streams, self._settings.max_streams_per_identity, self._settings.max_unsubscribed
            ),
            settings=self._settings,
            stats=self.stats,
            run=_runner(threads.look_up),
            token_threads=threads.tokens,
            refresh_threads=threads.refreshes,
        )
        return WatchService(parts), hub


def _runner(threads: concurrent.futures.Executor) -> Callable[..., Any]:
    def run(function: Callable[..., T], *arguments: Any) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(threads, function, *arguments)

    return run


@contextlib.contextmanager
def _pool(name: str, count: int) -> Iterator[concurrent.futures.Executor]:
    """A pool whose threads may still wait for an answer when the loop has ended."""
    pool = concurrent.futures.ThreadPoolExecutor(count, name)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


async def watch_deletions(service: WatchService, existing: ExistingIds, run: RunInThread, interval: float) -> None:
    """Compare the topics of the streams with the stored ones until the task is cancelled.

    :param interval: seconds between two comparisons.
    """
    outage = Outage(LOG, "watch: database unavailable", "watch: database recovered")
    while True:
        await asyncio.sleep(interval)
        used = service.topic_ids()
        if not used:
            continue
        try:
            deleted = used - await run(existing, used)
            outage.succeeded()
        except Exception as exc:  # noqa: BLE001 - the edge of the task
            outage.failed(exc)
            continue
        if deleted:
            service.end_topics(deleted)
