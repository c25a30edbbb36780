# SPDX-License-Identifier: Apache-2.0
"""``/vnflcm/v2/vnf_instances``: the VNF instances for clients of ETSI GS NFV-SOL 003, read-only.

A list is an array, its selectors are those of SOL013, and the next page is in the header ``Link``. An instance has the
attributes of SOL003 alone. The rules of the policy are those of ``/v1/vnf_instances``.

Source: ETSI GS NFV-SOL 003, 5.4.2 and 5.4.3; ETSI GS NFV-SOL 013, 5.2, 5.3, 5.4 and 9.
"""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from typing import Any, Final

import falcon

from watcher_sync.api.entities.entity_collection import Collection
from watcher_sync.api.entities.entity_item import EntityItem
from watcher_sync.api.http import schemas
from watcher_sync.api.http.openapi import Route
from watcher_sync.api.http.operation import Answer, Call, operation
from watcher_sync.api.http.problems import Problem
from watcher_sync.api.service import Service
from watcher_sync.extensions.vnf.api import sol003
from watcher_sync.extensions.vnf.api.instances import EXCLUDED, FILTER, KIND, SELECTORS, read_page, selection_of
from watcher_sync.model.visibility import Hidden

PATH: Final = "/vnflcm/v2/vnf_instances"
VERSION: Final = "2.0.0"
"""Of the interface; SOL003 has it in the header ``Version`` of each answer."""

_MARKER: Final = "nextpage_opaque_marker"
_NAMES: Final = ("id", *sol003.ATTRIBUTES)
_SCHEMA: Final[schemas.Schema] = {
    "type": "object",
    "properties": {"id": schemas.STRING, **sol003.ATTRIBUTES},
    "additionalProperties": False,
}


class VnfLcmList:
    """``/vnflcm/v2/vnf_instances``."""

    def __init__(self, collection: Collection) -> None:
        self._collection = collection
        self.on_get = operation(
            summary="List the VNF instances in the form of SOL003",
            rule=collection.rules["list"],
            query={**SELECTORS, "filter": FILTER, _MARKER: {"type": "string", "maxLength": 2000}},
            responses={200: Answer({"type": "array", "items": _SCHEMA}, headers=("Version", "Link"))},
            errors=(404,),
            tag="vnflcm",
        )(self.list_page)

    def list_page(self, call: Call) -> None:
        """Answers with one page."""
        chosen = selection_of(call, _NAMES, excluded_by_default=EXCLUDED)
        asked = dict(call.query)
        call.query.update(limit=self._collection.service.max_limit, sort="id")
        if _MARKER in asked:
            call.query["marker"] = asked[_MARKER]
        documents, marker, _ = read_page(self._collection, call, chosen, _NAMES, _document)
        call.response.set_header("Version", VERSION)
        if marker is not None:
            given = [(n, ",".join(v) if isinstance(v, list) else v) for n, v in asked.items() if n != _MARKER]
            query = urllib.parse.urlencode([*given, (_MARKER, marker)])
            call.response.append_header("Link", f'<{call.link()}?{query}>; rel="next"')
        call.answer(documents)


class VnfLcmItem(EntityItem):
    """``/vnflcm/v2/vnf_instances/{id}``."""

    def parameters(self) -> dict[str, schemas.Schema]:
        """The query parameters and their schemas."""
        return dict(SELECTORS)

    def schema(self) -> schemas.Schema:
        """The schema of an instance."""
        return _SCHEMA

    def chosen(self, call: Call) -> Sequence[str]:
        """None of the own fields."""
        return ()

    def selected(self, row: dict[str, Any], call: Call, hidden: Hidden) -> dict[str, Any]:
        """Returns the chosen attributes of SOL003."""
        call.response.set_header("Version", VERSION)
        return selection_of(call, _NAMES).of(_document(self.collection, call, row, hidden, complete=True))


def _document(
    collection: Collection, call: Call, row: dict[str, Any], hidden: Hidden, *, complete: bool
) -> dict[str, Any]:
    document = {"id": row["id"], **sol003.attributes(row, call.link(PATH, row["id"]))}
    return {**document, sol003.NAME: sol003.instantiated(row)} if complete else document


def refuse(req: falcon.Request, resp: falcon.Response, **_more: Any) -> None:
    """Answers for the resources of SOL003 that are not offered."""
    raise Problem(501, f"Not offered: {PATH} is read-only, and the only resource of SOL003 here")


def routes(service: Service) -> list[Route]:
    """The list and the items, and the answer for every other resource of SOL003."""
    kind = service.kinds.get(KIND)
    if kind is None:
        return []
    collection = Collection(service, kind)
    return [
        (PATH, VnfLcmList(collection)),
        (f"{PATH}/{{entity_id}}", VnfLcmItem(collection)),
        ("/vnflcm/*", refuse),
    ]
