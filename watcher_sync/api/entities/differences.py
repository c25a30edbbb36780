# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/diff``: what changed of each entity between two moments, each a seq or a time.

An entity that differs is created, updated or deleted, with the old and the new values of the fields that differ. One
that is as it was is left out. The pages show the same two moments, whatever is written meanwhile.

A project gets the changes of its entities, without fields that tell of hosts, as from ``/v1/events``.
"""

from __future__ import annotations

from typing import Any

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import AS_OF_ANSWER, MOMENT, QUERY, asked_moment, present
from watcher_sync.api.http.problems import bad_request
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.identity.visibility import Visibility, sight_of
from watcher_sync.api.service import Service
from watcher_sync.model.model import Key
from watcher_sync.read.differences import read_differences
from watcher_sync.read.past.moments import PastMoment, moment_of
from watcher_sync.storage.writing.journal import JournalRow

_DIFFERENCE: schemas.Schema = {
    "type": "object",
    "required": ["kind", "id", "name", "change", "fields", "seq"],
    "properties": {
        "kind": schemas.STRING,
        "id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "null: it has no name, or its kind has none."},
        "change": {"enum": ["created", "updated", "deleted"]},
        "fields": {
            "type": "object",
            "description": "field -> [old, new] of the fields that differ",
            "additionalProperties": {"type": "array", "minItems": 2, "maxItems": 2},
        },
        "seq": schemas.SEQ | {"description": "Its last change between the moments."},
    },
}


class Diff:
    """``GET /v1/diff``."""

    def __init__(self, service: Service) -> None:
        moments = {"from": AS_OF_ANSWER, "to": AS_OF_ANSWER}
        self._service = service
        self.on_get = operation(
            summary="Compare the model at two moments",
            description=__doc__ or "",
            rule=Rule("diff:list", PROJECT_READER),
            query={
                "from": MOMENT | {"description": "The earlier moment: a seq or a time."},
                "to": MOMENT | {"description": "The later moment: a seq or a time; the present by default."},
                "epoch": QUERY,
                "kind": {"enum": sorted(service.kinds), "description": "Entities of this kind only."},
                **schemas.all_projects("the entities"),
                **schemas.paging(service.max_limit),
            },
            responses={200: Answer(schemas.collection("differences", _DIFFERENCE, **moments), "A page")},
            required=("from",),
            errors=(410,),
            tag="events",
        )(self.compare)

    def compare(self, call: Call) -> None:
        """Answers with one page, by kind and id."""
        service, sight = self._service, sight_of(call, self._service.kinds)
        with service.reading() as connection:
            head = present(call, connection, service.tables)
            since = asked_moment(call, connection, service.tables, head, "from")
            upto = asked_moment(call, connection, service.tables, head, "to")
            if upto is None:
                upto = moment_of(connection, service.tables, head, head.seq)
                call.query["to"] = upto.seq  # for the next page
            assert since is not None  # it is required
            if since.seq > upto.seq:
                raise bad_request("query", "/from", "from is after to")
            found = read_differences(
                connection,
                service.tables,
                service.kinds,
                since.seq,
                upto.seq,
                kind=call.query.get("kind"),
                project_id=sight.project_id,
                after=_after(call),
                limit=int(call.query["limit"]),
                shown=lambda row: _shown(sight, row),
                unnamed=[
                    name
                    for name, kind in service.kinds.items()
                    if kind.name_field is not None and sight.hidden.get(name, {}).get(kind.name_field) == ()
                ],
            )
        marker = None if found.last is None else ",".join(found.last)
        documents = [msgspec.structs.asdict(each) for each in found.found]
        call.answer({"differences": documents, **call.next_page(marker), "from": _moment(since), "to": _moment(upto)})


def _shown(sight: Visibility, row: JournalRow) -> JournalRow | None:
    return sight.shown(row) if sight.sees(row.project_id) else None


def _moment(moment: PastMoment) -> dict[str, Any]:
    return {"seq": moment.seq, "time": moment.time}


def _after(call: Call) -> Key | None:
    """:raises Problem: 400 when the marker is none."""
    marker = call.query.get("marker")
    if marker is None:
        return None
    kind, comma, entity_id = marker.replace("\0", "").partition(",")
    if not comma:
        raise bad_request("query", "/marker", "marker is no next_marker of a page")
    return kind, entity_id
