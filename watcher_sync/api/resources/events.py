# SPDX-License-Identifier: Apache-2.0
"""``/v1/events``: the journal as a page, as a long poll, and as a stream of server-sent events.

Every change is told in the order of ``seq``, without a gap and without repetition, to whoever asks on with
the position that the answer before gave: ``next_since`` of a page, the id of the last event of a stream. Changes
that moved versions only are left out; they are no news.

A stream ends after ``[api] stream_max_age`` seconds; a browser's EventSource, and any client that keeps the
last id, connects again with ``Last-Event-ID`` and goes on where it was. A position before the journal's
beginning, or after its end (it is another journal then), is answered with 410: start from the lists.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator

import msgspec

from watcher_sync.api.core import schemas
from watcher_sync.api.core.feed import Feed, Slot
from watcher_sync.api.core.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.core.problems import Problem
from watcher_sync.api.core.request_context import EVERYTHING
from watcher_sync.api.service import Service
from watcher_sync.exceptions import StorageError
from watcher_sync.storage import reading
from watcher_sync.storage.journal import JournalRow

EVENT_STREAM = "text/event-stream"

_MAX_SCANNED_ROWS = 10_000
"""Journal rows that one page looks at; with a filter it may end before it is full, and says where it ended."""

_PAGE: schemas.Schema = {
    "type": "object",
    "required": ["events", "next_since", "head"],
    "properties": {
        "events": {"type": "array", "items": schemas.JOURNAL_ROW},
        "next_since": schemas.SEQ | {"description": "Ask on with this since."},
        "head": schemas.SEQ | {"description": "The seq of the last change of all."},
    },
}


class Filter(msgspec.Struct, frozen=True):
    """Which changes are wanted."""

    kind: str | None
    entity_id: str | None

    def passes(self, row: JournalRow) -> bool:
        """Whether the change is wanted, and news at all."""
        if not row.delta and row.change == "updated":
            return False
        return (self.kind is None or row.kind == self.kind) and (
            self.entity_id is None or row.entity_id == self.entity_id
        )


class Events:
    """``/v1/events``: the reading half."""

    def __init__(self, service: Service, feed: Feed) -> None:
        limit = schemas.paging(service.max_limit)["limit"]
        query = {
            "since": schemas.SEQ | {
                "description": "The seq after which to begin. Without it a page has the last changes, and a long poll "
                "or a stream begins now.",
            },
            "limit": limit | {"description": "The most changes of a page; a stream has no limit."},
            "wait": {
                "type": "number", "minimum": 0, "maximum": 60, "default": 0,
                "description": "Seconds to wait for a change where there is none yet (long poll).",
            },
            "kind": {"enum": sorted(service.kinds), "description": "Changes of this kind only."},
            "id": schemas.PLAIN | {"description": "Changes of the entity with this id only."},
        }  # fmt: skip
        self._service = service
        self._feed = feed
        self.on_get = operation(
            summary="Read the changes of the model, or wait for them",
            description=__doc__ or "",
            rule=Rule("events:list", EVERYTHING),
            query=query,
            headers={"Last-Event-ID": {"type": "string", "pattern": "^[0-9]{0,18}$"}},
            responses={200: Answer(_PAGE, "A page or a stream of changes", media_types=(JSON, EVENT_STREAM))},
            errors=(410,),
            tag="events",
            streams=True,
        )(self.read)

    def read(self, call: Call) -> None:
        """A page, a long poll or a stream, by what the client accepts."""
        chosen = Filter(call.query.get("kind"), call.query.get("id"))
        if call.request.client_prefers((JSON, EVENT_STREAM)) == EVENT_STREAM:
            _stream(self._service, self._feed, call, chosen)
        else:
            _page(self._service, self._feed, call, chosen)


def _page(service: Service, feed: Feed, call: Call, chosen: Filter) -> None:
    since: int | None = call.query.get("since")
    limit, wait = call.query["limit"], call.query["wait"]
    head = feed.head()
    if since is None and not wait:
        with service.reading() as connection:
            rows = reading.read_last(connection, service.tables, limit)
        since = rows[-1].seq if rows else head
        _answer(call, [row for row in rows if chosen.passes(row)], since, max(head, since))
        return
    since = head if since is None else since
    _check_known(since, head)
    found, reached = _scan(feed, since, limit, chosen)
    if not found and wait:
        slot = feed.take_slot()
        try:
            deadline = time.monotonic() + wait
            while not found and feed.wait(reached, deadline - time.monotonic()):
                found, reached = _scan(feed, reached, limit, chosen)
        finally:
            slot.release()
    _answer(call, found, reached, max(head, reached))


def _answer(call: Call, rows: list[JournalRow], reached: int, head: int) -> None:
    call.response.set_header("Cache-Control", "no-store")
    call.answer({"events": [row.document() for row in rows], "next_since": reached, "head": head})


def _scan(feed: Feed, since: int, limit: int, chosen: Filter) -> tuple[list[JournalRow], int]:
    """The wanted changes after ``since``, and the seq up to which nothing else is wanted."""
    found: list[JournalRow] = []
    reached = since
    while reached - since < _MAX_SCANNED_ROWS:
        rows = feed.read(reached)
        if not rows:
            break
        for row in rows:
            reached = row.seq
            if chosen.passes(row):
                found.append(row)
                if len(found) == limit:
                    return found, reached
    return found, reached


def _check_known(since: int, head: int) -> None:
    if since > head:
        raise Problem(410, f"The journal ends at seq {head}, so seq {since} is of another one; start from the lists")


def _stream(service: Service, feed: Feed, call: Call, chosen: Filter) -> None:
    since: int | None = call.query.get("since")
    last = call.request.get_header("Last-Event-ID")
    if last:
        since = int(last)
    slot = feed.take_slot()
    try:
        head = feed.head()
        since = head if since is None else since
        _check_known(since, head)
        if since < head:
            feed.read(since, 1)  # what the journal does not reach back to is said now, not inside the stream
    except BaseException:
        slot.release()
        raise
    response = call.response
    response.content_type = EVENT_STREAM
    response.set_header("Cache-Control", "no-store")
    response.set_header("X-Accel-Buffering", "no")
    settings = service.conf.api
    response.stream = Stream(
        feed, slot, since, chosen, life=settings.stream_max_age, heartbeat=settings.stream_heartbeat
    )


class Stream:
    """The chunks of one stream, made in the thread that sends them. Its place is given back at its end."""

    def __init__(self, feed: Feed, slot: Slot, since: int, chosen: Filter, *, life: float, heartbeat: float) -> None:
        self._slot = slot
        self._chunks = _chunks(feed, since, chosen, life=life, heartbeat=heartbeat)

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        try:
            return next(self._chunks)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """The client is gone, or the server ends it."""
        self._chunks.close()
        self._slot.release()


def _chunks(feed: Feed, since: int, chosen: Filter, *, life: float, heartbeat: float) -> Generator[bytes, None, None]:
    """Events as they come; a heartbeat after so much silence, which tells the position too."""
    yield b"retry: 1000\n\n"
    now = said = time.monotonic()
    end = now + life
    reached = told = since
    while now < end:
        try:
            rows = feed.read(reached) if feed.wait(reached, max(0.0, min(said + heartbeat, end) - now)) else []
        except StorageError:  # the client connects again, and is told what is wrong
            return
        text = b"".join(_event(row) for row in rows if chosen.passes(row))
        if rows:
            reached = rows[-1].seq
        now = time.monotonic()
        if text:
            said, told = now, reached
            yield text
        elif now >= said + heartbeat:
            # An id without data is no event, but a client that connects again will name it.
            yield b": heartbeat\n\n" if reached == told else b": heartbeat\nid: %d\n\n" % reached
            said, told = now, reached


def _event(row: JournalRow) -> bytes:
    data = msgspec.json.encode(row.document())
    text: bytes = b"".join((b"id: %d\nevent: " % row.seq, row.change.encode(), b"\ndata: ", data, b"\n\n"))
    return text
