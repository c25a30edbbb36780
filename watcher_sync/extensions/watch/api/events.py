# SPDX-License-Identifier: Apache-2.0
"""``GET /events/management/{version}/watchtopics/{name}``: the past events of a watch topic.

A watcher catches up here before its stream begins. The grammar is that of the Axway dialect, or the keyset form
``after`` and ``limit``. A page is full unless it is the last one.

The answer has what the caller sees: the entities of its project, without fields that tell of hosts. It is 410 if the
journal was purged after the position, ends before it, or is of another ``epoch``.

The sequence up to which the caller has read in ascending pages and that of a 410 are stored for 10 minutes. A stream
without a position of its own starts there. The descending order and the keyset form store none.
"""

from __future__ import annotations

import collections
import threading
from typing import Any, Final

import sqlalchemy as sa

from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import EPOCH_HEADER, QUERY, beyond, require_epoch
from watcher_sync.api.http.problems import Problem, bad_request
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.identity.visibility import visibility
from watcher_sync.api.service import Service
from watcher_sync.extensions.watch.api import bodies
from watcher_sync.extensions.watch.api.resources import APIS
from watcher_sync.extensions.watch.api.scan import MAX_SCANNED_ROWS, EmptyRanges, EventScan, WantedEvents
from watcher_sync.extensions.watch.api.topics import TAG, TopicCollection, TopicItem, TopicStore, page_parameters
from watcher_sync.extensions.watch.model.resources import Describer, Reader
from watcher_sync.extensions.watch.model.topics import WatchTopic
from watcher_sync.extensions.watch.topic_rows import WatchPositions
from watcher_sync.extensions.watch.wire.descriptions import ChangeDescription
from watcher_sync.extensions.watch.wire.messages import element
from watcher_sync.extensions.watch.wire.topic_links import TEMPLATE
from watcher_sync.read.reading import oldest_seq
from watcher_sync.storage.epochs import Position, read_position

MAX_SEQUENCE_ID: Final = "X-Axway-Max-Sequence-Id"
"""The header of a 410 with the last sequence of the journal."""
MAX_PAGE_SIZE: Final = "X-Watcher-Sync-Max-Page-Size"
"""The header of a page with the largest ``pageSize``. The client of this project asks for larger pages then."""
_MAX_PAGES: Final = 4_096
"""Ends of pages that are in memory."""
_PAGING: Final = ("page", "pageSize", "query", "sort")
_KEYSET: Final = ("after", "limit")
_QUERY_PREFIX: Final = "sequenceID>"
_DESCENDING: Final = "sequenceID,DESC"


class PageEnds:
    """The last sequences of full pages, for requests of the page after them.

    Topics do not change and the journal grows, so a page changes only by a purge or a restore. Used by all threads.
    """

    def __init__(self, max_entries: int = _MAX_PAGES) -> None:
        self._max_entries = max_entries
        self._lock = threading.Lock()  # guards the entries
        self._ends: collections.OrderedDict[Any, int] = collections.OrderedDict()

    def get(self, key: Any, page: int) -> int | None:
        """The last sequence of a page; None: it is not known."""
        with self._lock:
            return self._ends.get((key, page))

    def add(self, key: Any, page: int, sequence: int) -> None:
        """Note the last sequence of a full page."""
        with self._lock:
            self._ends[key, page] = sequence
            self._ends.move_to_end((key, page))
            while len(self._ends) > self._max_entries:
                self._ends.popitem(last=False)


class TopicEvents:
    """``GET /events/management/{version}/watchtopics/{name}``."""

    def __init__(self, store: TopicStore) -> None:
        self._store = store
        self._service = store.service
        self._describer = Describer(self._service.kinds)
        self._positions = WatchPositions(self._service.store.database, self._service.tables)
        self._ends = PageEnds()
        self._empty = EmptyRanges()
        max_limit = self._service.max_limit
        self.on_get = operation(
            summary="Read the past events of a watch topic",
            description=f"{__doc__}\nA request reads at most {MAX_SCANNED_ROWS} journal rows of the topic's kinds. The "
            "answer is 503 if the page is not full then. The same request continues where this one ended, if the same "
            "worker serves it. Narrower kinds in the filters help, too.",
            rule=Rule("watchtopics:events", PROJECT_READER),
            query=page_parameters(max_limit)
            | {
                "epoch": QUERY,
                "query": {
                    "type": "string",
                    "pattern": "^sequenceID>[0-9]{1,18}$",
                    "description": "sequenceID>N: only events after sequence N.",
                },
                "sort": {
                    "enum": ["sequenceID,ASC", _DESCENDING],
                    "description": "The order; with pageSize=1 the descending one has the last event.",
                },
                "after": schemas.SEQ | {"maximum": 10**18, "description": "Keyset form: events after this sequence."},
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": max_limit,
                    "description": "Keyset form: the number of events on a page; by default 100.",
                },
            },
            responses={
                200: Answer(
                    {"type": "array", "items": bodies.EVENT}, "A page of events", headers=(MAX_PAGE_SIZE, EPOCH_HEADER)
                )
            },
            errors=(404, 409, 410),
            tag=TAG,
        )(self.read)

    def read(self, call: Call, version: str, name: str) -> None:
        """Answers with one page, and stores its last sequence for a catch-up."""
        topic = self._store.find(call, version, name)
        wanted = _wanted(call, min(100, self._service.max_limit))
        sight = visibility(call.context, self._service.kinds)
        reader = Reader(sight.project_id, sight.hidden)
        caller = (topic.id, call.context.project_id or "", call.context.user_id or "")
        end = self._stored_end(caller, wanted)
        try:
            found, head, key = self._read_page(call, topic, reader, wanted, end)
        except Problem as exc:
            # Agents go on after this sequence without a further request.
            if wanted.stores_position and MAX_SEQUENCE_ID in exc.headers:
                self._positions.remember(*caller, int(exc.headers[MAX_SEQUENCE_ID]))
            raise
        is_full = len(found) == wanted.size
        if is_full and not wanted.descending:
            self._ends.add(key, wanted.page, found[-1].seq)
        if wanted.stores_position:
            last = found[-1].seq if found else 0
            served = last if is_full else max(head, last)
            self._positions.remember(*caller, served, wanted.label(wanted.page) if is_full else "")
        call.response.set_header(MAX_PAGE_SIZE, str(self._service.max_limit))
        call.answer([element(change, topic.ref) for change in found])

    def _read_page(
        self, call: Call, topic: WatchTopic, reader: Reader, wanted: WantedEvents, end: int | None
    ) -> tuple[list[ChangeDescription], int, Any]:
        """:returns: the events, the head of the journal, and the key of the pages.

        :raises Problem: 410 when the journal does not have the position.
        """
        with self._service.reading() as connection:
            position = read_position(connection, self._service.tables)
            head = position.seq
            require_epoch(call, position, {MAX_SEQUENCE_ID: str(head)})
            key = (position.epoch, topic.id, reader.project_id, bool(reader.hidden), wanted.after, wanted.size)
            self._require_present(connection, wanted, position)
            if end is None:
                end = self._known_end(connection, key, wanted, head)
            scan = EventScan(self._service, self._describer, topic, reader, wanted, self._empty)
            return scan.read(connection, end), head, key

    def _stored_end(self, caller: tuple[str, str, str], wanted: WantedEvents) -> int | None:
        """The last sequence of the page before, if it is the last page that the caller read, from any worker."""
        if wanted.page == 1 or wanted.descending:
            return None
        return self._positions.find(*caller, wanted.label(wanted.page - 1))

    def _known_end(self, connection: sa.Connection, key: Any, wanted: WantedEvents, head: int) -> int | None:
        """The last sequence of the page before, as this worker served it to any caller; None: it is not known.

        The end of a page that was purged since, or of a journal before a restore, says nothing of the pages now.
        """
        if wanted.page == 1 or wanted.descending:
            return None
        end = self._ends.get(key, wanted.page - 1)
        if end is None or end > head:
            return None
        oldest = oldest_seq(connection, self._service.tables)
        return end if oldest is not None and oldest <= end else None

    def _require_present(self, connection: sa.Connection, wanted: WantedEvents, position: Position) -> None:
        """:raises Problem: 410 when the journal does not reach back to the position, or ends before it."""
        after, head = wanted.after, position.seq
        if after is None or after == head:
            return
        headers = {MAX_SEQUENCE_ID: str(head)}
        if after > head:
            raise beyond(after, position, headers)
        oldest = oldest_seq(connection, self._service.tables)
        if after + 1 < (head + 1 if oldest is None else oldest):
            raise Problem(410, f"The events after sequence {after} were purged", headers=headers)


def _wanted(call: Call, default_size: int) -> WantedEvents:
    """:raises Problem: 400 when the request mixes both forms."""
    query = call.query
    keyset = [name for name in _KEYSET if name in query]
    mixed = [name for name in _PAGING if name in query]
    if keyset and mixed:
        raise bad_request("query", f"/{mixed[0]}", f"{mixed[0]} and {keyset[0]} are of different forms of paging")
    if keyset:
        return WantedEvents(after=query.get("after"), size=query.get("limit", default_size), is_keyset=True)
    text: str | None = query.get("query")
    return WantedEvents(
        after=None if text is None else int(text.removeprefix(_QUERY_PREFIX)),
        size=query.get("pageSize", default_size),
        page=query.get("page", 1),
        descending=query.get("sort") == _DESCENDING,
    )


def routes(service: Service) -> list[Route]:
    """Watch topics and their past events, in the dialect of Axway's agents."""
    store = TopicStore(service)
    collection, item = TopicCollection(store), TopicItem(store)
    return [
        *((f"{prefix}{TEMPLATE}", collection) for prefix in ("", APIS)),
        *((f"{prefix}{TEMPLATE}/{{name}}", item) for prefix in ("", APIS)),
        (f"/events{TEMPLATE}/{{name}}", TopicEvents(store)),
    ]
