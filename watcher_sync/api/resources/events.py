# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/events``: the journal as a page, as a long poll, and as a stream of server-sent events.

The changes come in the order of ``seq``, without a gap or repetition. To continue, a client sends the position of the
last answer: ``next_since`` of a page, or the id of the last event of a stream. The answer omits changes that only
raised a version.

The API ends a stream after ``[api] stream_max_age`` seconds. A client such as a browser's EventSource then connects
again with ``Last-Event-ID``, and continues there.

The answer is 410 if the position is outside of the journal. The client must start from the lists.

A project gets the changes of its entities, without fields that tell of hosts.
"""

from __future__ import annotations

import time
from collections.abc import Generator

import msgspec

from watcher_sync.api.core import schemas
from watcher_sync.api.core.feed import Feed, Slot
from watcher_sync.api.core.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.core.problems import Problem
from watcher_sync.api.core.rate_limits import identity_of
from watcher_sync.api.core.request_context import NO_PROJECT
from watcher_sync.api.core.response_stream import ResponseStream
from watcher_sync.api.core.rules import ALL_PROJECTS, PROJECT_READER
from watcher_sync.api.core.visibility import Visibility, visibility
from watcher_sync.api.service import Service
from watcher_sync.exceptions import StorageError
from watcher_sync.storage import reading
from watcher_sync.storage.journal import JournalRow, read_head

EVENT_STREAM = "text/event-stream"

_MAX_SCANNED_ROWS = 10_000
"""Journal rows that the API reads for one page. A filtered page may end early; ``next_since`` has the position."""

_MAX_PAGE_BYTES = 8_388_608
"""Bytes of the deltas that the API reads for one page, about."""

_MAX_LAST_ROWS = 1_000
"""Rows of one query for the last changes."""

_PAGE: schemas.Schema = {
    "type": "object",
    "required": ["events", "next_since", "head"],
    "properties": {
        "events": {"type": "array", "items": schemas.JOURNAL_ROW},
        "next_since": schemas.SEQ | {"description": "The since of the next request."},
        "head": schemas.SEQ | {"description": "The seq of the last change in the journal."},
    },
}


class Filter(msgspec.Struct, frozen=True):
    """The changes that the request chooses, and what the caller sees of them."""

    kind: str | None
    entity_id: str | None
    sight: Visibility

    def shown(self, row: JournalRow) -> JournalRow | None:
        """The change as the answer has it; None: the request does not choose it, or the caller does not see it.

        A change that only raised a version is never in an answer.
        """
        if not self.sight.sees(row.project_id):
            return None
        if self.kind is not None and row.kind != self.kind:
            return None
        if self.entity_id is not None and row.entity_id != self.entity_id:
            return None
        return self.sight.shown(row)


class Events:
    """``GET /v1/events``."""

    def __init__(self, service: Service, feed: Feed) -> None:
        limit = schemas.paging(service.max_limit)["limit"]
        query = {
            "since": schemas.SEQ | {
                "description": "The answer begins after this seq. Without it, a page has the last changes, and a long "
                "poll or a stream begins at the end of the journal.",
            },
            "limit": limit | {"description": "The maximum number of changes on a page; a stream has no limit."},
            "wait": {
                "type": "number", "minimum": 0, "maximum": 60, "default": 0,
                "description": "Seconds to wait if there is no change yet (long poll).",
            },
            "kind": {"enum": sorted(service.kinds), "description": "Changes of this kind only."},
            "id": schemas.SHORT_TEXT | {"description": "Changes of the entity with this id only."},
            "all_projects": {
                "type": "boolean",
                "description": "true: the changes of all projects, or 403; false: those of the caller's project alone. "
                "By default the answer has everything that the caller may see.",
            },
        }  # fmt: skip
        self._service = service
        self._feed = feed
        self.on_get = operation(
            summary="Read the changes of the model, or wait for them",
            description=__doc__ or "",
            rule=Rule("events:list", PROJECT_READER),
            query=query,
            headers={"Last-Event-ID": {"type": "string", "pattern": "^[0-9]{0,18}$"}},
            responses={200: Answer(_PAGE, "A page or a stream of changes", media_types=(JSON, EVENT_STREAM))},
            errors=(410,),
            tag="events",
            streams=True,
        )(self.read)

    def read(self, call: Call) -> None:
        """Answers with a stream if the client prefers one, else with a page, after waiting for a change if asked."""
        chosen = Filter(call.query.get("kind"), call.query.get("id"), _sight(self._service, call))
        if call.request.client_prefers((JSON, EVENT_STREAM)) == EVENT_STREAM:
            _stream(self._service, self._feed, call, chosen)
        else:
            _page(self._service, self._feed, call, chosen)


def _sight(service: Service, call: Call) -> Visibility:
    """What the caller sees, restricted to what it asks for.

    :raises Problem: 403 when it asks for more than it may see.
    """
    wanted: bool | None = call.query.get("all_projects")
    kind = service.kinds.get(call.query.get("kind", ""))
    sight = visibility(call.context, service.kinds)
    if sight.project_id is not None and (wanted or (kind is not None and not kind.is_scoped)):
        raise call.context.refusal([ALL_PROJECTS])
    if wanted is False:
        sight = msgspec.structs.replace(sight, project_id=call.context.project_id or NO_PROJECT)
    return sight


def _page(service: Service, feed: Feed, call: Call, chosen: Filter) -> None:
    since: int | None = call.query.get("since")
    limit, wait = call.query["limit"], call.query["wait"]
    if since is None and not wait:
        rows, head = _read_last(service, limit, chosen)
        _answer(call, rows, head, head)
        return
    head = feed.head()
    since = head if since is None else since
    _require_known(since, head)
    found, reached = _scan(feed, since, limit, chosen)
    if not found and wait:
        identity = identity_of(call.request.env)
        slot = feed.take_slot(identity)
        try:
            deadline = time.monotonic() + wait
            while not found and feed.wait(reached, deadline - time.monotonic()):
                found, reached = _scan(feed, reached, limit, chosen)
        finally:
            slot.release()
        if found:
            feed.refund(identity)
    _answer(call, found, reached, max(head, reached))


def _read_last(service: Service, limit: int, chosen: Filter) -> tuple[list[JournalRow], int]:
    """Read the last chosen changes, backwards from the end of the journal.

    :returns: at most ``limit`` changes in order, among the last 10,000 rows of about 8 MiB; and the journal's last seq.
    """
    found: list[JournalRow] = []
    before: int | None = None
    count, scanned, size = limit, 0, 0
    with service.reading() as connection:
        head = read_head(connection, service.tables)
        while len(found) < limit and scanned < _MAX_SCANNED_ROWS and size < _MAX_PAGE_BYTES:
            rows = reading.read_last(
                connection, service.tables, count, project_id=chosen.sight.project_id, before=before
            )
            if not rows:
                break
            head, before = max(head, rows[-1].seq), rows[0].seq
            found[:0] = [shown for row in rows if (shown := chosen.shown(row)) is not None]
            scanned += len(rows)
            size += sum(row.size() for row in rows)
            count = min(2 * count, max(limit, _MAX_LAST_ROWS))
    return found[-limit:], head


def _answer(call: Call, rows: list[JournalRow], reached: int, head: int) -> None:
    call.response.set_header("Cache-Control", "no-store")
    call.answer({"events": [row.document() for row in rows], "next_since": reached, "head": head})


def _scan(feed: Feed, since: int, limit: int, chosen: Filter) -> tuple[list[JournalRow], int]:
    """Reads the chosen changes after ``since``.

    :returns: at most ``limit`` changes of about 8 MiB, and the seq up to which there is no further one.
    """
    found: list[JournalRow] = []
    reached, size = since, 0
    while reached - since < _MAX_SCANNED_ROWS:
        rows = feed.read(reached)
        if not rows:
            break
        for row in rows:
            reached = row.seq
            if (shown := chosen.shown(row)) is not None:
                found.append(shown)
                if len(found) == limit:
                    return found, reached
        size += sum(row.size() for row in rows)
        if size >= _MAX_PAGE_BYTES:
            break
    return found, reached


def _require_known(since: int, head: int) -> None:
    """:raises Problem: 410 when the position is after the journal's end."""
    if since > head:
        raise Problem(410, f"The journal ends at seq {head}, so seq {since} is of another one; start from the lists")


def _stream(service: Service, feed: Feed, call: Call, chosen: Filter) -> None:
    since: int | None = call.query.get("since")
    last = call.request.get_header("Last-Event-ID")
    if last:
        since = int(last)
    slot = feed.take_slot(identity_of(call.request.env))
    try:
        head = feed.head()
        since = head if since is None else since
        _require_known(since, head)
        if since < head:
            feed.read(since, 1)  # raises JournalPurged before the stream begins, so that the answer is 410
    except BaseException:
        slot.release()
        raise
    response = call.response
    response.content_type = EVENT_STREAM
    response.set_header("Cache-Control", "no-store")
    response.set_header("X-Accel-Buffering", "no")
    settings = service.conf.api
    response.stream = stream_of(
        feed, slot, since, chosen, life=settings.stream_max_age, heartbeat=settings.stream_heartbeat
    )


def stream_of(feed: Feed, slot: Slot, since: int, chosen: Filter, *, life: float, heartbeat: float) -> ResponseStream:
    """Returns the changes after ``since`` as server-sent events. The end of the stream releases its slot."""
    return ResponseStream(_chunks(feed, since, chosen, life=life, heartbeat=heartbeat), slot.release)


def _chunks(feed: Feed, since: int, chosen: Filter, *, life: float, heartbeat: float) -> Generator[bytes, None, None]:
    """Yields events as they are committed, and heartbeats.

    :param life: seconds after which the stream ends.
    :param heartbeat: seconds without an event after which a heartbeat is sent. It has the position if that has moved.
    """
    yield b"retry: 1000\n\n"
    now = sent_at = time.monotonic()
    end = now + life
    reached = sent_position = since
    while now < end:
        try:
            rows = feed.read(reached) if feed.wait(reached, max(0.0, min(sent_at + heartbeat, end) - now)) else []
        except StorageError:  # the client connects again, and gets the problem
            return
        text = b"".join(_event(shown) for row in rows if (shown := chosen.shown(row)) is not None)
        if rows:
            reached = rows[-1].seq
        now = time.monotonic()
        if text:
            sent_at, sent_position = now, reached
            yield text
        elif now >= sent_at + heartbeat:
            # An id without data is no event, but the client sends it when it connects again.
            yield b": heartbeat\n\n" if reached == sent_position else b": heartbeat\nid: %d\n\n" % reached
            sent_at, sent_position = now, reached


def _event(row: JournalRow) -> bytes:
    data = msgspec.json.encode(row.document())
    text: bytes = b"".join((b"id: %d\nevent: " % row.seq, row.change.encode(), b"\ndata: ", data, b"\n\n"))
    return text
