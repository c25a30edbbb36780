# SPDX-License-Identifier: Apache-2.0
"""``/v1/quarantine`` and ``/v1/parked``: the stored events that could not be applied, and those that wait.

A quarantined event could not be decoded or applied: list, show, replay and drop. A parked event waits for an entity
which does not exist yet.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.problems import not_found
from watcher_sync.api.http.rules import ADMIN, ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.commit.direct import DirectWriter
from watcher_sync.commit.replay import decoded_again
from watcher_sync.model.changes import Outcome
from watcher_sync.storage.stored.parking import ParkedEvents
from watcher_sync.storage.stored.quarantine import NoSuchEvent, Quarantine

_LIST = Rule("quarantine:list", ADMIN, reason="a reason quotes the refused value, which may be a secret of any project")

_STORED: schemas.Schema = {
    "id": {"type": "integer"},
    "event_id": schemas.STRING,
    "event_type": schemas.STRING,
    "source": schemas.STRING,
    "origin": schemas.STRING,
    "subject": schemas.STRING,
    "time": schemas.nullable(schemas.TIME),
    "deliveries": {"type": "integer"},
    "channel": schemas.nullable(schemas.STRING) | {"description": "The topic, queue or subject of the transport."},
    "stream_epoch": schemas.nullable({"type": "integer"}) | {"description": "Microseconds since 1970."},
    "stream_sequence": schemas.nullable({"type": "integer"}),
    "size": {"type": "integer", "description": "Bytes that are stored of it."},
}
"""What is shown of every stored event."""

_HEAD: schemas.Schema = _STORED | {
    "whole_size": schemas.nullable({"type": "integer"})
    | {"description": "Bytes of the whole body, if only an excerpt is stored."},
    "whole_digest": schemas.nullable(schemas.STRING)
    | {"description": "SHA-256 of the whole body, if only an excerpt is stored."},
    "actor": schemas.ACTOR,
    "received_at": schemas.TIME,
    "reason": schemas.STRING,
}

_ENTRY: schemas.Schema = {"type": "object", "required": list(_HEAD), "properties": _HEAD}

_WHOLE: schemas.Schema = {
    "type": "object",
    "required": [*_HEAD, "detail"],
    "properties": _HEAD
    | {
        "detail": schemas.STRING | {"description": "The traceback, if a handler failed."},
        "data": {"description": "The body, if it is JSON."},
        "text": schemas.STRING | {"description": "The body, if it is text but not JSON."},
        "base64": schemas.STRING | {"description": "The body, if it is neither."},
    },
}

_REPLAYED: schemas.Schema = {
    "type": "object",
    "required": ["outcome", "seq"],
    "properties": {
        "outcome": {"enum": ["applied", "stale", "duplicate", "ignored", "parked", "quarantined"]},
        "seq": schemas.SEQ | {"description": "The journal's seq after the commit."},
        "reason": schemas.nullable(schemas.STRING) | {"description": "Why it was refused again, if it was."},
    },
}

_COUNT: schemas.Schema = {"type": "integer", "minimum": 0}

_REASON: schemas.Schema = {
    "type": "object",
    "required": ["reason", "source", "count", "newest_id", "last_received_at"],
    "properties": {
        "reason": schemas.STRING | {"description": "With # for each number, if the events differ in it."},
        "source": schemas.STRING,
        "count": _COUNT,
        "newest_id": _COUNT | {"description": "The id of its latest event."},
        "last_received_at": schemas.TIME,
    },
}

_REASONS: schemas.Schema = {
    "type": "object",
    "required": ["total", "reasons"],
    "properties": {
        "total": _COUNT | {"description": "All events in quarantine, those of further reasons included."},
        "reasons": {"type": "array", "items": _REASON},
    },
}

_PARKED: schemas.Schema = _STORED | {
    "kind": schemas.STRING | {"description": "The kind of the entity that it waits for."},
    "entity_id": schemas.STRING | {"description": "The id of this entity."},
    "parked_at": schemas.TIME,
    "expires_at": schemas.TIME | {"description": "When it is dropped, unless the entity exists by then."},
}

_PARKED_ENTRY: schemas.Schema = {"type": "object", "required": list(_PARKED), "properties": _PARKED}

_MAX_ROW_ID = 2**63 - 1


class QuarantineList:
    """``/v1/quarantine``: the list of the events, without their bodies."""

    def __init__(self, service: Service) -> None:
        self._quarantine = Quarantine(service.store)
        self.on_get = operation(
            summary="List quarantined events, without their bodies",
            rule=_LIST,
            query=schemas.paging(service.max_limit)
            | {
                "marker": schemas.SEQ | {"description": "The page begins after this id."},
                "sort": {"enum": ["id", "-id"], "default": "id", "description": "-id: the latest first."},
                "reason": {
                    "type": "string",
                    "maxLength": 4000,
                    "description": "Events with this reason only; # is any text.",
                },
                "source": schemas.SHORT_TEXT | {"description": "Events of this source only."},
            },
            responses={200: Answer(schemas.collection("quarantine", _ENTRY))},
            tag="quarantine",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, sorted by id."""
        query = call.query
        rows = self._quarantine.page(
            after=query.get("marker"),
            limit=query["limit"] + 1,
            newest_first=query["sort"] == "-id",
            reason=query.get("reason"),
            source=query.get("source"),
        )
        call.answer_page("quarantine", rows, _id_of)


class QuarantinedEvent:
    """``/v1/quarantine/{id}``: one event."""

    def __init__(self, service: Service) -> None:
        self._quarantine = Quarantine(service.store)

    @operation(
        summary="Show a quarantined event with its body",
        rule=Rule("quarantine:show", ADMIN, reason="the body may have secrets of any project"),
        responses={200: Answer(_WHOLE)},
        errors=(404,),
        tag="quarantine",
    )
    def on_get(self, call: Call, event_id: str) -> None:
        """Answers with the event, its body and the reason."""
        with _found(event_id) as row_id:
            call.answer(self._quarantine.show(row_id))

    @operation(
        summary="Drop a quarantined event",
        rule=Rule("quarantine:drop", ADMIN, reason="the event is lost to every project"),
        responses={204: Answer(None, "The event is deleted")},
        errors=(404,),
        tag="quarantine",
    )
    def on_delete(self, call: Call, event_id: str) -> None:
        """Deletes the event."""
        with _found(event_id) as row_id:
            self._quarantine.drop([row_id])
        call.answer_nothing()


class QuarantineReplay:
    """``/v1/quarantine/{id}/replay``: applies one event again."""

    def __init__(self, service: Service, writer: DirectWriter) -> None:
        self._quarantine = Quarantine(service.store)
        self._writer = writer

    @operation(
        summary="Apply a quarantined event again",
        description="An event that is refused again stays in quarantine as it was, with the new reason.",
        rule=Rule("quarantine:replay", ADMIN, reason="the event may change every project"),
        responses={200: Answer(_REPLAYED, "The outcome")},
        errors=(404,),
        tag="quarantine",
    )
    def on_post(self, call: Call, event_id: str) -> None:
        """Commits the event again. In the same transaction its row is deleted, or gets the new reason."""
        with _found(event_id) as row_id:
            events = list(self._quarantine.events([row_id]))
        again = [decoded_again(*event) for event in events]
        outcomes, seq = self._writer.run(again, released=[row_id], actor=call.context.actor)
        answer: dict[str, Any] = {"outcome": outcomes[0].value, "seq": seq, "reason": None}
        if outcomes[0] is Outcome.QUARANTINED:
            answer["reason"] = self._quarantine.reasons_of([row_id]).get(row_id)
        call.answer(answer)


class QuarantineReasons:
    """``/v1/quarantine_reasons``: the events counted by reason and source, the latest reason first."""

    def __init__(self, service: Service) -> None:
        self._quarantine = Quarantine(service.store)
        self.on_get = operation(
            summary="Count quarantined events by reason and source",
            rule=_LIST,
            query={"limit": schemas.limit(service.max_limit, "The maximum number of reasons.")},
            responses={200: Answer(_REASONS)},
            tag="quarantine",
        )(self.count)

    def count(self, call: Call) -> None:
        """Answers with the latest reasons and the number of all events."""
        total, reasons = self._quarantine.reasons(limit=call.query["limit"])
        call.answer({"total": total, "reasons": [msgspec.structs.asdict(reason) for reason in reasons]})


class ParkedList:
    """``/v1/parked``: the list of the parked events, without their bodies."""

    def __init__(self, service: Service) -> None:
        self._parked = ParkedEvents(service.store)
        self.on_get = operation(
            summary="List parked events, without their bodies",
            rule=Rule("parked:list", ADMIN_OR_SYSTEM_READER),
            query=schemas.paging(service.max_limit)
            | {"marker": schemas.SEQ | {"default": 0, "description": "The page begins after this id."}},
            responses={200: Answer(schemas.collection("parked", _PARKED_ENTRY))},
            tag="quarantine",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, oldest first."""
        call.answer_page("parked", self._parked.page(after=call.query["marker"], limit=call.query["limit"] + 1), _id_of)


def _id_of(row: dict[str, Any]) -> int:
    number: int = row["id"]
    return number


@contextlib.contextmanager
def _found(event_id: str) -> Iterator[int]:
    """Yields the number of the event that a path names.

    :raises Problem: 404 when no event can have this id, or the block finds none.
    """
    is_number = event_id.isascii() and event_id.isdecimal() and len(event_id) <= 19
    if not is_number or int(event_id) > _MAX_ROW_ID:
        raise not_found(f"quarantined event {event_id}")
    try:
        yield int(event_id)
    except NoSuchEvent:
        raise not_found(f"quarantined event {event_id}") from None
