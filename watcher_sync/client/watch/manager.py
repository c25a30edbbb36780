# SPDX-License-Identifier: Apache-2.0
"""``WatchManager``: watches the topics of one service over one gRPC channel.

Each watch has two threads and a stream of its own; the end of one touches no other. The watches share the channel and
the thread that refreshes tokens. All methods may be called from every thread, also from a consumer or a callback.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import logging
import threading
import urllib.parse
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Final, Self

import grpc

from watcher_sync.client.errors import NotConfigured
from watcher_sync.client.transport import Transport
from watcher_sync.client.watch.connection import Route, Tls, split_address
from watcher_sync.client.watch.delivery import Consumer, Handover
from watcher_sync.client.watch.errors import ManagerClosed, MissingSequence, UnknownWatch, WatchError
from watcher_sync.client.watch.harvester import RestHarvester
from watcher_sync.client.watch.models import WatchEvent
from watcher_sync.client.watch.options import WatchOptions
from watcher_sync.client.watch.refresher import REFRESH_INTERVAL_SECONDS, TokenRefresher
from watcher_sync.client.watch.sequences import MemorySequence, Sequence
from watcher_sync.client.watch.stream import stub_of
from watcher_sync.client.watch.watch import Shared, Watch

_MAX_FAILURES: Final = 100
"""Errors that wait for :meth:`WatchManager.wait`."""


class WatchManager:
    """Watches the topics of one service."""

    def __init__(
        self,
        host: str,
        port: int,
        tenant_id: str,
        token_getter: Callable[[], str],
        options: WatchOptions | None = None,
    ) -> None:
        """Opens no connection yet; the first watch does.

        :param host: the service's host: the authority of requests, and the name in its certificate.
        :param token_getter: returns a bearer token. Several threads call it, at each connection and refresh.
        :param options: None: the defaults.
        :raises UnsupportedProxy: when gRPC would bypass the proxy.
        :raises InvalidSettings: when another setting is wrong.
        """
        options = options or WatchOptions()
        tls, user_agent = options.tls, options.user_agent
        self._logger = options.logger or logging.getLogger(__name__)
        route = Route(tls=tls, proxy=options.proxy, single_entry_address=options.single_entry_address)
        self._sequence: Sequence = options.sequence if options.sequence is not None else MemorySequence()
        harvester = options.harvester
        if harvester is None and not options.resume_only:
            harvester = f"{'http' if tls is None else 'https'}://{f'[{host}]' if ':' in host else host}:{port}"
        if isinstance(harvester, str):
            harvester = RestHarvester(harvester, tenant_id, route=route, user_agent=user_agent)
        self._channel = route.channel(
            host, port, keepalive=options.keepalive, max_pause_seconds=options.backoff[0], user_agent=user_agent
        )
        self._refresher = TokenRefresher(
            token_getter, options.token_refresh_interval, on_failure=self._on_token_failure
        )
        self._shared = Shared(
            stub=stub_of(self._channel),
            tenant_id=tenant_id,
            token_getter=token_getter,
            refresher=self._refresher,
            sequence=self._sequence,
            harvester=None if options.resume_only else harvester,
            logger=self._logger,
            options=options,
        )
        self._watches: dict[str, Watch] = {}
        self._is_closed = False
        self._is_ready = False
        self._failures: collections.deque[WatchError] = collections.deque(maxlen=_MAX_FAILURES)
        """The errors that ended watches, for :meth:`wait`."""
        self._lock = threading.Condition()
        """Guards ``_watches``, ``_failures`` and ``_is_closed``. No callback runs under it."""
        self._channel.subscribe(self._on_connectivity)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_conn()

    def register_watch(
        self, topic_self_link: str, events: Consumer[WatchEvent], errors: Consumer[WatchError] | None = None
    ) -> str:
        """Begins a watch of a topic, and returns its id.

        :param topic_self_link: such as ``/management/v1/watchtopics/mine``. Watches of one topic share its
            watermark; to resume each of them, use managers with sequences of their own.
        :param events: a queue or a function. The watermark covers an event when the queue has it, or when the function
            has returned. A function that raises ends the watch.
        :param errors: a queue or a function. It gets one item: the error that ended the watch. The watch retries
            transient errors by itself. None: :meth:`wait` raises the error.
        :raises MissingSequence: when the sequence is negative; ``on_event_sync_error`` gets the error, too.
        :raises ManagerClosed: after :meth:`close_conn`.
        """
        return self._register(topic_self_link, events, errors).id

    def events(self, topic_self_link: str) -> Iterator[WatchEvent]:
        """The events of a topic, without end: ``for event in manager.events(topic)``.

        The watch begins with the first step and ends with the loop. The watermark covers an event when the loop asks
        for the next one. The loop ends when the manager is closed.

        :raises WatchError: the error that ended the watch, or what :meth:`register_watch` raises.
        """
        ready = threading.Event()
        handover: Handover[WatchEvent] = Handover(ready.set)
        watch = self._register(topic_self_link, handover, None)
        watch.ended.add_done_callback(lambda _: ready.set())
        try:
            while True:
                ready.wait()
                ready.clear()
                event = handover.take()
                if watch.ended.done():
                    watch.ended.result()
                    return
                if event is not None:
                    yield event
                    handover.finish()
        finally:
            self._close(watch)

    async def events_async(self, topic_self_link: str) -> AsyncIterator[WatchEvent]:
        """As :meth:`events`, for asyncio: ``async for event in manager.events_async(topic)``.

        :raises WatchError: the error that ended the watch, or what :meth:`register_watch` raises.
        """
        loop, ready = asyncio.get_running_loop(), asyncio.Event()

        def wake() -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(ready.set)

        handover: Handover[WatchEvent] = Handover(wake)
        watch = await loop.run_in_executor(None, self._register, topic_self_link, handover, None)
        watch.ended.add_done_callback(lambda _: wake())
        try:
            while True:
                await ready.wait()
                ready.clear()
                event = handover.take()
                if watch.ended.done():
                    watch.ended.result()
                    return
                if event is not None:
                    yield event
                    handover.finish()
        finally:
            await loop.run_in_executor(None, self._close, watch)

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until no watch is left, or an error has ended one.

        :param timeout: seconds; None: without a limit.
        :returns: False after the timeout.
        :raises WatchError: the error that ended a watch. Each is raised once.
        """
        with self._lock:
            if not self._lock.wait_for(lambda: self._failures or not self._watches, timeout):
                return False
            if self._failures:
                raise self._failures.popleft()
        return True

    def _register(
        self, topic_self_link: str, events: Consumer[WatchEvent], errors: Consumer[WatchError] | None
    ) -> Watch:
        watermark = self._sequence.get(topic_self_link)
        if watermark < 0:
            error = MissingSequence(f"{topic_self_link}: the sequence is lost, so the watch cannot resume")
            if (callback := self._shared.options.on_event_sync_error) is not None:
                callback(error)
            raise error
        watch = Watch(
            str(uuid.uuid4()), topic_self_link, watermark, events, errors, self._shared, on_finished=self._on_finished
        )
        with self._lock:
            if self._is_closed:
                raise ManagerClosed("the manager is closed")
            self._watches[watch.id] = watch
        watch.start()
        return watch

    def close_watch(self, watch_id: str) -> None:
        """Ends one watch. Afterwards its consumers get nothing, except from a function that runs for over 10 seconds.

        :raises UnknownWatch: when there is none with this id, because an error or a call before has ended it.
        """
        watch = self._forget(watch_id)
        if watch is None:
            raise UnknownWatch(f"there is no watch {watch_id}")
        watch.close()

    def close_conn(self) -> None:
        """Ends all watches and the connection. A second call does nothing."""
        with self._lock:
            watches, self._watches = list(self._watches.values()), {}
            self._lock.notify_all()
            is_first, self._is_closed = not self._is_closed, True
        if not is_first:
            return
        for watch in watches:
            watch.close()
        self._refresher.close()
        self._is_ready = False
        self._channel.close()

    def status(self) -> bool:
        """Whether the connection is there and the stream of every watch is open.

        False before the first watch, while a watch waits to reconnect, and after :meth:`close_conn`. A watch that an
        error has ended does not count. A connection that broke silently counts until a keepalive gets no answer, and
        behind a proxy until some pings of the service are missing.
        """
        with self._lock:
            watches = list(self._watches.values())
            is_closed = self._is_closed
        return not is_closed and self._is_ready and all(watch.is_streaming for watch in watches)

    def _close(self, watch: Watch) -> None:
        self._forget(watch.id)
        watch.close()

    def _forget(self, watch_id: str, error: WatchError | None = None) -> Watch | None:
        with self._lock:
            found = self._watches.pop(watch_id, None)
            if found is not None and error is not None:
                self._failures.append(error)
            self._lock.notify_all()
            return found

    def _on_finished(self, watch_id: str, error: WatchError) -> None:
        self._forget(watch_id, error)

    def _on_connectivity(self, state: grpc.ChannelConnectivity) -> None:
        self._is_ready = state is grpc.ChannelConnectivity.READY

    def _on_token_failure(self, error: Exception) -> None:
        self._logger.warning("watch: the token getter failed, retrying: %s", type(error).__name__)


PORT = 8776
"""The port of the watch stream, unless the address names another."""

_NO_TOKEN = "none"  # the dialect requires a token; a service without authentication ignores it


_RENEWED_SECONDS: Final = 100.0
"""keystoneauth renews a token that has fewer seconds left, with a margin."""


def manager_of(
    transport: Transport, address: str | None, tls: bool | None, settings: Mapping[str, Any]
) -> WatchManager:
    """Makes the manager. The catch-up goes to the REST API.

    :param address: of the watch stream; None: the API's host and :data:`PORT`.
    :param tls: None: as the API.
    :param settings: fields of :class:`WatchOptions`.
    :raises ClientError: when there is no token, or the address is wrong.
    """
    root = urllib.parse.urlsplit(transport.root)
    host, port = split_address(address, PORT) if address is not None else (root.hostname or "", PORT)
    is_tls = root.scheme == "https" if tls is None else tls
    transport.token()  # wrong credentials are an error now, and not a reason to retry
    defaults = {
        "tls": _tls(transport) if is_tls else None,
        "harvester": transport.root,
        "token_refresh_interval": lambda: refresh_interval(transport.token_life()),
    }
    options = WatchOptions(**{**defaults, **settings})
    return WatchManager(host, port, transport.project_id(), lambda: transport.token() or _NO_TOKEN, options)


def refresh_interval(life: float | None) -> float:
    """The seconds until a token is replaced: while it is valid, and when keystoneauth gives a new one.

    keystoneauth returns the same token until it has less than 120 seconds left.

    :param life: seconds until the token expires; None: unknown.
    """
    if life is None:
        return REFRESH_INTERVAL_SECONDS
    return min(REFRESH_INTERVAL_SECONDS, max(life - _RENEWED_SECONDS, life / 2))


def _tls(transport: Transport) -> Tls:
    if transport.verify is False:
        raise NotConfigured("the watch stream cannot be used without a check of the certificate; name the authority")
    cert_file, key_file = transport.cert or (None, None)
    ca_file = transport.verify if isinstance(transport.verify, str) else None
    return Tls(ca_file=ca_file, cert_file=cert_file, key_file=key_file)
