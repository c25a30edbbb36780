# SPDX-License-Identifier: Apache-2.0
"""``GET /v1/search``: entities of all kinds whose name or id is, begins with, or contains a text.

A caller finds what it may list: the kinds whose rule ``{plural}:list`` allows it, and of them the entities of its
project. Upper and lower case differ, as in filters. With ``as_of`` it finds what there was then.
"""

from __future__ import annotations

from typing import Any

import msgspec

from watcher_sync.api.http import schemas
from watcher_sync.api.http.operation import Answer, Call, Rule, operation
from watcher_sync.api.http.positions import AS_OF, AS_OF_ANSWER, AS_OF_HEADER, PARAMETERS
from watcher_sync.api.http.request_context import RequestContext
from watcher_sync.api.http.rules import PROJECT_READER
from watcher_sync.api.service import Service
from watcher_sync.model.kinds import Kind
from watcher_sync.read import search

MAX_HITS = 100

_HIT: schemas.Schema = {
    "type": "object",
    "required": ["kind", "id", "name", "project_id"],
    "properties": {
        "kind": schemas.STRING,
        "id": schemas.STRING,
        "name": schemas.nullable(schemas.STRING) | {"description": "null: it has no name, or its kind has none."},
        "project_id": schemas.nullable(schemas.STRING),
    },
}

_HITS: schemas.Schema = {
    "type": "object",
    "required": ["results", "more", "seq"],
    "properties": {
        "results": {"type": "array", "items": _HIT, "description": "Whole names and ids first, then beginnings."},
        "more": {"type": "boolean", "description": "Whether there are further ones; a longer text finds them."},
        "seq": schemas.SEQ | {"description": "The journal's seq at which the answer was read."},
        AS_OF: AS_OF_ANSWER,
    },
}


class Search:
    """``/v1/search``."""

    def __init__(self, service: Service) -> None:
        most = min(MAX_HITS, service.max_limit)
        self._service = service
        self.on_get = operation(
            summary="Find entities of all kinds by name or id",
            description=__doc__ or "",
            rule=Rule("search:list", PROJECT_READER),
            query={
                "q": schemas.SHORT_TEXT | {"description": "A name, an id, or a part of one."},
                "kind": {"enum": sorted(service.kinds), "description": "Entities of this kind only."},
                "limit": schemas.limit(most, "The maximum number of results.", default=20),
                **PARAMETERS,
            },
            responses={200: Answer(_HITS, headers=(AS_OF_HEADER,))},
            required=("q",),
            errors=(410,),
            tag="search",
        )(self.find)

    def find(self, call: Call) -> None:
        """Answers with the best hits."""
        service, query = self._service, call.query
        kinds = {
            name: kind
            for name, kind in service.kinds.items()
            if query.get("kind", name) == name and _may_search(call.context, kind)
        }
        limit: int = query["limit"]
        with service.source(call, list(kinds), short=True) as source:
            hits = search.search(source.connection, service.tables, kinds, call.context.scope, query["q"], limit + 1)
        results = [_document(hit) for hit in hits[:limit]]
        call.answer({"results": results, "more": len(hits) > limit, **source.about()})


def _may_search(context: RequestContext, kind: Kind) -> bool:
    is_name_hidden = kind.name_field is not None and context.hidden(kind).get(kind.name_field) == ()
    return context.may(f"{kind.plural}:list") and not is_name_hidden


def _document(hit: search.Hit) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(hit).items() if name != "rank"}
