# SPDX-License-Identifier: Apache-2.0
"""``/v1/parked``: the events that wait for an entity which does not exist yet."""

from __future__ import annotations

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.rules import ADMIN
from watcher_sync.api.service import Service
from watcher_sync.storage.stored.parking import ParkedEvents

_INTEGER: schemas.Schema = {"type": "integer"}

_FIELDS: schemas.Schema = {
    "id": _INTEGER,
    "event_id": schemas.STRING,
    "event_type": schemas.STRING,
    "source": schemas.STRING,
    "origin": schemas.STRING,
    "subject": schemas.STRING,
    "time": schemas.nullable(schemas.TIME),
    "deliveries": _INTEGER,
    "channel": schemas.nullable(schemas.STRING) | {"description": "The topic, queue or subject of the transport."},
    "stream_epoch": schemas.nullable(_INTEGER) | {"description": "Microseconds since 1970."},
    "stream_sequence": schemas.nullable(_INTEGER),
    "size": _INTEGER | {"description": "Bytes that are stored of it."},
    "kind": schemas.STRING | {"description": "The kind of the entity that it waits for."},
    "entity_id": schemas.STRING | {"description": "The id of this entity."},
    "parked_at": schemas.TIME,
    "expires_at": schemas.TIME | {"description": "When it is dropped, unless the entity exists by then."},
}

_ENTRY: schemas.Schema = {"type": "object", "required": list(_FIELDS), "properties": _FIELDS}


class ParkedList:
    """``/v1/parked``: the list of the events, without their bodies."""

    def __init__(self, service: Service) -> None:
        self._parked = ParkedEvents(service.store)
        self.on_get = operation(
            summary="List parked events, without their bodies",
            rule=Rule("parked:list", ADMIN),
            query=schemas.paging(service.max_limit)
            | {"marker": schemas.SEQ | {"default": 0, "description": "The page begins after this id."}},
            responses={200: Answer(schemas.collection("parked", _ENTRY))},
            tag="quarantine",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page, oldest first."""
        limit = call.query["limit"]
        rows = self._parked.page(after=call.query["marker"], limit=limit + 1)
        marker = rows[limit - 1]["id"] if len(rows) > limit else None
        call.answer({"parked": rows[:limit], **call.next_page(marker)})
