# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/events``: the journal as a page, as a long poll, and as a stream of server-sent events.

The changes come in the order of ``seq``, without a gap or repetition. To continue, a client sends the position of the
last answer: ``next_since`` of a page, or the id of the last event of a stream. The answer omits changes that only
raised a version.

A stream ends after ``[api] stream_max_age`` seconds. ``Last-Event-ID`` continues it.

The answer is 410 if the position is outside of the journal, or of another ``epoch``: start from the lists. A database
that goes back in time gets a new one.

A project gets the changes of its entities, without fields that tell of hosts.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Generator

import msgspec

from watcher_sync.api.edge.feed import Feed, ResponseStream, Slot
from watcher_sync.api.edge.rate_limits import identity_of
from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import JSON, Answer, Call, Rule, operation
from watcher_sync.api.http.pages import AnswerPage
from watcher_sync.api.http.positions import EPOCH, EPOCH_HEADER, QUERY, beyond, other_epoch, require_epoch
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.identity.visibility import BY_ACTOR, Visibility, is_by, sight_of
from watcher_sync.api.service import Service
from watcher_sync.exceptions import JournalPurged, StorageError
from watcher_sync.read import reading
from watcher_sync.storage.database.pages import MAX_PAGE_BYTES
from watcher_sync.storage.epochs import Position, read_position
from watcher_sync.storage.writing.journal import JournalRow, first_since
from watcher_sync.wire.fields import parse_time

EVENT_STREAM = "text/event-stream"

_MAX_SCANNED_ROWS = 10_000
"""Journal rows that the API reads for one page. A filtered page may end early; ``next_since`` has the position."""

_MAX_LAST_ROWS = 1_000
"""Rows of one query for the last changes."""

_PAGE: schemas.Schema = {
    "type": "object",
    "required": ["events", "next_since", "head", "epoch"],
    "properties": {
        "events": {"type": "array", "items": schemas.JOURNAL_ROW},
        "next_since": schemas.SEQ | {"description": "The since of the next request."},
        "head": schemas.SEQ | {"description": "The seq of the last change in the journal."},
        "epoch": {**EPOCH, "description": "The epoch of these positions, for the next request."},
    },
}

_NOTICE_SECONDS = 2.0
"""How long a request waits for the epoch of a database that went back in time."""
_NO_SEQ = 2**63


class ChangeFilter(msgspec.Struct, frozen=True):
    """The changes that the request chooses, and what the caller sees of them."""

    kind: str | None
    entity_id: str | None
    sight: Visibility
    actor: str | None = None

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
        found = self.sight.shown(row)
        return found if found is not None and is_by(self.actor, found) else None


class Events:
    """``GET /v1/events``."""

    def __init__(self, service: Service, feed: Feed) -> None:
        query = {
            "since": {
                "type": ["integer", "string"], "minimum": 0, "maximum": 2**63 - 1, "format": "date-time",
                "description": "The answer begins after this seq, or with the first change of this time or later. "
                "Without it, a page has the last changes, and a long poll or a stream begins at the journal's end.",
            },
            "epoch": QUERY,
            "limit": schemas.limit(
                service.max_limit, "The maximum number of changes on a page; a stream has no limit."
            ),
            "wait": {
                "type": "number", "minimum": 0, "maximum": 60, "default": 0,
                "description": "Seconds to wait if there is no change yet (long poll).",
            },
            "kind": {"enum": sorted(service.kinds), "description": "Changes of this kind only."},
            "id": schemas.SHORT_TEXT | {"description": "Changes of the entity with this id only."},
            "actor": BY_ACTOR,
            **schemas.all_projects("the changes"),
        }  # fmt: skip
        self._service = service
        self._feed = feed
        self.on_get = operation(
            summary="Read the changes of the model, or wait for them",
            description=__doc__ or "",
            rule=Rule("events:list", PROJECT_READER),
            query=query,
            headers={"Last-Event-ID": {"type": "string", "pattern": "^[0-9]{0,18}$"}},
            responses={
                200: Answer(
                    _PAGE, "A page or a stream of changes", headers=(EPOCH_HEADER,), media_types=(JSON, EVENT_STREAM)
                )
            },
            errors=(410,),
            tag="events",
            streams=True,
        )(self.read)

    def read(self, call: Call) -> None:
        """Answers with a stream if the client prefers one, else with a page, after waiting for a change if asked."""
        sight = sight_of(call, self._service.kinds)
        chosen = ChangeFilter(call.query.get("kind"), call.query.get("id"), sight, call.query.get("actor"))
        if call.request.client_prefers((JSON, EVENT_STREAM)) == EVENT_STREAM:
            _stream(self._service, self._feed, call, chosen)
        else:
            _page(self._service, self._feed, call, chosen)


def _page(service: Service, feed: Feed, call: Call, chosen: ChangeFilter) -> None:
    since = _since(service, call)
    limit, wait = call.query["limit"], call.query["wait"]
    if since is None and not wait:
        documents, position = _read_last(service, limit, chosen)
        call.response.set_header(EPOCH_HEADER, position.epoch)
        _answer(call, documents, position.seq, position)
        return
    head = feed.position()
    since = _start(call, since, head)
    try:
        found, reached = _scan(feed, since, limit, chosen)
        if not found and wait:
            identity = identity_of(call.request.env)
            slot = feed.take_slot(identity)
            try:
                deadline = time.monotonic() + wait
                while not found and (left := deadline - time.monotonic()) > 0 and feed.wait(reached, left, head.epoch):
                    found, reached = _scan(feed, reached, limit, chosen)
                if not feed.is_of(head.epoch):
                    raise other_epoch(feed.position())
            finally:
                slot.release()
            if found:
                feed.refund(identity)
    except JournalPurged:
        now = feed.position()
        if now.epoch == head.epoch and now.seq >= head.seq:
            feed.read_stored(since, 1)  # raises if rows after the client's position were purged
        # The journal may end before what was read, because the database went back in time a moment ago.
        feed.wait(_NO_SEQ, _NOTICE_SECONDS, head.epoch)
        if feed.is_of(head.epoch):
            raise
        raise other_epoch(feed.position()) from None
    _answer(call, found, reached, head)


def _since(service: Service, call: Call) -> int | None:
    """The seq after which the answer begins; None: the request has none; 0: the journal does not reach back as far."""
    since: int | str | None = call.query.get("since")
    if not isinstance(since, str):
        return since
    with service.reading() as connection:
        first = first_since(connection, service.tables, parse_time(since, "since"))
        return 0 if first == reading.oldest_seq(connection, service.tables) else first - 1


def _read_last(service: Service, limit: int, chosen: ChangeFilter) -> tuple[list[msgspec.Raw], Position]:
    """Read the last chosen changes, backwards from the end of the journal.

    :returns: at most ``limit`` changes in order, and the journal's end. The changes are among the last 10,000 rows of
        the kind and the entity, of about 8 MiB.
    """
    page = AnswerPage(limit)
    before: int | None = None
    count, scanned, size = limit, 0, 0
    with service.reading() as connection:
        position = read_position(connection, service.tables)
        head = position.seq
        while not page.is_full and scanned < _MAX_SCANNED_ROWS and size < MAX_PAGE_BYTES:
            rows = reading.read_last(
                connection,
                service.tables,
                count,
                kind=chosen.kind,
                entity_id=chosen.entity_id,
                project_id=chosen.sight.project_id,
                before=before,
            )
            if not rows:
                break
            head, before = max(head, rows[-1].seq), rows[0].seq
            for row in itertools.takewhile(lambda _: not page.is_full, reversed(rows)):
                if (shown := chosen.shown(row.undecoded())) is not None:
                    page.add(shown.document())
            scanned += len(rows)
            size += sum(row.size for row in rows)
            count = min(2 * count, max(limit, _MAX_LAST_ROWS))
    return page.documents[::-1], Position(position.epoch, head, None)


def _answer(call: Call, events: list[msgspec.Raw], reached: int, head: Position) -> None:
    call.answer({"events": events, "next_since": reached, "head": max(head.seq, reached), "epoch": head.epoch})


def _scan(feed: Feed, since: int, limit: int, chosen: ChangeFilter) -> tuple[list[msgspec.Raw], int]:
    """Reads the chosen changes after ``since``.

    :returns: at most ``limit`` changes of about 8 MiB, and the seq up to which there is no further one.
    """
    page = AnswerPage(limit)
    reached, size = since, 0
    while reached - since < _MAX_SCANNED_ROWS and size < MAX_PAGE_BYTES:
        rows = feed.read_stored(reached)
        if not rows:
            break
        for row in rows:
            reached = row.seq
            if (shown := chosen.shown(row.undecoded())) is not None:
                page.add(shown.document())
                if page.is_full:
                    return page.documents, reached
        size += sum(row.size for row in rows)
    return page.documents, reached


def _start(call: Call, since: int | None, head: Position) -> int:
    """The seq after which the answer begins.

    :raises Problem: 410 when the position is after the journal's end, or of another epoch.
    """
    if since is None:
        call.response.set_header(EPOCH_HEADER, head.epoch)
        return head.seq
    require_epoch(call, head)
    if since > head.seq:
        raise beyond(since, head)
    return since


def _stream(service: Service, feed: Feed, call: Call, chosen: ChangeFilter) -> None:
    since = _since(service, call)
    last = call.request.get_header("Last-Event-ID")
    if last:
        since = int(last)
    slot = feed.take_slot(identity_of(call.request.env))
    try:
        head = feed.position()
        since = _start(call, since, head)
        if since < head.seq:
            feed.read_stored(since, 1)  # raises JournalPurged before the stream begins, so that the answer is 410
    except BaseException:
        slot.release()
        raise
    response = call.response
    response.content_type = EVENT_STREAM
    response.set_header("X-Accel-Buffering", "no")
    settings = service.conf.api
    response.stream = stream_of(
        feed, slot, since, chosen, life=settings.stream_max_age, heartbeat=settings.stream_heartbeat, epoch=head.epoch
    )


def stream_of(
    feed: Feed, slot: Slot, since: int, chosen: ChangeFilter, *, life: float, heartbeat: float, epoch: str | None = None
) -> ResponseStream:
    """Returns the changes after ``since`` as server-sent events. The end of the stream releases its slot.

    :param epoch: the epoch of ``since``; the stream ends with it.
    """
    return ResponseStream(_chunks(feed, since, chosen, life=life, heartbeat=heartbeat, epoch=epoch), slot.release)


def _chunks(
    feed: Feed, since: int, chosen: ChangeFilter, *, life: float, heartbeat: float, epoch: str | None
) -> Generator[bytes, None, None]:
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
            has_rows = feed.wait(reached, max(0.0, min(sent_at + heartbeat, end) - now), epoch)
            rows = feed.read_stored(reached) if has_rows and feed.is_of(epoch) else []
        except StorageError:  # the client connects again, and gets the problem
            return
        if not feed.is_of(epoch):
            return
        text = b"".join(_event(shown) for row in rows if (shown := chosen.shown(row.undecoded())) is not None)
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
