# SPDX-License-Identifier: Apache-2.0
"""The loop of one reflector: lists one resource of one cluster, and watches it from there until it is stopped.

Guarantee: the emitted events end in the state of the API server.

* HTTP 410: it lists again, at once if the watch had worked.
* A version that went back: etcd was restored. It forgets what it saw, lists again, and tells the gap.
* A streamed list that fails or has no end: it lists in pages at once and for ten minutes.
* Other errors: it watches again from the last version.
* Five refusals in a row: it lists again, because the version may be the cause.
* Retries wait with jitter, or for Retry-After. ``emit`` blocks, so TCP slows the server.
"""

from __future__ import annotations

import datetime
import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol

from oslo_log import log as logging

from watcher_sync.backoff import Backoff
from watcher_sync.decoding import UNDECODABLE
from watcher_sync.events import Event
from watcher_sync.extensions.kubernetes.source import watch_stream
from watcher_sync.extensions.kubernetes.source.connection import (
    ApiConnection,
    ApiError,
    KubernetesError,
    TimedOut,
    TooLarge,
    TransportError,
)
from watcher_sync.extensions.kubernetes.source.lister_watcher import HistoryExpired, ListerWatcher, WatchListUnsupported
from watcher_sync.extensions.kubernetes.source.options import ReflectorSettings
from watcher_sync.extensions.kubernetes.source.progress import Phase, SyncProgress
from watcher_sync.extensions.kubernetes.source.resources import Resource, key_of
from watcher_sync.extensions.kubernetes.source.tracker import ObjectTracker
from watcher_sync.extensions.kubernetes.wire.kubernetes import is_below
from watcher_sync.sources.base import IntakeClosed

LOG = logging.getLogger(__name__)

_EMIT_SIZE: Final = 500
"""Events in one call of ``emit``, at most."""
_FIRST_PAUSE_SECONDS: Final = 0.2
_FAILURES_BEFORE_RELIST: Final = 5
_PAGES_SECONDS: Final = 600.0
"""How long a failed streamed list has all listings be in pages: a server may refuse it, such as one without progress
reports of its etcd, until it is upgraded."""
_NOT_THE_VERSION: Final = {401, 403, 429, 503, 504}
"""Status codes that do not depend on the resource version."""
_BRIEF_SECONDS: Final = 0.5
"""A watch that ends sooner has not worked, whatever it brought. The shortest timeout of a watch is 1 s."""
_MAX_INITIAL_TIMEOUTS: Final = 6
"""How long a streamed list may take, as a multiple of the silence that it may have. Without a mark of the end of the
initial events, a busy resource would never count as listed."""
_CHANGES: Final = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}


class ReflectorOwner(Protocol):
    """The source, as its reflectors use it."""

    def emit(self, events: Sequence[Event]) -> None:
        """Hand events to the engine; blocks. :raises IntakeClosed: the engine takes no more events."""

    def sequence(self) -> tuple[int, int]:
        """Return the next place in the order of the source."""

    def changed(self) -> None:
        """A phase or an error changed, or a listing is complete."""

    def leave(self, reflector: Reflector) -> None:
        """A reflector ends, because the first one of its resource follows the same objects."""

    def lost_history(self, resource: str) -> None:
        """The cluster went back in time, and the resource was listed again."""

    @property
    def is_disconnected(self) -> bool:
        """Whether the cluster is, so that its reason is in the log."""


class Reflector:
    """One thread that follows one resource, in one namespace or in all."""

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        connection: ApiConnection,
        settings: ReflectorSettings,
        owner: ReflectorOwner,
        *,
        is_first: bool = True,
        jitter: Callable[[float, float], float] = random.uniform,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """:param namespace: None: all namespaces.

        :param is_first: whether it is the first of its resource. A kind without namespaces has no other one.
        :param monotonic: seconds; decides when a list is streamed again after a failure.
        """
        self.version: str | None = None
        """Where the next watch begins; None: with a listing."""
        self._settings = settings
        self._owner = owner
        self._is_first = is_first
        self._jitter = jitter
        self._monotonic = monotonic
        self.lister_watcher = ListerWatcher(
            connection, resource, namespace, label_selector=settings.label_selector, page_size=settings.page_size
        )
        self.objects = ObjectTracker(
            self.lister_watcher, source=settings.source, cluster=settings.cluster, sequence=owner.sequence
        )
        self.progress = SyncProgress(settings.source, lambda: self.lister_watcher.name, owner)
        self._pages_until = 0.0 if settings.watch_list else math.inf
        """Lists are in pages until then, by the monotonic clock."""
        self._highest: str | None = None
        """The highest version of the resource that was seen in this life of the cluster's etcd."""
        self._is_restored = False
        """Whether etcd was restored since the last complete listing."""
        self._watch_list_proven = False
        """Whether the server has sent initial events to their end at least once."""
        self._initial_events_began = False
        """Whether the server accepted the last request for a streamed list."""
        self._backoff = Backoff(_FIRST_PAUSE_SECONDS, settings.backoff_max, uniform=jitter)
        self._stopping = threading.Event()
        suffix = f"-{namespace}" if namespace else ""
        name = f"source-{settings.source}-{resource.name.lower()}{suffix}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @property
    def key(self) -> str:
        """How the model names what it follows, where it cannot be listed."""
        return key_of(self.lister_watcher.resource, self.lister_watcher.namespace)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def begin_stop(self) -> None:
        """Ask the thread to end, and cut the watch that it reads."""
        self._stopping.set()
        self.lister_watcher.cut()

    def join(self, timeout: float) -> bool:
        """Wait so many seconds; return whether the thread has ended."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    def _run(self) -> None:
        try:
            while not self._stopping.is_set():
                error = self._attempt()
                if error is not None and not self._stopping.is_set():
                    self._back_off(error)
        except IntakeClosed:
            return

    def _attempt(self) -> Exception | None:
        """List and watch once; return the error that requires a back-off. :raises IntakeClosed: stopped."""
        try:
            self._list_and_watch()
            return None
        except IntakeClosed:
            raise
        except HistoryExpired:
            self.version = None
            if not self._backoff.failures:
                self._backoff.failures = 1
                return None
            return ApiError(410, "Expired", "the history is gone")
        except TooLarge as exc:
            self.version = None  # only a listing reads past an event that is too large
            return exc
        except KubernetesError as exc:
            return exc
        except Exception as exc:
            LOG.exception(
                "source %s: %s: unexpected error, listing again", self._settings.source, self.lister_watcher.name
            )
            self.version = None
            return exc

    def _list_and_watch(self) -> None:
        """List if there is no version, and watch until the server ends the watch."""
        if self.version is None:
            self.lister_watcher.undiscover()  # its definition may be another one by now
        if not self.lister_watcher.is_discovered:
            if version := self.lister_watcher.discover():
                LOG.info("source %s: %s: following version %s", *self._log_names, version)
            if not self._is_first and not self.lister_watcher.resource.namespaced:
                self._owner.leave(self)
                raise IntakeClosed
        if self.version is None:
            if self._monotonic() >= self._pages_until and self._stream_list():
                return
            self.list_pages()
        self._watch(initial=False)

    def _stream_list(self) -> bool:
        """List by a watch that begins with initial events, and watch on; False: a list in pages is due at once.

        Any error before the end of the initial events leads to a list in pages, because it may be one of streamed
        lists alone. Listings are streamed again after :data:`_PAGES_SECONDS`.

        :raises KubernetesError, HistoryExpired: the watch ended after the initial events, or the server asked to wait.
        """
        self._initial_events_began = False
        try:
            self._watch(initial=True)
            return True
        except WatchListUnsupported:
            LOG.info("source %s: %s: no WatchList, listing in pages", *self._log_names)
        except (HistoryExpired, KubernetesError) as exc:
            if self.version is not None:
                raise
            if not self._initial_events_began and isinstance(exc, KubernetesError) and exc.retry_after is not None:
                raise
            reason = str(exc) or type(exc).__name__
            # A server that is away has not refused anything.
            is_away = isinstance(exc, TransportError) and not self._initial_events_began
            level = logging.DEBUG if is_away else logging.INFO
            LOG.log(level, "source %s: %s: the streamed list failed, listing in pages: %s", *self._log_names, reason)
        self._pages_until = self._monotonic() + _PAGES_SECONDS
        return False

    def _back_off(self, error: Exception) -> None:
        """Record the error and wait before the next attempt."""
        failures = self._backoff.failures + 1
        is_refused = isinstance(error, ApiError) and error.code not in _NOT_THE_VERSION
        if is_refused and failures % _FAILURES_BEFORE_RELIST == 0:
            self.version = None
        if isinstance(error, ApiError) and error.code == 404 and self.lister_watcher.undiscover():
            self.version = None  # the kind is not served any more, or otherwise: it is listed after its discovery
        was_watching = self.progress.phase is Phase.WATCHING
        if was_watching:
            self.progress.lose_watch()
        # Watches end often. The reflector fails only if it cannot resume one.
        if failures > 1 or not was_watching:
            is_answer = not isinstance(error, TransportError)
            self.progress.enter(Phase.FAILING, str(error) or type(error).__name__, is_answer=is_answer)
        retry_after = error.retry_after if isinstance(error, KubernetesError) else None
        pause = self._backoff.failed()
        if retry_after:  # zero would be a request without a pause
            # The jitter spreads clients that all got the same Retry-After.
            pause = retry_after + min(pause, 0.1 * retry_after)
        self._stopping.wait(pause)

    def list_pages(self) -> None:
        """List in pages until one listing is complete; begin again when its snapshot expires."""
        self.progress.enter(Phase.LISTING)
        # A relist finds mostly known objects, of which only the version is needed: decoding them is wasted.
        read_as = None if self.objects.count else self.lister_watcher.resource.read_as
        seen: set[str] = set()
        version = ""
        try:
            for begins, page in self.lister_watcher.pages(read_as=read_as):
                self._check_stopping()
                self.progress.last_byte_at = time.monotonic()
                if begins:
                    seen.clear()
                    self._is_restored_at(page.version)
                version, self.progress.remaining = page.version, page.remaining
                self._emit(self.objects.on_page(page, seen))
                del page  # before the next one is decoded
        finally:
            self.progress.remaining = 0
        if self._is_restored_at(version):
            raise HistoryExpired
        self.complete_listing(version, seen)

    def complete_listing(self, version: str, seen: set[str]) -> None:
        """Emit the deletions and the ``listed`` event; the next watch begins at this version."""
        complete = self.objects.on_complete(version, seen, restored=self._is_restored)
        if complete is not None:
            events, gone = complete
            self._emit(events)
            self.objects.forget(gone)
            self.progress.synced_at = datetime.datetime.now(datetime.UTC)
            if self._is_restored:
                self._is_restored = False
                self._owner.lost_history(self.lister_watcher.name)
        self.version = self._highest = version
        self.progress.relists += 1
        self._owner.changed()

    def _verify_version(self) -> None:
        """Ask for the version that the server has now; a watch of one that was taken back would wait in silence.

        The watch is open by then, because etcd may be restored until it is. Without a version, a listing is due.

        :raises HistoryExpired: the cluster went back in time since the listing.
        :raises KubernetesError: the version cannot be read.
        """
        try:
            version = self.lister_watcher.newest_version()
        except ApiError as exc:
            if exc.retry_after:
                raise
            return  # a server that refuses this list may accept the watch
        if self._is_restored_at(version):
            self.version = None
            if self.progress.phase is Phase.LISTING:  # a server may contradict each of its listings
                raise HistoryExpired

    def _is_restored_at(self, version: str) -> bool:
        """Whether the cluster went back in time, so that everything must be listed again; forgets what was seen then.

        That says nothing any more, because another state of an object may have the same resourceVersion now.

        :param version: of the whole resource, from a list or a bookmark.
        """
        if not (self.objects.went_back or is_below(version, self._highest)):
            return False
        self.objects.forget_all()
        self._highest, self._is_restored = None, True
        return True

    def _watch(self, *, initial: bool) -> None:
        """Read one watch to its end.

        :param initial: begin with an event for each existing object, instead of at the last version.
        """
        probing = initial and not self._watch_list_proven
        seen: set[str] | None = None
        if initial:
            seen = set()
            self.progress.enter(Phase.LISTING)
        seconds = self._settings.watch_timeout
        with self.lister_watcher.watch(
            None if initial else self.version or "",
            timeout=max(1, round(self._jitter(seconds, 1.5 * seconds))),  # so that watches end at different times
            read_timeout=self._settings.watch_list_timeout if probing else None,
        ) as batches:
            began = time.monotonic()
            ends_by = self._monotonic() + _MAX_INITIAL_TIMEOUTS * self._settings.watch_list_timeout
            self.progress.last_byte_at = began
            self._initial_events_began = initial
            if not initial:
                self._verify_version()
                if self.version is None:
                    return
                self.progress.enter(Phase.WATCHING)
            self._check_stopping()
            try:
                for lines in batches:
                    self.progress.last_byte_at, before = time.monotonic(), self.version
                    seen = self.process_lines(lines, seen)
                    if seen is not None and self._monotonic() > ends_by:
                        break
                    if seen is None and self.version != before:
                        self._backoff.failures = 0
            except TimedOut:
                if not probing:
                    raise
            except TransportError:
                if time.monotonic() - began >= _BRIEF_SECONDS:
                    self._backoff.failures = 0  # load balancers cut connections that were idle for some time
                raise
        self._check_stopping()
        if seen is not None:
            raise WatchListUnsupported
        if time.monotonic() - began < _BRIEF_SECONDS:
            raise TransportError("the watch ended as soon as it had begun")
        self._backoff.failures = 0

    def process_lines(self, lines: list[bytes], seen: set[str] | None) -> set[str] | None:
        """Emit the events of these lines of a watch, and store the version of the last one.

        :param seen: uids of the initial events so far; None after the initial events.
        :returns: the same for the next lines.
        :raises HistoryExpired, KubernetesError, WatchListUnsupported: the events before that line are emitted.
        """
        events: list[Event] = []
        version: str | None = None
        try:
            for line in lines:
                try:
                    found = watch_stream.decode_line(line)
                    if (what := _CHANGES.get(found.type)) is not None:
                        version, event = self.objects.on_change(what, bytes(found.object), seen)
                        if event is not None:
                            events.append(event)
                    elif found.type == "BOOKMARK":
                        bookmark = watch_stream.decode_bookmark(found.object)
                        if self._is_restored_at(bookmark.metadata.version):
                            version = None
                            raise HistoryExpired
                        version = bookmark.metadata.version or version
                        if seen is not None:
                            if not bookmark.ends_initial_events:
                                raise WatchListUnsupported
                            self._emit(events)
                            events = []
                            self._end_initial_events(version or "", seen)
                            seen = None
                    elif found.type == "ERROR":
                        raise ListerWatcher.stream_error(bytes(found.object))
                except UNDECODABLE as exc:
                    events.append(self.objects.undecodable(line, str(exc)))
                    self.version, version = None, None  # only a listing can find the version
                    raise TransportError(f"an event cannot be decoded: {exc}") from exc
        finally:
            self._emit(events)
            if version and seen is None:
                self.version = self._highest = version
        return seen

    def _end_initial_events(self, version: str, seen: set[str]) -> None:
        self._watch_list_proven = True
        self.complete_listing(version, seen)
        self.progress.enter(Phase.WATCHING)

    def _emit(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self.progress.last_event_at = datetime.datetime.now(datetime.UTC)
        for begin in range(0, len(events), _EMIT_SIZE):
            self._check_stopping()
            self._owner.emit(events[begin : begin + _EMIT_SIZE])

    @property
    def _log_names(self) -> tuple[str, str]:
        return self._settings.source, self.lister_watcher.name

    def _check_stopping(self) -> None:
        if self._stopping.is_set():
            raise IntakeClosed
