# SPDX-License-Identifier: Apache-2.0
"""One reflector: a thread that lists one resource of one cluster and watches it from there, for ever.

What it promises to whoever reads its events in order:

* They end in what the API server has, whatever happened to connections, credentials and history. What was
  seen is kept as uid -> resourceVersion; after a relist the difference is told: what is new, what is another
  version, and, as synthetic deletions, what is not there any more.
* After each complete listing, the first too, a ``listed`` event carries the uids of all that exists. At a
  restart of the process nothing was seen yet, and the deletions that happened meanwhile can only be found by
  who remembers the objects: the handler deletes what the model has of this kind, cluster and namespace, and
  the listing has not, except what is newer than it.
* A listing that failed, or is partial, says nothing of what is gone: no deletion, and no ``listed``.
* The order is ours: each event gets the next number of the source. A resource version is opaque; it is
  handed back to the server and compared for equality, nothing else.

How it meets trouble: 410, as a status or within the stream, is a relist, at once when the watch had worked.
Other errors within the stream, lost connections, and silence longer than the read timeout: the watch goes on
from the last version (bookmarks keep that fresh). 429 and 504 wait as long as the server says. Any other trouble
waits with a jittered back-off that doubles up to a limit. Where the server refuses five times in a row, it is
listed anew, in case that the version itself is what it cannot bear.

Lists are made as streams (WatchList) where the server can, which spares it the pages in memory; a server that
refuses, or does not understand, is listed in pages.

Back-pressure: ``emit`` blocks, then nothing is read, then TCP holds the server back. If it gives up on us, the
watch goes on later from the last version. What was emitted counts as seen at once; that it is committed in the
end is the source's care.

Runs in its own thread; ``stop`` and the figures are for any.
"""

from __future__ import annotations

import contextlib
import datetime
import enum
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
import urllib3
from oslo_log import log as logging

from watcher_sync.events import Event, PartialPayload
from watcher_sync.sources.base import IntakeClosed
from watcher_sync.sources.kubernetes import resources, watching
from watcher_sync.sources.kubernetes.connection import Broken, Connection, KubeError, Refused, TimedOut, refusal
from watcher_sync.sources.kubernetes.paging import ListExpired, Page, pages
from watcher_sync.sources.kubernetes.resources import Resource

LOG = logging.getLogger(__name__)

_CHUNK: Final = 500
"""Events that are emitted in one call, at most."""
_FIRST_PAUSE: Final = 0.2
_QUIET: Final = 60.0
"""Seconds between two warnings of one reflector."""
_PATIENCE: Final = 5
"""Failures in a row after which a watch that is refused is not resumed but listed anew."""
_NOT_OUR_FAULT: Final = {401, 403, 429, 503, 504}
"""Refusals that another version would meet as well."""
_UNREADABLE: Final = ""
"""Stands among uids for an object whose uid cannot be read."""
_HAPPENED: Final = {"ADDED": "added", "MODIFIED": "modified", "DELETED": "deleted"}
_TOLD: Final = (*_HAPPENED.values(), "listed", "undecodable")


class Phase(enum.StrEnum):
    """What a reflector is doing."""

    STARTING = "starting"
    LISTING = "listing"
    WATCHING = "watching"
    FAILING = "failing"


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What all reflectors of a source have in common. Times are seconds."""

    source: str
    cluster: str
    label_selector: str = ""
    page_size: int = 500
    watch_list: bool = True
    watch_list_timeout: float = 10.0
    watch_timeout: int = 300
    backoff_max: float = 30.0


class Owner(Protocol):
    """The source, as its reflectors see it."""

    def emit(self, events: Sequence[Event]) -> None:
        """To the engine; blocks. :raises IntakeClosed: nothing more is taken."""

    def sequence(self) -> tuple[int, int]:
        """The next place in the order."""

    def changed(self) -> None:
        """A reflector's phase or trouble is another one, or it has listed anew."""


class _Gone(Exception):
    """The version is too old: list anew."""


class _NotUnderstood(Exception):
    """The server does not send initial events as asked."""


class Reflector:
    """See the module."""

    def __init__(
        self,
        resource: Resource,
        namespace: str | None,
        connection: Connection,
        settings: Settings,
        owner: Owner,
        *,
        jitter: Callable[[float, float], float] = random.uniform,
    ) -> None:
        """:param namespace: to follow; None: all of them."""
        self.resource = resource
        self.namespace = namespace
        self.phase = Phase.STARTING
        self.trouble = ""
        self.has_synced = False
        self.synced_at: datetime.datetime | None = None
        self.last_event_at: datetime.datetime | None = None
        self.resumptions = 0
        """How often a watch was begun again, for whatever reason but a good end."""
        self.relists = 0
        """How often it was listed, the first time included."""
        self._remaining = 0
        self._connection = connection
        self._settings = settings
        self._owner = owner
        self._jitter = jitter
        self._stopping = threading.Event()
        self._known: dict[str, str] = {}
        self._types = {what: resource.event_type(what) for what in _TOLD}
        self._version: str | None = None
        self._streams = settings.watch_list
        """Whether lists are asked for as streams; proven once one came to its end."""
        self._proven = False
        self._failures = 0
        self._warned_at = -_QUIET
        self._response: urllib3.BaseHTTPResponse | None = None
        where = f"-{namespace}" if namespace else ""
        name = f"source-{settings.source}-{resource.name.lower()}{where}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    # Any thread

    @property
    def name(self) -> str:
        """For people: what it follows."""
        return f"{self.resource.name} of {self.namespace}" if self.namespace else self.resource.name

    @property
    def objects(self) -> int:
        """How many objects there are, as far as was seen."""
        return len(self._known)

    @property
    def lag(self) -> int | None:
        """Objects of a listing under way that are still to come; None while it is not known what is missed."""
        return self._remaining if self.phase in (Phase.LISTING, Phase.WATCHING) else None

    def start(self) -> None:
        """Begin; returns at once."""
        self._thread.start()

    def begin_stop(self) -> None:
        """End soon; an answer that is being read is cut."""
        self._stopping.set()
        response = self._response
        if response is not None:
            with contextlib.suppress(Exception):  # it may end by itself at the same moment
                response.shutdown()

    def join(self, timeout: float) -> bool:
        """Whether the thread has ended within so many seconds."""
        if self._thread.ident is not None:
            self._thread.join(max(0.0, timeout))
        return not self._thread.is_alive()

    # Its own thread

    def _run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._turn()
                continue
            except IntakeClosed:
                return
            except _Gone:
                self._version = None
                trouble: Exception = Refused(410, "Expired", "the history is gone")
                if not self._failures:
                    self._failures = 1
                    continue
            except KubeError as exc:
                trouble = exc
            except Exception as exc:
                LOG.exception("source %s: the reflector of %s begins anew", self._settings.source, self.name)
                trouble, self._version = exc, None
            if self._stopping.is_set():
                return
            try:
                self._recover(trouble)
            except IntakeClosed:
                return

    def _turn(self) -> None:
        """List if need be, and watch until the server ends it."""
        if not self.resource.plural:
            self._discover()
        if self._version is None:
            if self._streams:
                try:
                    return self._watch(initial=True)
                except _NotUnderstood:
                    self._streams = False
                    LOG.info("source %s: %s is listed in pages", self._settings.source, self.name)
            self._list()
        self._watch(initial=False)

    def _recover(self, trouble: Exception) -> None:
        """Say what is wrong, and wait."""
        self._failures += 1
        if self._failures % _PATIENCE == 0 and isinstance(trouble, Refused) and trouble.code not in _NOT_OUR_FAULT:
            self._version = None
        watched = self.phase is Phase.WATCHING
        self.resumptions += watched
        # That a watch ends is an everyday thing: it is trouble when it cannot be resumed.
        if self._failures > 1 or not watched:
            self._tell(Phase.FAILING, str(trouble) or type(trouble).__name__)
        asked = trouble.retry_after if isinstance(trouble, KubeError) else None
        ceiling = min(self._settings.backoff_max, _FIRST_PAUSE * 2 ** min(self._failures - 1, 16))
        pause = self._jitter(ceiling / 2, ceiling)
        # Some more than was asked for, so that not all who were sent away come back at once.
        self._stopping.wait(pause if asked is None else asked + min(pause, 0.1 * asked))

    def _discover(self) -> None:
        """Learn the plural of a kind that was named by option."""
        try:
            found = resources.complete(self.resource, self._connection.read(self.resource.base))
        except msgspec.DecodeError as exc:
            raise Broken(f"discovery of {self.resource.base}: {exc}") from exc
        if found is None:
            raise Broken(f"the server has no kind {self.resource.kind} in {self.resource.base}")
        self.resource = found
        if not found.namespaced:
            self.namespace = None

    # Listing

    def _list(self) -> None:
        """List in pages, until one listing is whole; begin again when its end is not to be had any more."""
        self._tell(Phase.LISTING)
        accept = resources.METADATA_LIST if self.resource.metadata_only else resources.WHOLE
        size = self._settings.page_size
        # What is listed again is known for the most part: of that nothing but the version is of interest.
        read_as = self.resource.read_as if not self._known else None
        for limit in (size, size, 0):  # at last all at once: the cluster moves faster than our pages
            seen: set[str] = set()
            version = ""
            try:
                listing = pages(
                    self._connection, self._path(), self._selectors(), accept=accept, limit=limit, read_as=read_as
                )
                for page in listing:
                    if self._stopping.is_set():
                        raise IntakeClosed
                    version, self._remaining = page.version, page.remaining
                    self._emit(self._seen_on_page(page, seen))
                    del page  # before the next one is decoded
            except ListExpired:
                continue
            finally:
                self._remaining = 0
            return self._listed(version, seen)
        raise Broken("the list expires before its end")

    def _seen_on_page(self, page: Page, seen: set[str]) -> list[Event]:
        """The events of all objects of which there is news."""
        if page.objects is None:
            return [e for text in page.texts() if (e := self._seen_in_list(text, seen)) is not None]
        events, text_of = [], page.text
        for place, found in enumerate(page.objects):
            metadata = found.metadata
            name, version = metadata.name, metadata.resource_version
            if name and version:
                seen.add(metadata.uid)
                event = self._upserted(PartialPayload(found, text_of, place), metadata.uid, version, name)
            else:
                event = self._seen_in_list(text_of(place), seen)
            if event is not None:
                events.append(event)
        return events

    def _seen_in_list(self, item: bytes, seen: set[str]) -> Event | None:
        """The object's event, if there is news of it.

        :param seen: what exists; :data:`_UNREADABLE` among it for an object that does not tell what it is.
        """
        try:
            metadata = watching.metadata_of(item)
            if not metadata.uid:
                raise msgspec.DecodeError("metadata has no uid")
        except (msgspec.DecodeError, UnicodeError) as exc:
            seen.add(_UNREADABLE)
            return self._undecodable(item, str(exc))
        seen.add(metadata.uid)
        return self._upserted(item, metadata.uid, metadata.version, metadata.name)

    def _listed(self, version: str, seen: set[str]) -> None:
        """The listing is whole: tell what is gone, and what there is; or nothing, when some of it is not readable."""
        if _UNREADABLE not in seen:
            gone = [uid for uid in self._known if uid not in seen]
            events = [self._event("deleted", uid, "deleted", data=_only_uid(uid), position=version) for uid in gone]
            told = {"kind": self.resource.kind, "namespace": self.namespace, "uids": sorted(seen)}
            self._emit([*events, self._event("listed", "", version, data=msgspec.json.encode(told), position=version)])
            for uid in gone:
                del self._known[uid]
            self.has_synced = True
            self.synced_at = datetime.datetime.now(datetime.UTC)
        self._version = version
        self.relists += 1
        self._owner.changed()

    # Watching

    def _watch(self, *, initial: bool) -> None:
        """One stream, to its end.

        :param initial: begin with all that exists, instead of at the version that was seen last.
        """
        unproven = initial and not self._proven
        if initial:
            self._tell(Phase.LISTING)
        try:
            response = self._connection.open(
                self._path(),
                self._watch_query(initial=initial),
                accept=resources.METADATA if self.resource.metadata_only else resources.WHOLE,
                read_timeout=self._settings.watch_list_timeout if unproven else None,
            )
        except Refused as exc:
            if initial and exc.code in (400, 422):
                raise _NotUnderstood from exc
            if exc.gone:
                raise _Gone from exc
            raise
        self._response = response
        began = time.monotonic()
        worked = False
        seen: set[str] | None = set() if initial else None
        if not initial:
            self._tell(Phase.WATCHING)
        try:
            if self._stopping.is_set():
                raise IntakeClosed
            for lines in watching.lines(response):
                seen = self._take(lines, seen)
                if seen is None:
                    worked = True
                    self._failures = 0
        except TimedOut:
            if unproven and seen is not None:
                raise _NotUnderstood from None
            if not unproven:
                raise
        finally:
            self._response = None
            response.close()
        if self._stopping.is_set():
            raise IntakeClosed
        if seen is not None:
            raise _NotUnderstood
        if not worked and time.monotonic() - began < 1.0:
            raise Broken("the watch ended as soon as it had begun")
        self._failures = 0

    def _watch_query(self, *, initial: bool) -> dict[str, str]:
        seconds = self._settings.watch_timeout
        query = {
            **self._selectors(),
            "watch": "true",
            "allowWatchBookmarks": "true",
            # Not all at once when many began together.
            "timeoutSeconds": str(max(1, round(self._jitter(seconds, 1.5 * seconds)))),
        }
        if initial:
            return {**query, "sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"}
        return {**query, "resourceVersion": self._version or ""}

    def _take(self, lines: list[bytes], seen: set[str] | None) -> set[str] | None:
        """Emit what the lines say, and remember how far we are.

        :param seen: what exists, while the initial events come; None after them.
        :returns: the same for the next lines.
        :raises _Gone, Refused, Broken: a line says so; what came before it is emitted.
        """
        events: list[Event] = []
        version: str | None = None
        try:
            for line in lines:
                try:
                    what = watching.decode_line(line)
                    if (happened := _HAPPENED.get(what.type)) is not None:
                        item = bytes(what.object)
                        metadata = watching.metadata_of(item)
                        if not metadata.uid or not metadata.version:
                            raise msgspec.DecodeError("metadata has no uid or no resourceVersion")
                        version = metadata.version
                        if (event := self._happened(happened, item, metadata, seen)) is not None:
                            events.append(event)
                    elif what.type == "BOOKMARK":
                        bookmark = watching.decode_bookmark(what.object)
                        version = bookmark.metadata.version or version
                        if seen is not None:
                            if not bookmark.ends_initial_events:
                                raise _NotUnderstood
                            self._emit(events)
                            events, self._proven = [], True
                            self._listed(version or "", seen)
                            seen = None
                            self._tell(Phase.WATCHING)
                    elif what.type == "ERROR":
                        error = refusal(bytes(what.object))
                        raise _Gone if error.gone else error
                except (msgspec.DecodeError, UnicodeError) as exc:
                    events.append(self._undecodable(line, str(exc)))
                    self._version, version = None, None  # what it was, only a listing can tell
                    raise Broken(f"an event cannot be decoded: {exc}") from exc
        finally:
            self._emit(events)
            if version and seen is None:
                self._version = version
        return seen

    def _happened(self, happened: str, item: bytes, metadata: watching.Metadata, seen: set[str] | None) -> Event | None:
        if happened != "deleted":
            if seen is not None:
                seen.add(metadata.uid)
            return self._upserted(item, metadata.uid, metadata.version, metadata.name)
        if seen is not None:
            seen.discard(metadata.uid)
        self._known.pop(metadata.uid, None)
        return self._event("deleted", metadata.uid, metadata.version, item, metadata.version, metadata.name)

    def _upserted(self, data: bytes | PartialPayload, uid: str, version: str, name: str) -> Event | None:
        """What is new of an object: nothing, where this version of it was seen."""
        known = self._known.get(uid)
        if known == version:
            return None
        self._known[uid] = version
        return self._event("added" if known is None else "modified", uid, version, data, version, name)

    # Events

    def _event(self, what: str, uid: str, about: str, data: Any, position: str, name: str = "") -> Event:
        sequence = self._owner.sequence()
        return Event(
            id=f"{uid}/{about}" if uid else f"{self.resource.kind}/{self.namespace or ''}/{sequence[0]}.{sequence[1]}",
            type=self._types[what],
            source=self._settings.source,
            origin=self._settings.cluster,
            subject=name,
            data=data,
            sequence=sequence,
            position=position,
        )

    def _undecodable(self, body: bytes, reason: str) -> Event:
        event = self._event("undecodable", "", "", body, "")
        return msgspec.structs.replace(event, undecodable=f"{self.name}: {reason}")

    def _emit(self, events: Sequence[Event]) -> None:
        if not events:
            return
        self.last_event_at = datetime.datetime.now(datetime.UTC)
        for begin in range(0, len(events), _CHUNK):
            if self._stopping.is_set():
                raise IntakeClosed
            self._owner.emit(events[begin : begin + _CHUNK])

    # What it asks, and what it tells

    def _path(self) -> str:
        return self.resource.path(self.namespace)

    def _selectors(self) -> dict[str, str]:
        return {"labelSelector": self._settings.label_selector} if self._settings.label_selector else {}

    def _tell(self, phase: Phase, trouble: str = "") -> None:
        """Set the phase; one line in the log when trouble begins, and when it ends."""
        if (phase, trouble) == (self.phase, self.trouble):
            return
        if trouble and self.phase is not Phase.FAILING:
            # A cluster that comes and goes shall not fill the log.
            now = time.monotonic()
            level = logging.DEBUG if now - self._warned_at < _QUIET else logging.WARNING
            LOG.log(level, "source %s: %s: %s; trying again for ever", self._settings.source, self.name, trouble)
            self._warned_at = now if level == logging.WARNING else self._warned_at
        elif phase is Phase.WATCHING and self.trouble:
            LOG.info("source %s: %s: watching again", self._settings.source, self.name)
        self.phase, self.trouble = phase, trouble if phase is Phase.FAILING else self.trouble
        if phase is Phase.WATCHING:
            self.trouble = ""
        self._owner.changed()


def _only_uid(uid: str) -> bytes:
    """The object of a deletion that nobody saw."""
    return msgspec.json.encode({"metadata": {"uid": uid}})
