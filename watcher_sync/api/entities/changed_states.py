# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/states``: the present states of all entities that changed after a position, for a copy of the model.

The answer has each of these entities once, with its versions, however often it changed. An entity that exists no more
is in ``deleted``, with its versions. A change that only raised a version counts, too. To continue, a client sends
``next_since`` of the last answer. It has everything when ``next_since`` equals ``head``.

A state may be newer than ``next_since``, and another answer may then have it again. The versions tell which one of two
states is newer, facet by facet.

The answer is 410 if the position is outside of the journal. The client must start from the lists.
"""

from __future__ import annotations

import msgspec

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import QUERY, present
from watcher_sync.api.http.rules import ADMIN_OR_SYSTEM_READER
from watcher_sync.api.service import Service
from watcher_sync.read.changed_states import ChangedStates

MAX_LIMIT = 10_000
"""Entities of one answer, whatever the limit of pages: a follower of this API relies on it."""

_VERSIONS: schemas.Schema = {"type": "object", "additionalProperties": schemas.STRING}
_PAGE: schemas.Schema = {
    "type": "object",
    "required": ["states", "deleted", "next_since", "head"],
    "properties": {
        "states": {
            "type": "object",
            "description": "kind -> entities with all fields of the list, and versions (facet -> version text).",
            "additionalProperties": {"type": "array", "items": {"type": "object"}},
        },
        "deleted": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["kind", "id", "seq", "time", "versions"],
                "properties": {
                    "kind": schemas.STRING,
                    "id": schemas.STRING,
                    "seq": schemas.SEQ,
                    "time": schemas.TIME,
                    "versions": _VERSIONS,
                },
            },
        },
        "next_since": schemas.SEQ | {"description": "The since of the next request."},
        "head": schemas.SEQ | {"description": "The seq of the last change in the journal."},
    },
}


class ChangedStateList:
    """``GET /v1/states``."""

    def __init__(self, service: Service) -> None:
        self._service = service
        readers = {name: Collection(service, kind).states for name, kind in service.kinds.items()}
        self._states = ChangedStates(service.tables, readers)
        self.on_get = operation(
            summary="Read the states of what changed after a position",
            description=__doc__ or "",
            rule=Rule("states:list", ADMIN_OR_SYSTEM_READER),
            query={
                "since": schemas.SEQ | {"default": 0, "description": "The answer begins after this seq."},
                "limit": schemas.limit(
                    MAX_LIMIT, "The maximum number of entities. An answer of about 8 MiB has fewer.", default=1_000
                ),
                "epoch": QUERY,
            },
            responses={200: Answer(_PAGE, "The states")},
            errors=(410,),
            tag="events",
        )(self.read)

    def read(self, call: Call) -> None:
        """Answers with one page."""
        call.context.require_everything()
        with self._service.reading() as connection:
            present(call, connection, self._service.tables)
            page = self._states.read(connection, call.query["since"], call.query["limit"])
        call.answer(msgspec.structs.asdict(page))
